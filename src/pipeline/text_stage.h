// Prompts to text vectors on the ranks of a mesh.
//
// The text encoder lies on one tensor parallel group of each CFG half, that of sequence rank 0; the other ranks do not
// load it. It encodes the prompts of its half's streams and broadcasts each result over the sequence. The vectors of
// the last prompts are kept on the host by every rank: a prompt that comes again needs no encoder.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "mesh/mesh.h"
#include "models/source.h"
#include "models/umt5/umt5.h"

namespace zoetrope {

class TextStage {
 public:
  using Prompts = std::vector<std::span<const int32_t>>;  // token ids of all streams, 1 the negative one

  TextStage(const ModelSource& source, DType dtype, const Mesh& mesh);  // reads no weights

  bool loaded() const { return loaded_; }
  void load(Ctx& c);  // on ranks without an encoder nothing
  void drop(Ctx& c);

  // Which streams are not kept by all: those have to be encoded. All ranks of the world get the same.
  std::vector<bool> unknown(Ctx& c, const Prompts& prompts, const std::vector<int>& own) const;

  // -> [512, C] in the request region for each of `own`. Needs the encoder for what is unknown. All ranks of the world
  // call it alike; AgreedError where a result is not finite.
  std::vector<Tensor> encode(Ctx& c, const Prompts& prompts, const std::vector<int>& own,
                             const std::vector<bool>& unknown);

 private:
  struct Kept {
    std::vector<int32_t> ids;
    std::vector<std::byte> vectors;  // empty: none
  };

  bool here() const { return mesh_.sequence_index() == 0; }  // this rank holds the encoder
  bool keeps(int stream, std::span<const int32_t> ids) const;
  Tensor fresh(Ctx& c, std::span<const int32_t> ids) const;
  void keep(Ctx& c, int stream, std::span<const int32_t> ids, const Tensor& text);

  const ModelPart& part_;
  const Mesh& mesh_;
  DType dtype_;
  Umt5Config config_;
  std::optional<Umt5Encoder> encoder_;  // outlives its weights: it has slots of the exchange region
  bool loaded_ = false;
  std::array<Kept, 2> kept_;
};

}  // namespace zoetrope
