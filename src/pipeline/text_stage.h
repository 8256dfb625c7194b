// Prompts to text vectors on the ranks of a mesh.
//
// The text encoder lies on one tensor parallel group of each CFG half, that of sequence rank 0; the other ranks do not
// load it. It encodes the prompts of its half's streams and broadcasts each result over the sequence. The negative
// prompt is the same for most requests, so every rank keeps its last one's vectors on the host.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "mesh/mesh.h"
#include "models/source.h"
#include "models/umt5/umt5.h"

namespace zoetrope {

class TextStage {
 public:
  TextStage(Ctx& c, const ModelSource& source, DType dtype, const Mesh& mesh);

  // prompts: token ids of all streams, 1 the negative one. -> [512, C] in the request region for each of `own`. All
  // ranks of the world call it alike; AgreedError where a result is not finite.
  std::vector<Tensor> encode(Ctx& c, const std::vector<std::span<const int32_t>>& prompts, const std::vector<int>& own);

 private:
  bool keeps(int stream, std::span<const int32_t> ids) const;
  Tensor fresh(Ctx& c, std::span<const int32_t> ids) const;
  void keep(Ctx& c, std::span<const int32_t> ids, const Tensor& text);

  const Mesh& mesh_;
  DType dtype_;
  int64_t dim_;
  std::optional<Umt5Encoder> encoder_;
  std::vector<int32_t> kept_ids_;  // of the negative prompt
  std::vector<std::byte> kept_;    // its vectors, empty: none
};

}  // namespace zoetrope
