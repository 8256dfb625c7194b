#include "pipeline/collectives.h"

namespace zoetrope {

Collectives count(const std::vector<Record>& log) {
  Collectives all;
  for (const Record& record : log) {
    Traffic& traffic = all[record.axis][record.verb];
    ++traffic.calls, traffic.bytes += record.bytes;
  }
  return all;
}

OrderedJson as_json(const Collectives& collectives) {
  OrderedJson all = OrderedJson::object();
  for (const auto& [axis, verbs] : collectives)
    for (const auto& [verb, traffic] : verbs)
      all[axis][name(verb)] = {{"count", traffic.calls}, {"bytes", traffic.bytes}};
  return all;
}

Collectives collectives_of(const Mesh& mesh) {
  Collectives all;
  for (const Comm* comm :
       std::initializer_list<const Comm*>{&mesh.world(), &mesh.cfg(), &mesh.tp(), &mesh.row(), &mesh.col(),
                                          &mesh.ulysses(), &mesh.sequence(), mesh.vae()})
    for (int verb = 0; comm && verb < verb_count; ++verb)
      all[comm->axis()][static_cast<Verb>(verb)] = comm->traffic(static_cast<Verb>(verb));
  return all;
}

Collectives per(int64_t n, const Collectives& after, const Collectives& before) {
  Collectives one;
  for (const auto& [axis, verbs] : after)
    for (const auto& [verb, total] : verbs) {
      const Traffic& earlier = before.at(axis).at(verb);
      const Traffic each{(total.calls - earlier.calls) / n, (total.bytes - earlier.bytes) / n};
      if (each.calls > 0) one[axis][verb] = each;
    }
  return one;
}

}  // namespace zoetrope
