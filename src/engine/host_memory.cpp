#include "engine/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/cat.h"
#include "base/json.h"
#include "base/units.h"
#include "comm/agree.h"

namespace zoetrope {
namespace {

// Something that two processes of one host have in common and those of two hosts have not.
std::string host_name() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

int64_t value(const Json& json, const char* key) { return json.at(key).get<int64_t>(); }

// All ranks go through the same stages at the same time.
struct Place {
  struct Need {
    std::map<std::pair<int64_t, std::string>, int64_t> slices;  // of weights, which the ranks of a process share
    int64_t rest = 0;
  };
  std::vector<Need> stages;
  std::map<std::pair<int64_t, std::string>, int64_t> held;  // slices
  int64_t held_rest = 0;
  int64_t free = std::numeric_limits<int64_t>::max(), limit = free;

  void add(const Json& rank) {
    const Json& all = rank.at("stages");
    stages.resize(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      add_slices(stages[i].slices, rank, all[i].at("slices"));
      stages[i].rest += value(all[i], "rest");
    }
    add_slices(held, rank, rank.at("held"));
    held_rest += value(rank, "held_rest");
    free = std::min(free, value(rank, "free")), limit = std::min(limit, value(rank, "limit"));
  }
  int64_t available() const {
    int64_t sum = held_rest;
    for (const auto& [slice, bytes] : held) sum += bytes;
    return std::min(limit, free > limit - sum ? limit : free + sum);
  }

 private:
  static void add_slices(std::map<std::pair<int64_t, std::string>, int64_t>& to, const Json& rank, const Json& slices) {
    for (const auto& [slice, bytes] : slices.items()) to[{value(rank, "process"), slice}] = bytes.get<int64_t>();
  }
};

Shortage of_stage(const Place::Need& need, Stage stage, int64_t available, bool limited) {
  Shortage all{stage, need.rest, available, {}, limited};
  for (const auto& [slice, bytes] : need.slices) {
    all.parts[slice.second.substr(0, slice.second.find('/'))] += bytes;
    all.need += bytes;
  }
  return all;
}

std::string facts_of(const Rank& rank, const Cost& cost, const MemoryNow& now) {
  const StageMemory held = memory_at(rank, Stage::load);
  Json facts = {{"place", cat(host_name(), ' ', name(rank.traits.device))},
                {"process", ::getpid()},
                {"held", held.slices},
                {"held_rest", held.pages + now.fixed_held},
                {"free", now.free},
                {"limit", now.limit},
                {"stages", Json::array()}};
  for (const StageMemory& stage : cost.stages)
    facts["stages"].push_back({{"slices", stage.slices}, {"rest", stage.pages + cost.fixed}});
  return facts.dump();
}

}  // namespace

std::optional<Shortage> shortage(Ctx& c, Comm& world, const Cost& cost, const MemoryNow& now) {
  std::map<std::string, Place> places;
  for (const std::string& text : all_texts(c, world, facts_of(c.rank(), cost, now))) {
    const Json rank = parse_json(text, "rank");
    places[rank.at("place")].add(rank);
  }
  std::optional<Shortage> worst;
  for (const auto& [name, place] : places)
    for (size_t i = 0; i < place.stages.size(); ++i) {
      Shortage found =
          of_stage(place.stages[i], cost.stages[i].stage, place.available(), place.available() == place.limit);
      const int64_t lack = found.need - found.available;
      if (lack > 0 && (!worst || lack > worst->need - worst->available)) worst = std::move(found);
    }
  return worst;
}

std::string words_of(const Shortage& shortage) {
  std::string parts;
  int64_t rest = shortage.need;
  for (const auto& [component, bytes] : shortage.parts) {
    parts += cat(component, ' ', human_bytes(bytes), ", ");
    rest -= bytes;
  }
  const std::string most = human_bytes(shortage.available);
  return cat(human_bytes(shortage.need), " (", parts, "work ", human_bytes(rest), "), ",
             shortage.limited ? "memory_config.limit_gib allows " + most : most + " are free");
}

}  // namespace zoetrope
