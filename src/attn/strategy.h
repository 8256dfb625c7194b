// The attention of a mesh: dense inside, the context axis around it, Ulysses outermost.
#pragma once
#include <memory>
#include <vector>

#include "attn/ulysses.h"
#include "mesh/mesh.h"

namespace zoetrope::attn {

// How a strategy does its work, where there is a choice; results agree within docs/numerics.md.
struct Forms {
  UlyssesForm ulysses = UlyssesForm::separate;
  bool pipelined = false;  // Attention2D starts on its own block
};

std::vector<Forms> forms_of(const MeshShape& shape);  // all that make a difference on it

// The mesh must outlive it; slots are taken from c.exchange() by reserve(). `inner` does the arithmetic; null: Dense.
std::unique_ptr<Attention> make_attention(Ctx& c, const Mesh& mesh, const Forms& forms = {},
                                          std::unique_ptr<Attention> inner = nullptr);

}  // namespace zoetrope::attn
