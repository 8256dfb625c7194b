#include "io/html_entities.h"

#include <algorithm>
#include <charconv>

#include "io/unicode.h"

namespace zoetrope {
namespace {

bool digit(char32_t c) { return c >= '0' && c <= '9'; }
bool letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool hex_digit(char32_t c) { return digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// Code points that a number may not name: C0 and C1 controls but white space, and noncharacters.
bool invalid(char32_t c) {
  return (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || (c >= 0x7F && c <= 0x9F) ||
         (c >= 0xFDD0 && c <= 0xFDEF) || (c & 0xFFFE) == 0xFFFE;
}

std::u32string from_number(char32_t number) {
  if (number == 0 || (number >= 0xD800 && number <= 0xDFFF) || number > 0x10FFFF) return U"\uFFFD";
  if (number >= 0x80 && number <= 0x9F) return std::u32string(1, windows_1252(number));
  return invalid(number) ? std::u32string() : std::u32string(1, number);
}

// text[0] is '&'. The number of characters of a reference that starts with "&#", 0 if it is none.
size_t numeric_length(std::u32string_view text, char32_t& number) {
  if (text.size() < 3 || text[1] != '#') return 0;
  const bool hex = text[2] == 'x' || text[2] == 'X';
  size_t at = hex ? 3 : 2;
  const size_t first = at;
  number = 0;
  for (; at < text.size() && (hex ? hex_digit(text[at]) : digit(text[at])); ++at) {
    const char32_t value = digit(text[at]) ? text[at] - '0' : (text[at] | 0x20) - 'a' + 10;
    number = std::min<char32_t>(number * (hex ? 16 : 10) + value, 0x110000);  // beyond Unicode is all one
  }
  if (at == first) return 0;
  return at < text.size() && text[at] == ';' ? at + 1 : at;
}

// The body of a named reference: up to 32 characters and a semicolon, if it has one.
size_t name_length(std::u32string_view text) {
  size_t n = 0;
  while (n < 32 && n < text.size() && std::u32string_view(U"\t\n\f <&#;").find(text[n]) == text.npos) ++n;
  return n > 0 && n < text.size() && text[n] == ';' ? n + 1 : n;
}

}  // namespace

HtmlEntities::HtmlEntities() {
  std::string_view table = html_entity_table;
  const auto word = [&] {
    const size_t end = table.find(' ');
    const std::string_view text = table.substr(0, end);
    table.remove_prefix(end + 1);
    return text;
  };
  while (!table.empty()) {
    std::string_view name = word(), codes = word();
    std::u32string value;
    for (const char *at = codes.data(), *end = at + codes.size(); at < end; ++at) {
      uint32_t code = 0;
      at = std::from_chars(at, end, code, 16).ptr;
      value.push_back(code);
    }
    const bool bare = name[0] == '*';
    if (bare) name.remove_prefix(1);
    const std::u32string wide(name.begin(), name.end());
    if (bare) values_.emplace(wide, value);
    values_.emplace(wide + U';', value);
  }
}

const std::u32string* HtmlEntities::find(std::u32string_view name) const {
  const auto found = values_.find(std::u32string(name));
  return found == values_.end() ? nullptr : &found->second;
}

std::u32string HtmlEntities::named(std::u32string_view body) const {
  for (size_t n = body.size(); n >= 2 || n == body.size(); --n) {
    if (const auto* value = find(body.substr(0, n))) return *value + std::u32string(body.substr(n));
    if (n < 2) break;
  }
  return U'&' + std::u32string(body);
}

std::u32string HtmlEntities::unescape(std::u32string_view text) const {
  std::u32string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '&') {
      out.push_back(text[at++]);
      continue;
    }
    char32_t number = 0;
    if (const size_t n = numeric_length(text.substr(at), number)) {
      out += from_number(number);
      at += n;
    } else if (const size_t body = name_length(text.substr(at + 1))) {
      out += named(text.substr(at + 1, body));
      at += 1 + body;
    } else {
      out.push_back(text[at++]);
    }
  }
  return out;
}

std::u32string HtmlEntities::strict(std::u32string_view reference) const {
  const std::u32string_view body = reference.substr(1);
  std::u32string whole(reference);
  if (body[0] == '#') {
    const std::u32string value = unescape(reference);
    return value.find(U';') == value.npos ? value : whole;
  }
  if (const auto* value = find(body)) return *value;
  std::u32string lower;
  for (const char32_t c : body) {
    if (c >= 'a' && c <= 'z') return whole;
    lower.push_back(letter(c) ? c | 0x20 : c);
  }
  const auto* value = find(lower);
  return value && unescape(reference) == whole ? upper_case(*value) : whole;
}

std::u32string HtmlEntities::unescape_strict(std::u32string_view text) const {
  std::u32string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (text[at] == '&') {
      if (end < text.size() && text[end] == '#') ++end;
      const size_t first = end;
      while (end < text.size() && end - first < 24 && (digit(text[end]) || letter(text[end]))) ++end;
      if (end > first && end < text.size() && text[end] == ';') {
        out += strict(text.substr(at, end + 1 - at));
        at = end + 1;
        continue;
      }
    }
    out.push_back(text[at++]);
  }
  return out;
}

}  // namespace zoetrope
