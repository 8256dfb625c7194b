#include "pipeline/text_stage.h"

#include <algorithm>

#include "comm/agree.h"
#include "models/wan/config.h"
#include "pipeline/finite.h"

namespace zoetrope {
namespace {

constexpr int negative = 1;  // the stream whose vectors are kept
constexpr const char* names[] = {"prompt embedding", "negative prompt embedding"};

}  // namespace

TextStage::TextStage(Ctx& c, const ModelSource& source, DType dtype, const Mesh& mesh) : mesh_(mesh), dtype_(dtype) {
  const ModelPart& part = source.at("text_encoder");
  const Umt5Config config = umt5_config(part.config);
  dim_ = config.dim;
  if (mesh.sequence_index() == 0) encoder_.emplace(c, config, *part.weights, dtype, "text_encoder", &mesh.tp());
}

bool TextStage::keeps(int stream, std::span<const int32_t> ids) const {
  return stream == negative && !kept_.empty() && std::ranges::equal(ids, kept_ids_);
}

Tensor TextStage::fresh(Ctx& c, std::span<const int32_t> ids) const {
  const Tensor text = encoder_ ? encoder_->encode(c, ids, WanConfig::text_rows)
                               : c.empty({WanConfig::text_rows, dim_}, dtype_, c.request());
  mesh_.sequence().broadcast(c, text, 0);
  return text;
}

void TextStage::keep(Ctx& c, std::span<const int32_t> ids, const Tensor& text) {
  if (c.dry()) return;
  kept_.resize(static_cast<size_t>(text.bytes()));
  c.download(text, kept_.data());
  kept_ids_.assign(ids.begin(), ids.end());
}

std::vector<Tensor> TextStage::encode(Ctx& c, const std::vector<std::span<const int32_t>>& prompts,
                                      const std::vector<int>& own) {
  // A job that failed may have left the vectors on some ranks only: those of a half encode if one of them must.
  std::vector<float> missing(prompts.size()), bad(prompts.size());
  for (const int stream : own) missing[stream] = keeps(stream, prompts[stream]) ? 0 : 1;
  if (prompts.size() > 1) missing = sum_over(c, mesh_.world(), missing);

  // One rank of each half counts; without guidance both halves have made the same stream, and the first one's does.
  const bool speaks = mesh_.place().tp == 0 && mesh_.sequence_index() == 0 && own[0] == mesh_.place().cfg;
  std::vector<Tensor> texts;
  for (const int stream : own) {
    const std::span<const int32_t> ids = prompts[stream];
    if (missing[stream] > 0) {
      texts.push_back(fresh(c, ids));
      if (stream == negative) keep(c, ids, texts.back());
    } else {
      texts.push_back(c.empty({WanConfig::text_rows, dim_}, dtype_, c.request()));
      c.upload(kept_.data(), texts.back());
    }
    c.tap(names[stream], texts.back());
    const float found = range_of(c, texts.back()).bad;
    if (speaks) bad[stream] = found;
  }
  bad = sum_over(c, mesh_.world(), bad);
  for (size_t i = 0; i < bad.size(); ++i) require_finite(bad[i], cat("text_encode: the ", names[i]));
  return texts;
}

}  // namespace zoetrope
