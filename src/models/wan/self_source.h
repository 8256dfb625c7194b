// Queries, keys and values of a Wan self-attention, for a strategy to pull (attn/attention.h).
#pragma once
#include <string>

#include "attn/attention.h"
#include "nn/tensor_parallel.h"

namespace zoetrope {

class WanSelfSource : public attn::Source {
 public:
  struct Weights {
    const nn::TensorParallel& tp;
    const nn::Linear& qkv;          // [3C', C], C' = D times the heads of this rank
    const Tensor &norm_q, &norm_k;  // [C']
    float eps;
  };
  // x[S, C]: the layer's normed input. `tap` is the prefix of the taps' names. All are borrowed.
  WanSelfSource(const Tensor& x, const Weights& weights, const Rope& rope, const attn::Geometry& geometry,
                std::string tap);

  Heads q(Ctx& c, const Heads* want) override;
  Heads k(Ctx& c, const Heads* want) override;
  Heads v(Ctx& c, const Heads* want) override;
  bool packed(Ctx& c, const Heads& q, const Heads& k, const Heads& v) override;

 private:
  Heads project(Ctx& c, int64_t part) const;
  Heads rotated(Ctx& c, const Heads& from, const Tensor& norm, const Heads* want) const;
  void rotate(Ctx& c, const std::vector<nn::TensorParallel::Normed>& parts) const;
  void tap(Ctx& c, const char* name, const Heads& x) const;

  const Tensor& x_;
  Weights weights_;
  const Rope& rope_;
  std::string tap_;
};

}  // namespace zoetrope
