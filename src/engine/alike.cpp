#include "engine/alike.h"

#include <set>

#include "base/json.h"
#include "comm/agree.h"

namespace zoetrope {
namespace {

constexpr size_t most_shown = 60;

std::string shown(const Json& facts, const std::string& field) {
  if (!facts.contains(field)) return cat("no ", field);
  std::string value = facts.at(field).dump(-1, ' ', false, Json::error_handler_t::replace);
  if (value.size() > most_shown) value = value.substr(0, most_shown) + "...";
  return cat(field, ' ', value);
}

void compare(size_t rank, const Json& own, const Json& first) {
  std::set<std::string> fields;
  for (const Json* facts : {&own, &first})
    for (const auto& [field, value] : facts->items()) fields.insert(field);
  if (!own.contains("prompt")) fields.erase("prompt");
  for (const std::string& field : fields)
    if (!own.contains(field) || !first.contains(field) || own.at(field) != first.at(field))
      throw AgreedError(Code::invalid, cat("rank ", rank, " was given ", shown(own, field), " but rank 0 ",
                                           shown(first, field), "; all ranks need the same request"));
}

}  // namespace

void require_alike(const std::vector<std::string>& facts) {
  for (size_t r = 1; r < facts.size(); ++r)
    if (!facts[r].empty()) compare(r, parse_json(facts[r], "rank"), parse_json(facts[0], "rank 0"));
}

}  // namespace zoetrope
