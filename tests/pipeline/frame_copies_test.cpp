#include "pipeline/frame_copies.h"

#include "core/dry_rank.h"
#include "ops/ops.h"
#include "support/cpu_ctx.h"
#include "support/words.h"

namespace zoetrope {
namespace {

const Shape largest{4, 3, 5, 3};

// A chunk whose every byte says its number; the first has one frame.
void send(Ctx& c, FrameCopies& copies, Fork& side, int chunk) {
  const Scope scope(c.scratch());
  const Tensor range = c.empty({3}, DType::f32), frames = c.empty(largest.with(0, chunk ? 4 : 1), DType::u8);
  const std::vector<float> values{static_cast<float>(-chunk), static_cast<float>(chunk), 0.5f};
  c.upload(values.data(), range);
  c.upload(std::vector<uint8_t>(static_cast<size_t>(frames.size()), static_cast<uint8_t>(chunk)).data(), frames);
  copies.send(c, side, range, frames);
}

TEST(FrameCopies, BringEachChunkInOrderWhileTheNextIsMade) {
  CpuCtx cpu;
  const Scope scope(cpu.c.scratch());
  FrameCopies copies(cpu.c, largest);
  Fork side(cpu.c);
  const auto expect = [&](int chunk) {
    const FrameCopies::Chunk got = copies.receive(cpu.c);
    const auto number = static_cast<float>(chunk);
    EXPECT_EQ(got.range, (std::array<float, 3>{-number, number, 0.5f}));
    EXPECT_EQ(got.frames.size(), chunk ? 180u : 45u);
    for (const uint8_t byte : got.frames) ASSERT_EQ(byte, chunk);
  };
  for (int chunk = 0; chunk < 6; ++chunk) {
    send(cpu.c, copies, side, chunk);
    if (chunk > 0) expect(chunk - 1);
  }
  expect(5);
  EXPECT_FALSE(copies.pending());
}

TEST(FrameCopies, ARankWithoutFramesGetsItsRange) {
  CpuCtx cpu;
  const Scope scope(cpu.c.scratch());
  FrameCopies copies(cpu.c, largest.with(0, 0));
  Fork side(cpu.c);
  copies.send(cpu.c, side, cpu.tensor({3}, std::vector<float>{1, 2, 3}), {});
  const FrameCopies::Chunk got = copies.receive(cpu.c);
  EXPECT_EQ(got.range, (std::array<float, 3>{1, 2, 3}));
  EXPECT_TRUE(got.frames.empty());
}

TEST(FrameCopies, TakeInADryContextWhatTheyTakeOtherwise) {
  CpuCtx cpu;
  DryRank dry(device::traits());
  for (Ctx* c : {&cpu.c, &dry.c}) {
    const Scope scope(c->scratch());
    FrameCopies copies(*c, largest);
    Fork side(*c);
    const Tensor range = c->empty({3}, DType::f32), frames = c->empty(largest, DType::u8);
    copies.send(*c, side, range, frames);
  }
  EXPECT_EQ(dry.c.scratch().peak(), cpu.c.scratch().peak());
}

TEST(FrameCopies, RefuseAThirdChunkAndToWaitForNone) {
  CpuCtx cpu;
  const Scope scope(cpu.c.scratch());
  FrameCopies copies(cpu.c, largest);
  Fork side(cpu.c);
  EXPECT_EQ(words([&] { copies.receive(cpu.c); }), "frames: nothing was sent");
  send(cpu.c, copies, side, 0), send(cpu.c, copies, side, 1);
  EXPECT_EQ(words([&] { send(cpu.c, copies, side, 2); }),
            "frames: a third chunk was sent before the first was received");
}

}  // namespace
}  // namespace zoetrope
