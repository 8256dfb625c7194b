#include "base/json.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace zoetrope {
namespace {

constexpr int max_depth = 64;

// Looks at a text before values are made of it: refuses deep nesting before it can exhaust the stack, and keys given
// twice. A pass of its own, because the library's parse with a callback takes quadratic time in the members of an
// object; where that one is used, the objects are few.
class Guard final : public nlohmann::json_sax<Json> {
 public:
  Guard(std::string_view where, size_t most_objects) : where_(where), most_objects_(most_objects) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override {
    require(++objects_ <= most_objects_, where_, ": holds more than ", most_objects_, " objects");
    return open();
  }
  bool key(string_t& key) override {
    require(keys_.back().insert(key).second, where_, ": key \"", key.substr(0, 200), "\" is given twice");
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;  // the parse that follows meets it again
  }

 private:
  bool open() {
    keys_.emplace_back();
    require(keys_.size() < max_depth, where_, ": nested deeper than ", max_depth, " levels");
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  std::string_view where_;
  size_t objects_ = 0, most_objects_;
  std::vector<std::set<std::string>> keys_;  // of each object or list that is open
};

template <class T>
std::optional<Json> number(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return Json(value);
}

Json yaml_scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // quoted
  if (text.empty() || text == "~" || text == "null") return nullptr;
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  const std::string digits = text[0] == '+' ? text.substr(1) : text;
  if (auto whole = number<int64_t>(digits)) return *whole;
  if (digits.find_first_of("0123456789") != std::string::npos)
    if (auto real = number<double>(digits)) return *real;
  return text;
}

Json yaml_to_json(const YAML::Node& node, std::string_view where, int depth) {
  require(depth < max_depth, where, ": nested deeper than ", max_depth, " levels");
  if (!node || node.IsNull()) return nullptr;
  if (node.IsScalar()) return yaml_scalar(node);
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const auto& item : node) list.push_back(yaml_to_json(item, where, depth + 1));
    return list;
  }
  Json object = Json::object();
  for (const auto& entry : node) {
    require(entry.first.IsScalar(), where, ": line ", entry.first.Mark().line + 1, ": a key must be plain text");
    const auto& key = entry.first.Scalar();
    require(!object.contains(key), where, ": line ", entry.first.Mark().line + 1, ": key \"", key, "\" is given twice");
    object[key] = yaml_to_json(entry.second, where, depth + 1);
  }
  return object;
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where, const Json::parser_callback_t& keep) {
  Guard guard(where, keep ? size_t{1} << 14 : text.size());
  Json::sax_parse(text.begin(), text.end(), &guard);
  try {
    return Json::parse(text.begin(), text.end(), keep);
  } catch (const Json::parse_error& error) {
    fail(Code::invalid, where, ": not valid JSON at byte ", error.byte);
  } catch (const Json::exception&) {  // a number that no type holds
    fail(Code::invalid, where, ": holds a number that is out of range");
  }
}

Json read_json(const std::filesystem::path& file, size_t max_bytes) {
  return parse_json(read_file(file, max_bytes), file.string());
}

Json parse_yaml(std::string_view text, std::string_view where) {
  require(text.find('&') == std::string_view::npos || text.find('*') == std::string_view::npos, where,
          ": YAML anchors and aliases are not accepted; write the values out");
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    require(documents.size() <= 1, where, ": holds ", documents.size(), " YAML documents; one is expected");
    return documents.empty() ? Json() : yaml_to_json(documents[0], where, 0);
  } catch (const YAML::DeepRecursion&) {
    fail(Code::invalid, where, ": nested deeper than ", max_depth, " levels");
  } catch (const YAML::Exception& error) {
    fail(Code::invalid, where, ": line ", error.mark.line + 1, ": ", error.msg);
  }
}

Json read_yaml(const std::filesystem::path& file, size_t max_bytes) {
  return parse_yaml(read_file(file, max_bytes), file.string());
}

namespace {

template <class T>
constexpr bool is_list = false;
template <class T>
constexpr bool is_list<std::vector<T>> = true;

// Why a value is no T, without which the library converts it: true to 1, 1.5 to 1, 2^32 + 1 to 1, 1e300 to infinity.
template <class T>
std::string why_not(const Json& value) {
  using Limits = std::numeric_limits<T>;
  std::string other_type = cat("which is a ", value.type_name());
  if constexpr (is_list<T>) {
    if (!value.is_array()) return other_type;
    for (const Json& item : value)
      if (const std::string reason = why_not<typename T::value_type>(item); !reason.empty())
        return cat("in which something is wrong: ", short_dump(item), ", ", reason);
    return {};
  } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
    return (std::is_same_v<T, bool> ? value.is_boolean() : value.is_string()) ? std::string() : other_type;
  } else {
    if (!value.is_number()) return other_type;
    const auto real = value.get<double>();
    if (std::is_integral_v<T> && std::trunc(real) != real) return "which is not a whole number";
    const bool fits = real >= static_cast<double>(Limits::lowest()) && real <= static_cast<double>(Limits::max());
    const bool beyond = std::is_same_v<T, int64_t> && real >= 9223372036854775808.0;  // the double next to its maximum
    return fits && !beyond ? std::string() : "which is out of range";
  }
}

}  // namespace

std::string short_dump(const Json& value) {
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= 80 ? text : text.substr(0, 80) + "...";
}

template <class T>
T value_or(const Json& object, const char* key, T fallback) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return fallback;
  const std::string reason = why_not<T>(*found);
  require(reason.empty(), "\"", key, "\" is ", short_dump(*found), ", ", reason);
  return found->get<T>();
}

template bool value_or(const Json&, const char*, bool);
template int value_or(const Json&, const char*, int);
template int64_t value_or(const Json&, const char*, int64_t);
template float value_or(const Json&, const char*, float);
template double value_or(const Json&, const char*, double);
template std::string value_or(const Json&, const char*, std::string);
template std::vector<int> value_or(const Json&, const char*, std::vector<int>);
template std::vector<bool> value_or(const Json&, const char*, std::vector<bool>);
template std::vector<float> value_or(const Json&, const char*, std::vector<float>);

}  // namespace zoetrope
