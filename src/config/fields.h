// The table of request fields: one row says a field's name, type, range and meaning. Command line, servers and the docs
// page are made from it, so that they cannot differ.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "config/request.h"

namespace zoetrope {

struct Field {
  template <class T>
  using Member = std::optional<T> Ask::*;

  const char* name;  // snake_case; the command line writes --snake-case
  std::variant<Member<int>, Member<double>, Member<uint64_t>, Member<std::string>> slot;
  double min, max;      // of numbers, inclusive
  const char* choices;  // of words: "a|b", or null for free text
  const char* meaning;
};

std::span<const Field> request_fields();
const Field& request_field(std::string_view name);  // an unknown name is an error that names the nearest known one

// Parses and range-checks one value; the text form is what a command line or a query string has.
void set(Ask& ask, const Field& field, const std::string& text);
void set(Ask& ask, const Field& field, const Json& value);

// What was said, as {"prompt": ..., field: value, ...}, and back: the form in which ranks tell each other.
Json to_json(const Ask& ask);
Ask ask_from_json(const Json& json);  // Error(invalid) names a field that is not known or out of range

std::string fields_as_markdown();

// The word of `known` with the least edit distance to `word`; empty where that is more than `most` letters.
std::string nearest(std::string_view word, std::span<const std::string_view> known, size_t most = SIZE_MAX);

}  // namespace zoetrope
