// A mesh of one rank: what runs on many runs on one without a special case.
#pragma once
#include "mesh/mesh.h"

namespace zoetrope {

class SoloMesh {
 public:
  const Mesh& mesh() const { return mesh_; }

 private:
  Session session_;
  std::unique_ptr<Comm> world_ = solo("world", 0, session_);
  Mesh mesh_{*world_, {}};
};

}  // namespace zoetrope
