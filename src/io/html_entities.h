// Character references in text: the full HTML table, by Python's rules (html.unescape) and by ftfy's.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>

namespace zoetrope {

extern const char* const html_entity_table;

class HtmlEntities {
 public:
  HtmlEntities();  // unpacks the table: about a tenth of a millisecond

  // As html.unescape: also without semicolon where HTML allows that ("&ampx" gives "&x"), bad numbers as browsers do.
  std::u32string unescape(std::u32string_view text) const;
  // As ftfy: only references that end in a semicolon, and names of Latin letters written in capitals ("&EACUTE;").
  std::u32string unescape_strict(std::u32string_view text) const;

 private:
  const std::u32string* find(std::u32string_view name) const;  // "amp;" or "amp"
  std::u32string named(std::u32string_view body) const;
  std::u32string strict(std::u32string_view reference) const;

  std::unordered_map<std::u32string, std::u32string> values_;
};

}  // namespace zoetrope
