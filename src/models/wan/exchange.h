// What a transformer of a mesh sends with, and the slots of c.exchange() that its messages use: the strategy of
// self-attention, the sums of tensor parallelism, and the gather at the end. Experts that take turns share one.
#pragma once
#include <memory>

#include "attn/strategy.h"
#include "comm/slot.h"
#include "nn/tensor_parallel.h"

namespace zoetrope {

struct WanExchange {
  // `mesh` null: one rank; else it must outlive this. `attention` null: that of the mesh.
  explicit WanExchange(Ctx& c, const Mesh* mesh = nullptr, std::unique_ptr<attn::Attention> attention = nullptr);

  const Mesh* mesh;
  std::unique_ptr<attn::Attention> attention;
  nn::TensorParallel tp;
  Slot velocity;  // of all ranks' tokens
};

}  // namespace zoetrope
