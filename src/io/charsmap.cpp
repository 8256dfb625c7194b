#include "io/charsmap.h"

#include "base/error.h"
#include "io/unicode.h"

namespace zoetrope {
namespace {

std::string from_base64(std::string_view text, const std::string& where) {
  std::string out;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    if (c == '=') break;
    constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t value = alphabet.find(c);
    require(value != alphabet.npos, where, ": precompiled_charsmap is not base64");
    bits = bits << 6 | static_cast<uint32_t>(value);
    if ((held += 6) >= 8) out.push_back(static_cast<char>(bits >> (held -= 8)));
  }
  return out;
}

uint32_t word_at(std::string_view bytes, size_t at) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i) word |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return word;
}

uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

}  // namespace

CharsMap::CharsMap(std::string_view base64, const std::string& where) {
  const std::string bytes = from_base64(base64, where);
  if (bytes.empty()) return;
  const size_t trie = bytes.size() < 4 ? SIZE_MAX : word_at(bytes, 0);
  require(trie <= bytes.size() - 4 && trie % 4 == 0, where, ": precompiled_charsmap is not whole");
  for (size_t at = 4; at < 4 + trie; at += 4) trie_.push_back(word_at(bytes, at));
  texts_ = bytes.substr(4 + trie);
}

std::optional<std::string_view> CharsMap::replacement(std::string_view part) const {
  size_t node = offset_of(unit(0));
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    node ^= byte;
    const uint32_t here = unit(node);
    if (byte == 0 || (here & 0x800000FF) != byte) return std::nullopt;  // another label, or none
    node ^= offset_of(here);
    if ((here & 0x100) == 0) continue;
    const std::string_view texts = texts_, rest = texts.substr(std::min<size_t>(unit(node) & 0x7FFFFFFF, texts.size()));
    return rest.substr(0, rest.find('\0'));
  }
  return std::nullopt;
}

std::string CharsMap::apply(std::string_view text) const {
  if (trie_.empty()) return std::string(text);
  std::string out;
  for (const std::string_view grapheme : graphemes(text)) {
    const auto whole = grapheme.size() < 6 ? replacement(grapheme) : std::nullopt;
    if (whole) {
      out += *whole;
      continue;
    }
    for (const std::string_view character : characters(grapheme)) out += replacement(character).value_or(character);
  }
  return out;
}

}  // namespace zoetrope
