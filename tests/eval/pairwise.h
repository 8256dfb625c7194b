// Layouts chosen so that every pair of choices that can meet in a legal layout meets in one of them: how the guidance,
// the weights, the keys and the heads are shared out, in which form, how the frames are cut, sizes that do and do not
// divide, and the type.
#pragma once
#include <string>
#include <vector>

#include "core/dtype.h"
#include "pipeline/layout.h"

namespace zoetrope {

struct Choice {
  Layout layout;
  bool odd = false;  // tokens that no mesh divides
  DType dtype = DType::f32;

  std::vector<std::string> factors() const;  // "cfg 2", "cp ring", ..., in a fixed order
  std::string text() const;
};

// Of 2, 3, 4, 6, 7 and 8 ranks, each way to cut the frames, both sizes, both types.
std::vector<Choice> all_choices(const MeshHeads& heads);

// The first `count` of a greedy search: each next one has most pairs that none before it has; once all pairs are
// covered, it starts again.
std::vector<Choice> pairwise(const std::vector<Choice>& all, size_t count);

// Two factors of one choice, as words.
std::vector<std::string> pairs_of(const Choice& choice);

}  // namespace zoetrope
