// How many ranks each axis has, which rank stands where, which layouts are legal, and the one that is taken when nobody
// chooses.
//
// Axes, outer to inner: cfg, tp, cp (row, col), ulysses. Row-major:
//   rank = (((cfg*T + tp)*R + row)*C + col)*U + u
// A ring is a column (R = ring, C = 1); Attention2D is R x C. The VAE has its own ranks over the same world.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace zoetrope {

enum class VaeSplit : uint8_t { height, width };  // which axis of the frames is cut

struct MeshShape {
  int cfg = 1, tp = 1;
  int ring = 1;            // or
  int rows = 1, cols = 1;  // Attention2D
  int ulysses = 1;
  int vae = 0;  // 0: auto, the world if it is <= 8, else min(8, one CFG half)
  VaeSplit vae_split = VaeSplit::width;

  int r() const { return ring > 1 ? ring : rows; }
  int c() const { return ring > 1 ? 1 : cols; }
  int cp() const { return r() * c(); }
  int sequence() const { return cp() * ulysses; }  // parts that the tokens are cut into
  int world() const { return cfg * tp * sequence(); }
  int vae_ranks() const;  // `auto` decided

  friend bool operator==(const MeshShape&, const MeshShape&) = default;
};

struct MeshPlace {
  int cfg = 0, tp = 0, row = 0, col = 0, ulysses = 0;
  friend bool operator==(const MeshPlace&, const MeshPlace&) = default;
};

int rank_of(const MeshShape& shape, const MeshPlace& place);
MeshPlace place_of(const MeshShape& shape, int rank);
int sequence_index(const MeshShape& shape, const MeshPlace& place);  // which part of the tokens: (row*C + col)*U + u

// World ranks that differ from `rank` in the named coordinate alone, ascending.
enum class Axis : uint8_t { cfg, tp, row, col, ulysses, sequence };  // row: same row, C members; col: same column, R
const char* name(Axis axis);
std::vector<int> group_of(const MeshShape& shape, Axis axis, int rank);

// What a model allows: N query heads, M key heads (0: not known yet).
struct MeshHeads {
  int64_t heads = 0, kv_heads = 0;
};

// "cfg 2 x ulysses 4", "cfg 1 x tp 2 x ring 3", "cfg 2 x attn2d 3x3 x ulysses 4"; "cfg 1" for a single rank.
std::string text_of(const MeshShape& shape);

// Why the shape itself cannot be, or "": a degree below 1, cfg above 2, ring with attn2d, tp that does not divide the
// heads, more ulysses ranks than heads, VAE ranks that straddle the CFG halves.
std::string objection(const MeshShape& shape, const MeshHeads& heads = {});

// All layouts of so many ranks without an objection, VAE auto: those without a ring or attn2d first, then little tp
// before much, cfg 2 before 1. Forms of one degree count apart (ring 2, attn2d 1x2, attn2d 2x1).
std::vector<MeshShape> legal_meshes(int ranks, const MeshHeads& heads = {});

// Refuses (Code::invalid) an objection, or a product that is not the number of ranks, and lists layouts that would
// work.
void check(const MeshShape& shape, int ranks, const MeshHeads& heads = {});

// A bare --ranks N: cfg 2 if guidance > 1 and N is even; the largest Ulysses degree that divides what is left (<=
// heads, and dividing the ranks of a node, 0: one node); the rest Attention2D as square as possible, R >= C; VAE auto.
MeshShape default_mesh(int ranks, double guidance, const MeshHeads& heads, int ranks_per_node = 0);

}  // namespace zoetrope
