#include "attn/strategy.h"

#include <utility>

#include "attn/attn2d.h"
#include "attn/dense.h"
#include "attn/ring.h"

namespace zoetrope::attn {

std::vector<Forms> forms_of(const MeshShape& shape) {
  std::vector<Forms> all;
  for (const UlyssesForm form : {UlyssesForm::separate, UlyssesForm::kv_packed, UlyssesForm::packed})
    for (const bool pipelined : {false, true})
      if ((form == UlyssesForm::separate || shape.ulysses > 1) && (!pipelined || shape.rows * shape.cols > 1))
        all.push_back({form, pipelined});
  return all;
}

std::unique_ptr<Attention> make_attention(Ctx& c, const Mesh& mesh, const Forms& forms,
                                          std::unique_ptr<Attention> inner) {
  const MeshShape& shape = mesh.shape();
  std::unique_ptr<Attention> attention = inner ? std::move(inner) : std::make_unique<Dense>();
  if (shape.ring > 1)
    attention = std::make_unique<Ring>(c, mesh.col(), std::move(attention));
  else if (shape.cp() > 1)
    attention = std::make_unique<Attention2d>(c, mesh.row(), mesh.col(), std::move(attention), forms.pipelined);
  if (shape.ulysses > 1) attention = std::make_unique<Ulysses>(c, mesh.ulysses(), std::move(attention), forms.ulysses);
  return attention;
}

}  // namespace zoetrope::attn
