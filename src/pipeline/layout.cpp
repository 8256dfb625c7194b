#include "pipeline/layout.h"

#include "base/cat.h"
#include "models/wan/config.h"

namespace zoetrope {
namespace {

const char* name(attn::UlyssesForm form) {
  switch (form) {
    case attn::UlyssesForm::separate:
      return "separate";
    case attn::UlyssesForm::kv_packed:
      return "kv packed";
    case attn::UlyssesForm::packed:
      return "packed";
  }
  return "unknown";
}

}  // namespace

std::string Layout::text() const {
  std::string text = text_of(shape);
  if (shape.ulysses > 1) text += cat(", ", name(forms.ulysses));
  if (forms.pipelined) text += ", pipelined";
  if (shape.vae > 0) text += cat(", vae ", shape.vae, shape.vae_split == VaeSplit::height ? " by height" : " by width");
  return text;
}

MeshHeads mesh_heads(const ModelSource& source) {
  const WanConfig config = wan_config(source.at("transformer").config);
  return {config.heads, config.heads};
}

std::vector<Layout> all_layouts(int ranks, const MeshHeads& heads) {
  std::vector<Layout> all;
  for (const MeshShape& shape : legal_meshes(ranks, heads))
    for (const attn::Forms& forms : attn::forms_of(shape)) all.push_back({shape, forms});
  return all;
}

Layout layout_of(const Settings& s) {
  Layout layout;
  layout.shape = {s.cfg_size, s.tp_size, s.ring_size, s.attn2d_size[0], s.attn2d_size[1], s.ulysses_size};
  layout.shape.vae = s.parallel_vae_size.value_or(0);
  layout.shape.vae_split = s.parallel_vae_split_dim == "height" ? VaeSplit::height : VaeSplit::width;
  layout.forms.ulysses = s.async_ulysses ? attn::UlyssesForm::separate : attn::UlyssesForm::packed;
  return layout;
}

}  // namespace zoetrope
