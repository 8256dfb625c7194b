#include "engine/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>

#include "base/json.h"
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

struct Host {
  MemoryNeed need;
  int64_t held = 0, available = std::numeric_limits<int64_t>::max();
  std::set<std::pair<int64_t, std::string>> slices;  // of weights, which the ranks of a process share

  void add(const Json& rank) {
    need.request += value(rank, "request"), need.scratch += value(rank, "scratch");
    need.exchange += value(rank, "exchange"), held += value(rank, "held");
    available = std::min(available, value(rank, "available"));
  }
  // Ranks that have loaded come first: what they hold need not be counted again.
  void add_weights(const Json& rank) {
    for (const auto& [slice, bytes] : rank.at("weights").items())
      if (slices.emplace(value(rank, "process"), slice).second && !rank.at("loaded").get<bool>())
        need.weights[slice.substr(0, slice.find('/'))] += bytes.get<int64_t>();
  }
};

std::string facts_of(const Rank& rank, const Cost& cost, bool loaded, int64_t free) {
  const size_t held = rank.request->committed() + rank.scratch->committed() + rank.exchange->committed();
  const MemoryNeed& own = cost.memory;
  const Json facts = {{"host", host_name()},    {"process", ::getpid()},  {"weights", cost.slices},
                      {"request", own.request}, {"scratch", own.scratch}, {"exchange", own.exchange},
                      {"held", held},           {"available", free},      {"loaded", loaded}};
  return facts.dump();
}

}  // namespace

bool check_hosts(Ctx& c, Comm& world, const Cost& cost, bool loaded, int64_t free) {
  std::vector<Json> ranks;
  for (const std::string& text : all_texts(c, world, facts_of(c.rank(), cost, loaded, free)))
    ranks.push_back(parse_json(text, "rank"));
  const auto has_weights = [](const Json& rank) { return rank.at("loaded").get<bool>(); };
  const auto without = std::ranges::stable_partition(ranks, has_weights);
  std::map<std::string, Host> hosts;
  for (const Json& rank : ranks) {
    Host& host = hosts[rank.at("host")];
    host.add(rank);
    host.add_weights(rank);
  }
  for (const auto& [name, host] : hosts) try {
      check_memory(host.need, host.available + host.held);
    } catch (const Error& error) {
      throw AgreedError(error.code(), error.what());
    }
  return without.empty();
}

}  // namespace zoetrope
