// Text to token ids, as the Hugging Face fast T5 tokenizer does it: the pieces with the highest sum of scores (unigram
// model), special tokens that are typed in the text taken as such, </s> at the end. SentencePiece's library does the
// segmentation. Known to differ: U+2581 or the name of a byte piece ("<0x41>") typed in the text; a combining mark
// right after a character that the model's map rewrites (kept here, dropped there); white space just before a special
// token (never a token of its own here, one there if the tokenizer splits at Metaspace alone).
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace zoetrope {

class Tokenizer {
 public:
  // A tokenizer/ folder: spiece.model, or tokenizer.json of type Unigram. Special tokens come from
  // tokenizer_config.json and special_tokens_map.json. Error(invalid): nothing usable, by file; Error(unsupported):
  // another kind of tokenizer.
  static std::unique_ptr<Tokenizer> open(const std::filesystem::path& folder);
  // A SentencePiece model in memory, UMT5's special tokens.
  static std::unique_ptr<Tokenizer> from_model(std::string_view spiece_model);
  virtual ~Tokenizer() = default;

  // At most max_tokens ids, the last of them </s> (1 for UMT5); no padding. An empty prompt is the </s> alone.
  // A character that no piece holds becomes <unk>, never bytes, unless tokenizer.json asks for byte fallback.
  virtual std::vector<int32_t> encode(std::string_view cleaned_prompt, int max_tokens) const = 0;
  virtual int pieces() const = 0;
};

}  // namespace zoetrope
