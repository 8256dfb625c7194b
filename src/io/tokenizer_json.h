// Hugging Face's tokenizer.json of type Unigram, read as their `tokenizers` library reads it.
#pragma once
#include <filesystem>
#include <memory>

#include "io/tokenizer.h"

namespace zoetrope {

// Error(invalid): not such a file, by what is wrong. Error(unsupported) names a model, normalizer, pre-tokenizer,
// post-processor or added token of another kind.
std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& file);

}  // namespace zoetrope
