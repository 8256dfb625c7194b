// The character map of a SentencePiece normaliser, as tokenizer.json carries it ("Precompiled"): a double-array trie
// (darts-clone's format) from some characters to an offset into their replacements, each ended by a NUL.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zoetrope {

class CharsMap {
 public:
  // Error(invalid), begun with `where`, if it is not base64 of such a map. Empty text is an empty map.
  CharsMap(std::string_view base64, const std::string& where);

  // Hugging Face's way: a grapheme of less than 6 bytes is replaced whole if it begins with something in the map (its
  // combining marks are lost); otherwise character by character.
  std::string apply(std::string_view text) const;

 private:
  std::optional<std::string_view> replacement(std::string_view part) const;
  uint32_t unit(size_t at) const { return at < trie_.size() ? trie_[at] : 0; }

  std::vector<uint32_t> trie_;
  std::string texts_;
};

}  // namespace zoetrope
