#include "mesh/mesh.h"

#include <numeric>

namespace zoetrope {

Mesh::Mesh(Comm& world, const MeshShape& shape, const MeshHeads& heads) : world_(world), shape_(shape) {
  check(shape, world.size(), heads);
  place_ = place_of(shape, world.rank());
  cfg_ = axis(Axis::cfg, "cfg");
  tp_ = axis(Axis::tp, "tp");
  row_ = axis(Axis::row, "row");
  col_ = axis(Axis::col, shape.ring > 1 ? "ring" : "col");
  ulysses_ = axis(Axis::ulysses, "ulysses");
  sequence_ = axis(Axis::sequence, "sequence");
  vae_ = overlay();
}

std::unique_ptr<Comm> Mesh::axis(Axis axis, const char* label) {
  const auto group = group_of(shape_, axis, world_.rank());  // equally many on every rank: all split, or none
  return group.size() == 1 ? solo(label, world_.world_rank(), world_.session()) : world_.split(label, group);
}

std::unique_ptr<Comm> Mesh::overlay() {
  std::vector<int> group(static_cast<size_t>(shape_.vae_ranks()));
  std::iota(group.begin(), group.end(), 0);
  const bool inside = world_.rank() < shape_.vae_ranks();
  if (group.size() == 1) return inside ? solo("vae", world_.world_rank(), world_.session()) : nullptr;
  return world_.split("vae", inside ? group : std::vector<int>());
}

}  // namespace zoetrope
