// cuDNN's graphs, built once a shape and kept. Its headers stay out of sight (dnn.cpp is the one file that includes
// them, they take a minute); nothing here is freed while a captured graph may still use it.
#pragma once
#include <cuda_runtime.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/cuda/tuning.h"
#include "ops/ops.h"

namespace zoetrope::cuda {

class Dnn {
 public:
  static constexpr size_t workspace = size_t{64} << 20;

  Dnn(int capability, Tuning& tuning);  // nothing is loaded before the first use
  ~Dnn();
  Dnn(const Dnn&) = delete;
  Dnn& operator=(const Dnn&) = delete;

  // softmax(scale q k^T) v in bf16 with device-side lengths: int32 [2] at `lengths`, queries then keys, both at
  // least 1. Always this one kind of plan, so that padding of the layout cannot change a bit (docs/decisions/0104).
  static bool attends(const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& options);
  void attention(cudaStream_t stream, const Heads& q, const Heads& k, const Heads& v, float scale, int32_t* lengths,
                 const Partial& out, void* work);

  // A convolution of bf16 frames, channels last, in strides of their own: x [T + kt - 1, H, W, I] with zeros around
  // (`rows`, `columns` on both sides), y [T, H', W', O] whose frames lie y_frame elements apart.
  // Bias (bf16 or fp32) may be undefined. false: no plan that keeps a pixel's bits in every cut of the picture.
  struct Convolution {
    Tensor x, w, bias, y;
    int64_t y_frame = 0;
    int rows = 0, columns = 0, stride = 1;
  };
  bool convolve(cudaStream_t stream, const Convolution& conv, void* work);

  std::vector<std::string> plans() const;

 private:
  struct Library;
  struct Plan;
  Library& library(cudaStream_t stream);
  Plan build_attention(cudaStream_t stream, const Heads& q, const Heads& k, const Heads& v, float scale);
  Plan offer_convolution(cudaStream_t stream, const Convolution& conv);
  Plan build_convolution(cudaStream_t stream, const Convolution& conv);
  Plan measure_convolution(cudaStream_t stream, const Convolution& conv, void* work);

  int capability_;
  Tuning& tuning_;
  std::map<cudaStream_t, std::unique_ptr<Library>> libraries_;
  std::map<std::string, std::unique_ptr<Plan>> plans_;
};

}  // namespace zoetrope::cuda
