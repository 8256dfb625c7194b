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

  Heads get(Ctx& c, attn::Projection which) override;
  void put(Ctx& c, attn::Projection which, const HeadParts& to) override;
  bool put_all(Ctx& c, const HeadParts& q, const HeadParts& k, const HeadParts& v) override;

 private:
  Heads project(Ctx& c, attn::Projection which) const;
  const Tensor& norm(attn::Projection which) const;
  void rotate(Ctx& c, const std::vector<nn::TensorParallel::Normed>& parts) const;
  void tap(Ctx& c, attn::Projection which, const HeadParts& x) const;

  const Tensor& x_;
  Weights weights_;
  const Rope& rope_;
  std::string tap_;
};

}  // namespace zoetrope
