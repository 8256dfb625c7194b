// Special tokens of a Hugging Face tokenizer folder, and cutting a text at them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace zoetrope {

struct SpecialToken {
  std::string text;  // "</s>"
  int32_t id = 0;
};

inline constexpr size_t max_special_tokens = 4096;  // each is looked for at each character; released models have 300

struct SpecialTokens {
  std::vector<SpecialToken> all;  // longest text first
  std::string eos = "</s>";
};

// From tokenizer_config.json ("added_tokens_decoder") and, for tokens given by name alone, special_tokens_map.json;
// `id_of` gives a piece's id, or -1. Files that are missing name nothing; T5's own <pad>, </s>, <unk> always count.
SpecialTokens read_special_tokens(const std::filesystem::path& folder,
                                  const std::function<int32_t(const std::string&)>& id_of);

struct TextPart {
  std::string_view text;
  int32_t special = -1;  // its id, or -1: plain text
};

// Cuts at special tokens, leftmost and then longest first (`tokens` begin with the longest). Empty parts are left out.
std::vector<TextPart> cut(std::string_view text, const std::vector<SpecialToken>& tokens);

}  // namespace zoetrope
