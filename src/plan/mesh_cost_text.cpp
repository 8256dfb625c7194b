#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>

#include "base/cat.h"
#include "base/units.h"
#include "mesh/shard.h"
#include "plan/mesh_cost.h"

namespace zoetrope {
namespace {

// Ranks that take the same, by their first one.
struct Group {
  const RankCost* cost;
  std::vector<int> ranks;
};

template <class Same>
std::vector<Group> groups(const MeshCost& cost, Same same) {
  std::vector<Group> all;
  for (size_t r = 0; r < cost.ranks.size(); ++r) {
    auto group = std::ranges::find_if(all, [&](const Group& g) { return same(*g.cost, cost.ranks[r]); });
    if (group == all.end()) group = all.insert(all.end(), {&cost.ranks[r], {}});
    group->ranks.push_back(static_cast<int>(r));
  }
  return all;
}

// "0", "1-7", "8-35, 37-71"
std::string text_of(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += cat(i ? ", " : "", ranks[i], last > i ? cat('-', ranks[last]) : "");
    i = last + 1;
  }
  return text;
}

OrderedJson memory_of(const RankCost& cost) {
  const MemoryNeed& need = cost.memory;
  return {{"weights", need.weights},
          {"request", need.request},
          {"scratch", need.scratch},
          {"exchange", need.exchange},
          {"total", need.total()}};
}

std::string left(const std::string& text, size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text + ' ';
}
std::string right(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : ' ' + text;
}

void print_traffic(std::ostream& out, const Collectives& collectives) {
  if (collectives.empty()) out << "    none\n";
  for (const auto& [axis, verbs] : collectives)
    for (const auto& [verb, traffic] : verbs)
      out << "    " << left(axis, 10) << left(name(verb), 12) << right(grouped(traffic.calls), 6)
          << right(grouped(traffic.bytes), 18) << " bytes (" << human_bytes(traffic.bytes) << ")\n";
}

void print_collectives(std::ostream& out, const MeshCost& cost, const char* of, Collectives RankCost::*which) {
  const auto all = groups(cost, [&](const RankCost& a, const RankCost& b) { return a.*which == b.*which; });
  for (const Group& group : all) {
    out << "  collectives of " << of << " and a rank" << (all.size() > 1 ? cat(", ranks ", text_of(group.ranks)) : "")
        << '\n';
    print_traffic(out, group.cost->*which);
  }
}

std::vector<std::string> memory_row(const MemoryNeed& cost, const std::vector<std::string>& components) {
  std::vector<std::string> row;
  for (const std::string& component : components) {
    const auto held = cost.weights.find(component);
    row.push_back(held == cost.weights.end() ? "-" : human_bytes(held->second));
  }
  for (const int64_t bytes : {cost.request, cost.scratch, cost.exchange, cost.total()})
    row.push_back(human_bytes(bytes));
  return row;
}

size_t column_width(const std::string& head) { return std::max<size_t>(head.size(), 8) + 2; }

void print_memory(std::ostream& out, const MeshCost& cost) {
  std::vector<std::string> components;
  for (const RankCost& rank : cost.ranks)
    for (const auto& [component, bytes] : rank.memory.weights)
      if (std::ranges::find(components, component) == components.end()) components.push_back(component);
  std::vector<std::string> head = components;
  for (const char* column : {"request", "scratch", "exchange", "total"}) head.emplace_back(column);
  out << "  peak memory\n    " << left("rank", 12);
  for (const std::string& column : head) out << right(column, column_width(column));
  out << '\n';
  const auto same = [](const RankCost& a, const RankCost& b) { return a.memory == b.memory; };
  for (const Group& group : groups(cost, same)) {
    out << "    " << left(text_of(group.ranks), 12);
    const std::vector<std::string> row = memory_row(group.cost->memory, components);
    for (size_t i = 0; i < row.size(); ++i) out << right(row[i], column_width(head[i]));
    out << '\n';
  }
}

}  // namespace

OrderedJson as_json(const MeshCost& cost) {
  const Request& request = cost.request;
  OrderedJson facts{{"mesh", cost.layout.text()},
                    {"world", cost.layout.shape.world()},
                    {"size", cat(request.width, 'x', request.height)},
                    {"num_frames", request.num_frames},
                    {"latent_frames", request.latent_frames()},
                    {"steps", request.steps},
                    {"dtype", name(cost.dtype)},
                    {"vae_dtype", name(cost.vae_dtype)},
                    {"tokens", cost.tokens}};
  for (const Group& group : groups(cost, std::equal_to<>()))
    facts["ranks"].push_back(OrderedJson{{"ranks", text_of(group.ranks)},
                                         {"memory", memory_of(*group.cost)},
                                         {"forward_flops", group.cost->forward_flops},
                                         {"total_flops", group.cost->flops},
                                         {"forward", as_json(group.cost->forward)},
                                         {"whole", as_json(group.cost->whole)}});
  return facts;
}

std::string as_text(const MeshCost& cost) {
  const Request& request = cost.request;
  const int parts = cost.layout.shape.sequence();
  std::ostringstream out;
  out << "\ncost on " << cost.layout.text() << " = " << plural(cost.layout.shape.world(), "rank") << ": "
      << request.width << 'x' << request.height << ", " << plural(request.num_frames, "frame") << ", "
      << plural(request.steps, "step") << ", " << name(cost.dtype);
  if (cost.vae_dtype != cost.dtype) out << " (VAE " << name(cost.vae_dtype) << ')';
  out << ", prompts at their longest\n";
  out << "  " << left("tokens", 24) << grouped(cost.tokens) << " (" << plural(request.latent_frames(), "latent frame")
      << ')';
  if (parts > 1) out << ", " << grouped(shard_tokens(cost.tokens, parts, 0).slot) << " a rank";
  out << '\n';
  for (const auto& [what, flops] :
       {std::pair{"a forward of rank 0", cost.ranks[0].forward_flops}, {"the request on rank 0", cost.ranks[0].flops}})
    out << "  " << left(what, 24) << human_flops(flops) << " (" << grouped(std::llround(flops)) << ")\n";
  print_collectives(out, cost, "a forward", &RankCost::forward);
  print_memory(out, cost);
  return out.str();
}

}  // namespace zoetrope
