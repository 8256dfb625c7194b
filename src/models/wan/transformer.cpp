#include "models/wan/transformer.h"

#include <utility>

#include "base/error.h"
#include "core/step_rows.h"

namespace zoetrope {
namespace {

void refuse_mesh(const MeshShape& shape, const WanConfig& config, const std::string& who) {
  const std::string why = objection(shape, {config.heads, config.heads});
  require(why.empty(), who, ": ", text_of(shape), ": ", why);
  require(shape.tp <= config.ffn_dim, who, ": ", text_of(shape), ": more than the ", config.ffn_dim,
          " numbers of ffn_dim");
}

}  // namespace

WanTransformer::WanTransformer(Ctx& c, const WanConfig& config, nn::Parameters& parameters, DType compute,
                               const std::string& component, const Mesh* mesh,
                               std::unique_ptr<attn::Attention> attention)
    : WanTransformer(c, config, parameters, compute, component,
                     std::make_unique<WanExchange>(c, mesh, std::move(attention)), nullptr) {}

WanTransformer::WanTransformer(Ctx& c, const WanConfig& config, nn::Parameters& parameters, DType compute,
                               const std::string& component, WanExchange& exchange)
    : WanTransformer(c, config, parameters, compute, component, nullptr, &exchange) {}

WanTransformer::WanTransformer(Ctx& c, const WanConfig& config, nn::Parameters& parameters, DType compute,
                               const std::string& component, std::unique_ptr<WanExchange> own, WanExchange* exchange)
    : config_(config),
      compute_(compute),
      component_(component),
      own_(std::move(own)),
      exchange_(own_ ? own_.get() : exchange) {
  if (mesh()) refuse_mesh(mesh()->shape(), config_, component_);
  nn::Loader from = loader(c, parameters, component);
  load(from);
  from.load();
  entries_ = from.used();
}

nn::Loader WanTransformer::loader(Ctx& c, nn::Parameters& parameters, const std::string& component) const {
  return {
      c, component, parameters, compute_, {"rope", "time_embedder", "scale_shift_table", "norm1", "norm2", "norm3"}};
}

void WanTransformer::load(nn::Loader& from) {
  const int64_t dim = config_.dim();
  from.ignore("norm_added_q");
  from.patch(patch_.w, "patch_embedding.weight",
             {dim, config_.in_channels, 1, config_.patch_rows, config_.patch_columns});
  from.tensor(patch_.b, "patch_embedding.bias", {dim});

  const std::string embedder = "condition_embedder.";
  time_.act = Act::silu;
  nn::load(from, time_.up, embedder + "time_embedder.linear_1", dim, config_.time_dim);
  nn::load(from, time_.down, embedder + "time_embedder.linear_2", dim, dim);
  nn::load(from, time_proj_, embedder + "time_proj", 6 * dim, dim);
  nn::load(from, text_.up, embedder + "text_embedder.linear_1", dim, config_.text_dim);
  nn::load(from, text_.down, embedder + "text_embedder.linear_2", dim, dim);

  blocks_.resize(static_cast<size_t>(config_.layers));
  declared_.clear();
  for (size_t i = 0; i < blocks_.size(); ++i) {
    declared_.push_back(from.declared());
    load_block(from, blocks_[i], cat("blocks.", i, '.'));
  }
  declared_.push_back(from.declared());

  from.tensor(table_, "scale_shift_table", {1, 2, dim}, {2, dim});
  nn::load(from, head_, "proj_out", head_columns(), dim);
  rope_.load(from, config_.rope_widths(), config_.max_positions);
}

void WanTransformer::load_block(nn::Loader& from, Block& block, const std::string& prefix) const {
  const int64_t dim = config_.dim(), ffn = config_.ffn_dim, unit = tp().unit_of(ffn);
  const nn::Slice own_heads = tp().outputs(dim, config_.width), from_heads = tp().inputs(dim, config_.width);
  from.tensor(block.table, prefix + "scale_shift_table", {1, 6, dim}, {6, dim});

  const std::string self = prefix + "attn1.";
  nn::load_stacked(from, block.qkv, {self + "to_q", self + "to_k", self + "to_v"}, dim, dim, nn::Bias::yes, own_heads);
  from.part(block.norm_q1, self + "norm_q.weight", {dim}, own_heads);
  from.part(block.norm_k1, self + "norm_k.weight", {dim}, own_heads);
  nn::load(from, block.out1, self + "to_out.0", dim, dim, nn::Bias::yes, from_heads);

  const std::string cross = prefix + "attn2.";
  from.tensor(block.norm2_w, prefix + "norm2.weight", {dim});
  from.tensor(block.norm2_b, prefix + "norm2.bias", {dim});
  nn::load(from, block.q2, cross + "to_q", dim, dim, nn::Bias::yes, own_heads);
  nn::load_stacked(from, block.kv2, {cross + "to_k", cross + "to_v"}, dim, dim, nn::Bias::yes, own_heads);
  from.part(block.norm_q2, cross + "norm_q.weight", {dim}, own_heads);
  from.part(block.norm_k2, cross + "norm_k.weight", {dim}, own_heads);
  nn::load(from, block.out2, cross + "to_out.0", dim, dim, nn::Bias::yes, from_heads);

  nn::load(from, block.up, prefix + "ffn.net.0.proj", ffn, dim, nn::Bias::yes, tp().outputs(ffn, unit));
  nn::load(from, block.down, prefix + "ffn.net.2", dim, ffn, nn::Bias::yes, tp().inputs(ffn, unit));
}

// The embedder runs in fp32; its result is rounded to the compute type before and after time_proj, as the reference
// does.
StepTable WanTransformer::steps(Ctx& c, std::span<const float> timesteps) const {
  const auto count = static_cast<int64_t>(timesteps.size());
  const int64_t dim = config_.dim();
  const StepTable table{step_rows(c, {count, dim}, DType::f32), step_rows(c, {count, 6, dim}, DType::f32)};
  Scope scope(c.scratch());
  const Tensor t = c.empty({count}, DType::f32);
  c.upload(timesteps, t);
  const Tensor temb = cast(c, time_(c, timestep_embed(c, t, config_.time_dim)), compute_);  // [steps, C]
  const Tensor tproj = time_proj_(c, silu(c, temb));                                        // [steps, 6C]
  copy(c, cast(c, temb, DType::f32), table.temb);
  copy(c, cast(c, tproj, DType::f32).view(table.tproj.shape()), table.tproj);
  return table;
}

// All blocks' keys are normed together: on a mesh with tp that is one collective.
Text WanTransformer::encode_text(Ctx& c, const Tensor& context, int64_t real_rows) const {
  const int64_t rows = WanConfig::text_rows, dim = heads() * config_.width;
  require(context.shape() == Shape({rows, config_.text_dim}), component_, ": text is ", context.shape(),
          ", should be [", rows, ", ", config_.text_dim, "]");
  require(real_rows > 0 && real_rows <= rows, component_, ": ", real_rows, " real rows of text, 1 to ", rows,
          " can be used");
  const Text text{c.empty({config_.layers, rows, 2 * dim}, compute_, c.request()), real_rows};
  Scope scope(c.scratch());
  const Tensor embedded = text_(c, cast(c, context, compute_));  // [512, C]
  c.tap("text", embedded);
  std::vector<nn::TensorParallel::Normed> keys;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Tensor kv = text.kv.row(static_cast<int64_t>(i));  // [512, 2C']
    blocks_[i].kv2.into(c, embedded, kv);
    const Heads k = as_heads(kv, 0, heads(), config_.width);
    keys.push_back({k, blocks_[i].norm_k2, k});
  }
  tp().reserve(config_.layers * rows);
  tp().norm_rope(c, keys, config_.dim(), config_.eps, nullptr);
  return text;
}

}  // namespace zoetrope
