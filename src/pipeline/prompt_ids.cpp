#include "pipeline/prompt_ids.h"

#include <limits>

#include "base/error.h"
#include "config/resources.h"
#include "io/prompt.h"

namespace zoetrope {
namespace {

std::string cleaned_negative(const Request& request) {
  try {
    return clean_prompt(request.negative_prompt);
  } catch (const Error& error) {
    fail(error.code(), "negative ", error.what());  // "negative prompt: ..."
  }
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const ModelSource& source) {
  if (!source.random()) return Tokenizer::open(source.folder / "tokenizer");
  return Tokenizer::from_model(resource("toy/tokenizer/spiece.model"));
}

PromptIds encode_prompts(const Tokenizer& tokenizer, const Request& request, int rows) {
  PromptIds ids;
  const auto encode = [&](const std::string& text, const char* what) {
    auto all = tokenizer.encode(text, std::numeric_limits<int>::max());
    if (all.size() <= static_cast<size_t>(rows)) return all;
    ids.warnings.push_back(cat(what, ": ", all.size(), " tokens with the end token, the model reads ", rows,
                               "; what comes later is left out"));
    return tokenizer.encode(text, rows);
  };
  ids.positive = encode(clean_prompt(request.prompt), "prompt");
  const std::string negative = cleaned_negative(request);  // checked even where guidance leaves it out: reports show it
  if (request.guided()) ids.negative = encode(negative, "negative prompt");
  return ids;
}

}  // namespace zoetrope
