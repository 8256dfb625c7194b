// Text to token ids, as the Hugging Face fast T5 tokenizer does it: the pieces with the highest sum of scores (unigram
// model), special tokens that are typed in the text taken as such, </s> at the end.
// tokenizer.json is followed to the letter. spiece.model says less, and SentencePiece's library reads it; known to
// differ there: U+2581 or the name of a byte piece ("<0x41>") typed in the text; a combining mark right after a
// character that the model's map rewrites (kept here, dropped there); white space just before a special token (never a
// token of its own here, one there if the tokenizer splits at Metaspace alone).
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/special_tokens.h"

namespace zoetrope {

class Tokenizer {
 public:
  // A tokenizer/ folder: tokenizer.json of type Unigram, or, only where there is none, spiece.model with the special
  // tokens of tokenizer_config.json and special_tokens_map.json. Error(invalid): nothing usable, by file;
  // Error(unsupported): another kind of tokenizer.
  static std::unique_ptr<Tokenizer> open(const std::filesystem::path& folder);
  // A SentencePiece model in memory, UMT5's special tokens.
  static std::unique_ptr<Tokenizer> from_model(std::string_view spiece_model);
  virtual ~Tokenizer() = default;

  // At most max_tokens ids, the last of them </s> (1 for UMT5); no padding. An empty prompt is the </s> alone.
  // A character that no piece holds becomes <unk>, never bytes, unless tokenizer.json asks for byte fallback.
  std::vector<int32_t> encode(std::string_view cleaned_prompt, int max_tokens) const;
  virtual int pieces() const = 0;
  int64_t ids() const;  // each id that encode() can give is below this

 protected:
  virtual void append(std::string_view plain, std::vector<int32_t>& ids) const = 0;  // text without special tokens

  std::vector<SpecialToken> special_;  // longest text first
  int32_t eos_ = 1;
};

}  // namespace zoetrope
