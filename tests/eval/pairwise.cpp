#include "eval/pairwise.h"

#include <algorithm>
#include <map>

#include "base/cat.h"

namespace zoetrope {
namespace {

const char* context_form(const MeshShape& s) {
  if (s.ring > 1) return "ring";
  if (s.cp() == 1) return "none";
  return s.rows == 1 ? "row" : s.cols == 1 ? "column" : "grid";
}

std::string frames_cut(const MeshShape& s) {
  if (s.vae == 1) return "none";
  return cat(s.vae == 0 ? "all ranks" : "2 ranks", s.vae_split == VaeSplit::height ? " by height" : " by width");
}

// Ways to cut the frames; one rank cuts nothing, so it stands once.
std::vector<MeshShape> with_vae(const MeshShape& shape) {
  std::vector<MeshShape> all;
  for (const int ranks : {0, 1, 2})
    for (const VaeSplit split : {VaeSplit::width, VaeSplit::height}) {
      MeshShape cut = shape;
      cut.vae = ranks, cut.vae_split = split;
      if (ranks != 1 || split == VaeSplit::width) all.push_back(cut);
    }
  return all;
}

}  // namespace

std::vector<std::string> Choice::factors() const {
  const MeshShape& s = layout.shape;
  constexpr const char* forms[] = {"separate", "kv packed", "packed"};
  return {cat("cfg ", s.cfg),
          cat("tp ", s.tp),
          cat("cp ", context_form(s)),
          layout.forms.pipelined ? "pipelined" : "in turn",
          cat("heads over ", s.ulysses),
          cat("heads ", s.ulysses > 1 ? forms[static_cast<size_t>(layout.forms.ulysses)] : "whole"),
          cat("frames cut: ", frames_cut(s)),
          cat("size ", odd ? "odd" : "even"),
          cat("type ", name(dtype))};
}

std::string Choice::text() const { return cat(layout.text(), ", ", name(dtype), odd ? ", odd size" : ", even size"); }

std::vector<Choice> all_choices(const MeshHeads& heads) {
  std::vector<Choice> all;
  for (const int ranks : {2, 3, 4, 6, 7, 8})
    for (const Layout& layout : all_layouts(ranks, heads))
      for (const MeshShape& shape : with_vae(layout.shape)) {
        if (!objection(shape, heads).empty()) continue;
        for (const bool odd : {false, true})
          for (const DType dtype : {DType::f32, DType::bf16}) all.push_back({{shape, layout.forms}, odd, dtype});
      }
  return all;
}

std::vector<std::string> pairs_of(const Choice& choice) {
  std::vector<std::string> pairs;
  const std::vector<std::string> factors = choice.factors();
  for (size_t i = 0; i < factors.size(); ++i)
    for (size_t j = 0; j < i; ++j) pairs.push_back(cat(factors[j], " with ", factors[i]));
  pairs.push_back(cat(choice.layout.shape.world(), " ranks"));
  return pairs;
}

std::vector<Choice> pairwise(const std::vector<Choice>& all, size_t count) {
  std::map<std::string, size_t> numbers;
  std::vector<std::vector<size_t>> pairs;  // of each choice, by number
  for (const Choice& choice : all) {
    auto& own = pairs.emplace_back();
    for (const std::string& pair : pairs_of(choice)) own.push_back(numbers.emplace(pair, numbers.size()).first->second);
  }
  std::vector<bool> open(numbers.size(), true);
  const auto gain = [&](const std::vector<size_t>& own) {
    return std::ranges::count_if(own, [&](size_t pair) { return open[pair]; });
  };
  std::vector<Choice> chosen;
  while (chosen.size() < count) {
    if (std::ranges::find(open, true) == open.end()) open.assign(open.size(), true);
    const auto best = std::ranges::max_element(pairs, {}, gain);
    chosen.push_back(all[static_cast<size_t>(best - pairs.begin())]);
    for (const size_t pair : *best) open[pair] = false;
  }
  return chosen;
}

}  // namespace zoetrope
