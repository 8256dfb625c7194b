#include "base/json.h"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace zoetrope {
namespace {

constexpr int max_depth = 64;

// Watches a parse: refuses deep nesting before it can exhaust the stack, and keys given twice.
class Guard {
 public:
  Guard(std::string_view where, const Json::parser_callback_t& keep) : where_(where), keep_(keep) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    require(depth < max_depth, where_, ": nested deeper than ", max_depth, " levels");
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      require(keys_.back().insert(key).second, where_, ": key \"", key, "\" is given twice");
    }
    return !keep_ || keep_(depth, event, parsed);
  }

 private:
  std::string_view where_;
  const Json::parser_callback_t& keep_;
  std::vector<std::set<std::string>> keys_;
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
  const std::string text = node.Scalar();
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
  try {
    return Json::parse(text.begin(), text.end(), Guard(where, keep));
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
  } catch (const YAML::Exception& error) {
    fail(Code::invalid, where, ": line ", error.mark.line + 1, ": ", error.msg);
  }
}

Json read_yaml(const std::filesystem::path& file, size_t max_bytes) {
  return parse_yaml(read_file(file, max_bytes), file.string());
}

template <class T>
T value_or(const Json& object, const char* key, T fallback) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return fallback;
  try {
    return found->get<T>();
  } catch (const Json::exception&) {
    fail(Code::invalid, "\"", key, "\" is ", found->dump(), ", which is a ", found->type_name());
  }
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
