// docs/report.md holds every field of a report with its type, and no other.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "base/file.h"
#include "engine/contact_sheet.h"
#include "engine/jobs.h"

namespace zoetrope {
namespace {

struct Row {
  std::string type, when;
};

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, '|');) {
    const size_t first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
    cells.push_back(first == cell.npos ? "" : cell.substr(first, last - first + 1));
  }
  return cells;
}

std::map<std::string, Row> documented() {
  std::map<std::string, Row> rows;
  std::istringstream page(read_file(ZOETROPE_SOURCE_DIR "/docs/report.md", 1u << 20));
  for (std::string line; std::getline(page, line);) {
    const auto cells = cells_of(line);  // "", field, type, unit, when, meaning
    if (!line.starts_with("| `") || cells.size() < 5) continue;
    rows[cells[1].substr(1, cells[1].size() - 2)] = {cells[2], cells[4]};
  }
  return rows;
}

std::string type_of(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_string()) return "text";
  if (value.is_boolean()) return "boolean";
  return value.is_number_integer() ? "integer" : "number";
}

// Path -> types of its values, lists as [].
void flatten(const Json& value, const std::string& path, std::map<std::string, std::set<std::string>>& fields) {
  if (value.is_object())
    for (const auto& [key, inner] : value.items()) flatten(inner, path.empty() ? key : path + "." + key, fields);
  else if (value.is_array())
    for (const Json& inner : value) flatten(inner, path + "[]", fields);
  else
    fields[path].insert(type_of(value));
}

// "a.<x>.b" is what "a.anything.b" is an example of.
bool is_like(const std::string& path, const std::string& pattern) {
  std::istringstream left(path), right(pattern);
  std::string a, b;
  for (;;) {
    const bool more = static_cast<bool>(std::getline(left, a, '.'));
    if (static_cast<bool>(std::getline(right, b, '.')) != more) return false;
    if (!more) return true;
    if (a != b && !b.starts_with('<')) return false;
  }
}

Json report_of(const std::string& kind, bool sheet) {
  const TempFolder folder;
  auto output = open_output(folder / "x.safetensors", programs, "");
  if (sheet) output = std::make_unique<ContactSheet>(std::move(output), folder / "x.png");
  EngineConfig config = toy_config(kind);
  if (sheet) config.resolutions = {{48, 64}}, config.num_frames = {5};
  Engine engine(config);
  engine.warm_up();
  return engine.submit(small_ask(), std::move(output))->wait();
}

TEST(Report, IsWhatThePageSays) {
  const auto rows = documented();
  ASSERT_GT(rows.size(), 40u);
  std::set<std::string> unseen;
  for (const auto& [field, row] : rows)
    if (row.when != "several ranks") unseen.insert(field);
  for (const auto& report : {report_of("wan", false), report_of("wan-a14b", true)}) {
    std::map<std::string, std::set<std::string>> fields;
    flatten(report, "", fields);
    for (const auto& [path, types] : fields) {
      const auto row = std::ranges::find_if(rows, [&](const auto& one) { return is_like(path, one.first); });
      ASSERT_NE(row, rows.end()) << path << " is not in docs/report.md";
      for (const std::string& type : types)
        EXPECT_NE((" or " + row->second.type + " or ").find(" or " + type + " or "), std::string::npos)
            << path << " is " << type << ", docs/report.md says " << row->second.type;
      unseen.erase(row->first);
    }
    for (const auto& [field, row] : rows)
      if (row.when.empty() && !fields.contains(field) && field.find('<') == std::string::npos)
        ADD_FAILURE() << field << " is said to be there always";
    EXPECT_EQ(fields.contains("guidance_scale_2"), report.at("recipe") == "toy-a14b/original");
  }
  EXPECT_TRUE(unseen.empty()) << *unseen.begin() << " is in docs/report.md and in no report";
}

}  // namespace
}  // namespace zoetrope
