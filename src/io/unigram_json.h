// A Unigram model of tokenizer.json in SentencePiece's own form, so that one library runs both.
#pragma once
#include <string>

#include "base/json.h"

namespace zoetrope {

// A serialized sentencepiece.ModelProto. Error(unsupported) names a model, normalizer or pre-tokenizer of another kind.
std::string unigram_model(const Json& tokenizer, const std::string& where);

bool asks_for_byte_fallback(const Json& tokenizer);

}  // namespace zoetrope
