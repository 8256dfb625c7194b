// A build without MPI.
#include "comm/mpi/world.h"

#include <cstdlib>

namespace zoetrope {

std::string mpi_library() { return ""; }

struct MpiWorld::State {
  Session session;
};

MpiWorld::MpiWorld(const Facts&, const Waits&, std::function<int(Code)>) {
  fail(Code::unsupported, "mpi: this build has none; build with -DZOETROPE_MPI=ON, or use --ranks instead of mpirun");
}
MpiWorld::~MpiWorld() = default;

int MpiWorld::rank() const { return 0; }
int MpiWorld::size() const { return 1; }
Session& MpiWorld::session(int) { return state_->session; }
std::unique_ptr<Comm> MpiWorld::comm(int) { return nullptr; }
void MpiWorld::abort(const Cause&) noexcept { std::abort(); }  // nobody has one to call it on

}  // namespace zoetrope
