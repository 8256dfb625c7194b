// A communicator per axis, live and dry.
#include "mesh/mesh.h"

#include "comm/dry/world.h"
#include "comm/ranks.h"
#include "support/words.h"

namespace zoetrope {
namespace {

// Gathers the world rank over an axis: the members as seen through data.
std::vector<int> seen(Ctx& c, Comm& axis) {
  const Tensor x = filled(c, 1, 1, [&](int64_t, int64_t) { return axis.world_rank(); });
  const Tensor all = axis.all_gather(c, x);
  return {all.data<float>(), all.data<float>() + all.size()};
}

struct Worlds : testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Worlds, testing::Values(1, 2, 3, 4, 6, 7, 8));

TEST_P(Worlds, EveryLegalMeshTalksAlongItsAxes) {
  for (const MeshShape& shape : legal_meshes(GetParam()))
    on_ranks(GetParam(), [&](Ctx& c, Comm& world) {
      const Mesh mesh(world, shape);
      const auto expect = [&](Comm& comm, Axis axis) {
        EXPECT_EQ(seen(c, comm), group_of(shape, axis, world.rank())) << text_of(shape) << " " << name(axis);
      };
      expect(mesh.cfg(), Axis::cfg), expect(mesh.tp(), Axis::tp), expect(mesh.row(), Axis::row);
      expect(mesh.col(), Axis::col), expect(mesh.ulysses(), Axis::ulysses), expect(mesh.sequence(), Axis::sequence);
      EXPECT_EQ(mesh.sequence_index(), sequence_index(shape, mesh.place()));
      EXPECT_EQ(mesh.cfg().rank(), mesh.place().cfg);
      EXPECT_EQ(mesh.col().axis(), shape.ring > 1 ? "ring" : "col");
      EXPECT_EQ(mesh.vae()->size(), GetParam());
    });
}

TEST(Mesh, LaysTheVaeOverTheWorld) {
  on_ranks(8, [](Ctx& c, Comm& world) {
    const Mesh mesh(world, {.cfg = 2, .ulysses = 4, .vae = 3});
    EXPECT_EQ(mesh.vae() != nullptr, world.rank() < 3);
    if (mesh.vae()) {
      EXPECT_EQ(seen(c, *mesh.vae()), (std::vector{0, 1, 2}));
    }
    const Mesh alone(world, {.cfg = 2, .ulysses = 4, .vae = 1});
    EXPECT_EQ(alone.vae() != nullptr, world.rank() == 0);
  });
}

TEST(Mesh, IsRefusedBeforeAnySplit) {
  on_ranks(4, [](Ctx& c, Comm& world) {
    EXPECT_EQ(words([&] { Mesh(world, {.cfg = 2}); }).substr(0, 36), "cfg 2 = 2 ranks, but 4 were started;");
    world.barrier(c);
  });
}

TEST(Mesh, OfADryWorldIsTheSame) {
  const MeshShape shape{.cfg = 2, .rows = 3, .cols = 3, .ulysses = 4, .vae = 8};
  for (const int rank : {0, 7, 8, 41, 71}) {
    DryWorld dry(rank, 72);
    const auto world = dry.comm();
    const Mesh mesh(*world, shape);
    EXPECT_EQ(mesh.row().members(), group_of(shape, Axis::row, rank));
    EXPECT_EQ(mesh.col().members(), group_of(shape, Axis::col, rank));
    EXPECT_EQ(mesh.sequence().size(), 36);
    EXPECT_EQ(mesh.vae() != nullptr, rank < 8);
    Rank state;
    state.pool = &one_thread();
    Ctx c(state);
    mesh.row().all_gather(c, c.empty({500, 40, 128}, DType::bf16));
    ASSERT_EQ(dry.log().size(), 1u);
    EXPECT_EQ(dry.log()[0].axis, "row");
    EXPECT_EQ(dry.log()[0].bytes, 2 * 500 * 40 * 128 * 2);
  }
}

}  // namespace
}  // namespace zoetrope
