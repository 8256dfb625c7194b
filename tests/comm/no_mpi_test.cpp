#include <gtest/gtest.h>

#include "comm/mpi/world.h"
#include "support/words.h"

namespace zoetrope {
namespace {

TEST(NoMpi, SaysWhatWouldDo) {
  EXPECT_EQ(words([] {
              MpiWorld world(Facts{{"OMPI_COMM_WORLD_RANK", "0"}});
            }),
            "mpi: this build has none; build with -DZOETROPE_MPI=ON, or use --ranks instead of mpirun");
}

}  // namespace
}  // namespace zoetrope
