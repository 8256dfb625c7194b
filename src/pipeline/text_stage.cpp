#include "pipeline/text_stage.h"

#include <algorithm>

#include "comm/agree.h"
#include "models/wan/config.h"
#include "pipeline/finite.h"

namespace zoetrope {
namespace {

constexpr const char* component = "text_encoder";
constexpr const char* names[] = {"prompt embedding", "negative prompt embedding"};

}  // namespace

TextStage::TextStage(const ModelSource& source, DType dtype, const Mesh& mesh)
    : part_(source.at(component)), mesh_(mesh), dtype_(dtype), config_(umt5_config(part_.config)) {}

void TextStage::load(Ctx& c) {
  if (loaded_) return;
  try {
    if (encoder_)
      encoder_->read(c, *part_.weights);
    else if (here())
      encoder_.emplace(c, config_, *part_.weights, dtype_, component, &mesh_.tp());
  } catch (...) {
    drop(c);
    throw;
  }
  loaded_ = true;
}

void TextStage::drop(Ctx& c) {
  loaded_ = false;
  c.drop_weights(component);
}

bool TextStage::keeps(int stream, std::span<const int32_t> ids) const {
  const Kept& kept = kept_[static_cast<size_t>(stream)];
  return !kept.vectors.empty() && std::ranges::equal(ids, kept.ids);
}

Tensor TextStage::fresh(Ctx& c, std::span<const int32_t> ids) const {
  const Tensor text = here() ? encoder_->encode(c, ids, WanConfig::text_rows)
                             : c.empty({WanConfig::text_rows, config_.dim}, dtype_, c.request());
  mesh_.sequence().broadcast(c, text, 0);
  return text;
}

void TextStage::keep(Ctx& c, int stream, std::span<const int32_t> ids, const Tensor& text) {
  if (c.dry()) return;
  Kept& kept = kept_[static_cast<size_t>(stream)];
  kept.vectors.resize(static_cast<size_t>(text.bytes()));
  c.download(text, kept.vectors.data());
  kept.ids.assign(ids.begin(), ids.end());
}

// A job that failed may have left the vectors on some ranks only: those of a half encode if one of them must.
std::vector<bool> TextStage::unknown(Ctx& c, const Prompts& prompts, const std::vector<int>& own) const {
  std::vector<float> missing(prompts.size());
  for (const int stream : own) missing[static_cast<size_t>(stream)] = keeps(stream, prompts[stream]) ? 0 : 1;
  missing = sum_over(c, mesh_.world(), missing);
  std::vector<bool> unknown;
  for (const float ranks : missing) unknown.push_back(ranks > 0);
  return unknown;
}

std::vector<Tensor> TextStage::encode(Ctx& c, const Prompts& prompts, const std::vector<int>& own,
                                      const std::vector<bool>& unknown) {
  // One rank of each half counts; without guidance both halves have made the same stream, and the first one's does.
  const bool speaks = mesh_.place().tp == 0 && mesh_.sequence_index() == 0 && own[0] == mesh_.place().cfg;
  std::vector<float> bad(prompts.size());
  std::vector<Tensor> texts;
  for (const int stream : own) {
    const std::span<const int32_t> ids = prompts[stream];
    if (unknown[static_cast<size_t>(stream)]) {
      texts.push_back(fresh(c, ids));
    } else {
      texts.push_back(c.empty({WanConfig::text_rows, config_.dim}, dtype_, c.request()));
      c.upload(kept_[static_cast<size_t>(stream)].vectors.data(), texts.back());
    }
    c.tap(names[stream], texts.back());
    const float found = range_of(c, texts.back()).bad;
    if (speaks) bad[stream] = found;
  }
  bad = sum_over(c, mesh_.world(), bad);
  for (size_t i = 0; i < bad.size(); ++i) require_finite(bad[i], cat("text_encode: the ", names[i]));
  for (size_t i = 0; i < own.size(); ++i)
    if (unknown[static_cast<size_t>(own[i])]) keep(c, own[i], prompts[own[i]], texts[i]);
  return texts;
}

}  // namespace zoetrope
