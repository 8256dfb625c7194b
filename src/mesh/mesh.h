// The mesh of one rank: a communicator per axis.
#pragma once
#include <memory>

#include "comm/comm.h"
#include "mesh/shape.h"

namespace zoetrope {

class Mesh {
 public:
  // Collective over `world` (all ranks make the same shape). Refuses what check() refuses, before any split. Axes of
  // one rank get a communicator that does nothing.
  Mesh(Comm& world, const MeshShape& shape, const MeshHeads& heads = {});

  const MeshShape& shape() const { return shape_; }
  const MeshPlace& place() const { return place_; }

  Comm& world() const { return world_; }
  Comm& cfg() const { return *cfg_; }
  Comm& tp() const { return *tp_; }
  Comm& row() const { return *row_; }            // same row, C ranks: gathers Q, merges outputs
  Comm& col() const { return *col_; }            // same column, R ranks: gathers K/V; the ring
  Comm& ulysses() const { return *ulysses_; }    // U ranks
  Comm& sequence() const { return *sequence_; }  // R*C*U ranks that share a request's tokens, in the order of the parts
  Comm* vae() const { return vae_.get(); }       // world ranks 0 .. degree-1; null on the others

  // Whether what the ranks say to each other may be part of a graph.
  bool capturable() const { return world_.size() == 1 || world_.capturable(); }

  int sequence_index() const { return sequence().rank(); }

 private:
  std::unique_ptr<Comm> axis(Axis axis, const char* label);
  std::unique_ptr<Comm> overlay();

  Comm& world_;
  MeshShape shape_;
  MeshPlace place_;
  std::unique_ptr<Comm> cfg_, tp_, row_, col_, ulysses_, sequence_, vae_;
};

}  // namespace zoetrope
