// JSON and YAML readers for files we did not write: size and depth are bounded, errors name the file and the place.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace zoetrope {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// `where` names the source in messages. Nesting deeper than 64 and duplicate keys are refused. Values for which `keep`
// says false are left out: what is huge can be taken while it is parsed.
Json parse_json(std::string_view text, std::string_view where, const Json::parser_callback_t& keep = {});
Json read_json(const std::filesystem::path& file, size_t max_bytes = 64u << 20);

// YAML as a Json tree: scalars become null, bool, integer, float or string by YAML 1.2's core rules. Aliases are
// refused.
Json parse_yaml(std::string_view text, std::string_view where);
Json read_yaml(const std::filesystem::path& file, size_t max_bytes = 1u << 20);

// Runs `body`; its errors begin with the file (or other place) that they are about.
template <class F>
auto about(std::string_view where, F body) {
  try {
    return body();
  } catch (const Error& error) {
    const std::string_view what = error.what();
    if (what.starts_with(where)) throw;
    fail(error.code(), where, ": ", what);
  }
}

// A value for a message, cut where it is long.
std::string short_dump(const Json& value);

// object[key] as T, or `fallback` where the key is absent or null; a value of another type, or one that T cannot hold
// (1.5 or 2^32 + 1 for an int), is an error naming it.
template <class T>
T value_or(const Json& object, const char* key, T fallback);

}  // namespace zoetrope
