// How a request is spread over ranks: the mesh, and the forms of its strategies.
#pragma once
#include <string>
#include <vector>

#include "attn/strategy.h"
#include "config/settings.h"
#include "mesh/shape.h"
#include "models/source.h"

namespace zoetrope {

struct Layout {
  MeshShape shape;
  attn::Forms forms;

  std::string text() const;  // "cfg 2 x ulysses 2, packed, vae 2 by height"
  // Are its results one rank's, bit by bit (docs/numerics.md)?
  bool exact() const { return shape.tp == 1 && shape.cp() == 1; }
};

// What a settings file asks for. async_ulysses chooses separate messages, each sent while the next is projected;
// without it all travel in one.
Layout layout_of(const Settings& settings);

// What the model's transformer allows.
MeshHeads mesh_heads(const ModelSource& source);

// Every legal mesh of so many ranks, in each form that its strategies have.
std::vector<Layout> all_layouts(int ranks, const MeshHeads& heads);

}  // namespace zoetrope
