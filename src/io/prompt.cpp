#include "io/prompt.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "io/html_entities.h"
#include "io/unicode.h"

namespace zoetrope {
namespace {

using Text = std::u32string;
using View = std::u32string_view;

// Ligatures of Latin letters and digraphs, as the letters that they hold.
constexpr std::pair<char32_t, View> ligatures[] = {
    {0x132, U"IJ"},       {0x133, U"ij"},  {0x149, U"\u02BCn"}, {0x1C4, U"D\u017D"}, {0x1C5, U"D\u017E"},
    {0x1C6, U"d\u017E"},  {0x1C7, U"LJ"},  {0x1C8, U"Lj"},      {0x1C9, U"lj"},      {0x1CA, U"NJ"},
    {0x1CB, U"Nj"},       {0x1CC, U"nj"},  {0x1F1, U"DZ"},      {0x1F2, U"Dz"},      {0x1F3, U"dz"},
    {0xFB00, U"ff"},      {0xFB01, U"fi"}, {0xFB02, U"fl"},     {0xFB03, U"ffi"},    {0xFB04, U"ffl"},
    {0xFB05, U"\u017Ft"}, {0xFB06, U"st"}};

Text without_ligature(char32_t c) {
  const auto found = std::ranges::find(ligatures, c, &std::pair<char32_t, View>::first);
  return found == std::end(ligatures) ? Text(1, c) : Text(found->second);
}

Text standard_width(char32_t c) {
  if (c == 0x3000) return U" ";
  return c >= 0xFF01 && c <= 0xFFEF ? nfkc(View(&c, 1)) : Text(1, c);
}

char32_t straight_quote(char32_t c) {
  if (c == 0x2BC || (c >= 0x2018 && c <= 0x201B)) return '\'';
  return c >= 0x201C && c <= 0x201F ? U'"' : c;
}

bool dropped_control(char32_t c) {
  return c <= 8 || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || (c >= 0x206A && c <= 0x206F) || c == 0xFEFF ||
         (c >= 0xFFF9 && c <= 0xFFFC);
}

template <class F>
Text each(View text, F change) {
  Text out;
  for (const char32_t c : text) out += change(c);
  return out;
}

// CR LF, CR, line and paragraph separator, next line: all become LF.
Text unix_line_breaks(View text) {
  Text out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    const bool breaks = text[i] == '\r' || text[i] == 0x2028 || text[i] == 0x2029 || text[i] == 0x85;
    out.push_back(breaks ? U'\n' : text[i]);
  }
  return out;
}

// ESC [ digits and semicolons, then a letter.
Text without_terminal_escapes(View text) {
  Text out;
  for (size_t i = 0; i < text.size(); ++i) {
    size_t end = i + 2;
    if (text[i] == 0x1B && end < text.size() && text[i + 1] == '[') {
      while (end < text.size() && ((text[end] >= '0' && text[end] <= '9') || text[end] == ';')) ++end;
      const char32_t last = end < text.size() ? text[end] | 0x20 : 0;
      if (last >= 'a' && last <= 'z') {
        i = end;
        continue;
      }
    }
    out.push_back(text[i]);
  }
  return out;
}

Text without_controls(View text) {
  Text out;
  std::ranges::copy_if(text, std::back_inserter(out), [](char32_t c) { return !dropped_control(c); });
  return out;
}

Text fix_line(Text text, const HtmlEntities* entities) {
  for (int round = 0;; ++round) {
    require(round < 100, "prompt: one part of it stands for another more than 100 levels deep; write the text itself");
    const Text before = text;
    if (entities) text = entities->unescape_strict(text);
    text = each(text, windows_1252);
    text = each(text, without_ligature);
    text = each(text, standard_width);
    text = each(text, straight_quote);
    text = unix_line_breaks(text);
    text = without_terminal_escapes(text);
    text = nfc(without_controls(text));
    if (text == before) return text;
  }
}

// Entities are decoded up to the first line that holds a '<': from there on the text is taken for HTML on purpose.
Text fix_text(View text, const HtmlEntities& entities) {
  Text out;
  bool decode = true;
  while (!text.empty()) {
    const View line = text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
    text.remove_prefix(line.size());
    decode = decode && line.find('<') == line.npos;
    out += fix_line(Text(line), decode ? &entities : nullptr);
  }
  return out;
}

Text single_spaces(View text) {
  Text out;
  for (const char32_t c : text) {
    if (!is_space(c))
      out.push_back(c);
    else if (!out.empty() && out.back() != ' ')
      out.push_back(' ');
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

}  // namespace

std::string clean_prompt(std::string_view prompt) {
  require(prompt.size() <= max_prompt_bytes, "prompt: ", prompt.size(), " bytes, more than the ", max_prompt_bytes,
          " allowed; the model reads about 500 words of it at most");
  const HtmlEntities entities;
  const Text fixed = fix_text(code_points(prompt, "prompt"), entities);
  return utf8_of(single_spaces(entities.unescape(entities.unescape(fixed))));
}

}  // namespace zoetrope
