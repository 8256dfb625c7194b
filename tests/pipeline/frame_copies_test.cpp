#include "pipeline/frame_copies.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>

#include "core/dry_rank.h"
#include "ops/host.h"
#include "ops/ops.h"
#include "pipeline/frame_feed.h"
#include "support/cpu_ctx.h"
#include "support/words.h"

namespace zoetrope {
namespace {

constexpr int64_t chunks = 6;
const ClipShape clip{chunks, {4 * chunks - 3, 3, 5, 3}, 4};
const Shape largest = clip.frames.with(0, 4);

// A clip's copies and the memory they go to.
struct Clip {
  explicit Clip(Ctx& c, const ClipShape& shape = clip)
      : host(host_memory(c, static_cast<size_t>(shape.host_bytes()))),
        scope(c.scratch()),
        copies(c, shape, host.get()) {}

  std::shared_ptr<std::byte> host;
  Scope scope;
  FrameCopies copies;
};

// A chunk whose every byte says its number; the first has one frame.
void send(Ctx& c, FrameCopies& copies, Fork& side, int chunk) {
  const Scope scope(c.scratch());
  const Tensor range = c.empty({3}, DType::f32), frames = c.empty(largest.with(0, chunk ? 4 : 1), DType::u8);
  const std::vector<float> values{static_cast<float>(-chunk), static_cast<float>(chunk), 0.5f};
  c.upload(values.data(), range);
  c.upload(std::vector<uint8_t>(static_cast<size_t>(frames.size()), static_cast<uint8_t>(chunk)).data(), frames);
  copies.send(c, side, range, frames);
}

void expect_chunk(const FrameCopies::Chunk& got, int chunk) {
  const auto number = static_cast<float>(chunk);
  EXPECT_EQ(got.range, (std::array<float, 3>{-number, number, 0.5f}));
  EXPECT_EQ(got.frames.size(), chunk ? 180u : 45u);
  for (const uint8_t byte : got.frames) ASSERT_EQ(byte, chunk);
}

TEST(FrameCopies, BringEachChunkInOrderWhileTheNextIsMade) {
  CpuCtx cpu;
  Clip to(cpu.c);
  Fork side(cpu.c);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    send(cpu.c, to.copies, side, chunk);
    if (chunk > 0) expect_chunk(to.copies.receive(cpu.c), chunk - 1);
  }
  expect_chunk(to.copies.receive(cpu.c), chunks - 1);
  EXPECT_FALSE(to.copies.pending());
}

// Nobody has looked at any of them, and the first is as it was when the last has come.
TEST(FrameCopies, HoldTheWholeClip) {
  CpuCtx cpu;
  Clip to(cpu.c);
  Fork side(cpu.c);
  for (int chunk = 0; chunk < chunks; ++chunk) send(cpu.c, to.copies, side, chunk);
  std::vector<FrameCopies::Chunk> all;
  while (to.copies.pending()) all.push_back(to.copies.receive(cpu.c));
  ASSERT_EQ(all.size(), static_cast<size_t>(chunks));
  for (int chunk = 0; chunk < chunks; ++chunk) expect_chunk(all[static_cast<size_t>(chunk)], chunk);
  EXPECT_EQ(all.back().frames.data() + all.back().frames.size(),
            reinterpret_cast<const uint8_t*>(to.host.get()) + clip.host_bytes());
}

TEST(FrameCopies, ARankWithoutFramesGetsItsRange) {
  CpuCtx cpu;
  Clip to(cpu.c, {chunks, clip.frames.with(0, 0), 4});
  Fork side(cpu.c);
  to.copies.send(cpu.c, side, cpu.tensor({3}, std::vector<float>{1, 2, 3}), {});
  const FrameCopies::Chunk got = to.copies.receive(cpu.c);
  EXPECT_EQ(got.range, (std::array<float, 3>{1, 2, 3}));
  EXPECT_TRUE(got.frames.empty());
}

TEST(FrameCopies, TakeInADryContextWhatTheyTakeOtherwise) {
  CpuCtx cpu;
  DryRank dry(device::traits());
  const auto host = host_memory(cpu.c, static_cast<size_t>(clip.host_bytes()));
  for (Ctx* c : {&cpu.c, &dry.c}) {
    const Scope scope(c->scratch());
    FrameCopies copies(*c, clip, c->dry() ? nullptr : host.get());
    Fork side(*c);
    const Tensor range = c->empty({3}, DType::f32), frames = c->empty(largest, DType::u8);
    copies.send(*c, side, range, frames);
  }
  EXPECT_EQ(dry.c.scratch().peak(), cpu.c.scratch().peak());
}

TEST(FrameCopies, RefuseMoreThanTheClipAndToWaitForNone) {
  CpuCtx cpu;
  Clip to(cpu.c);
  Fork side(cpu.c);
  EXPECT_EQ(words([&] { to.copies.receive(cpu.c); }), "frames: nothing was sent");
  for (int chunk = 0; chunk < chunks; ++chunk) send(cpu.c, to.copies, side, chunk);
  EXPECT_EQ(words([&] { send(cpu.c, to.copies, side, 1); }), "frames: more than the 21 frames in 6 chunks of the clip");
}

// ---- the feed ---------------------------------------------------------------------------------------------------

// Takes no frame before it is told to.
struct Slow final : FrameSink {
  std::promise<void> go;
  std::shared_future<void> may = go.get_future().share();
  std::vector<uint8_t> firsts;
  std::exception_ptr error;

  void begin(int, int, int, int) override {}
  void frame(std::span<const uint8_t> rgb) override {
    may.wait();
    if (error) std::rethrow_exception(error);
    firsts.push_back(rgb[0]);
  }
  void finish(const std::stop_token&) override {}
};

const size_t frame_bytes = static_cast<size_t>(largest.with(0, 1).size());
const auto nobody = [](int) {};

TEST(FrameFeed, ASinkThatWaitsHoldsUpNoChunk) {
  CpuCtx cpu;
  Clip to(cpu.c);
  Slow sink;
  std::vector<int> heard;
  FrameFeed feed(sink, frame_bytes, 20, [&](int sent) { heard.push_back(sent); });
  Fork side(cpu.c);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    send(cpu.c, to.copies, side, chunk);
    feed.push(to.copies.receive(cpu.c).frames);  // the sink has not taken one of them
  }
  sink.go.set_value();
  feed.finish({});
  std::vector<uint8_t> want{0};
  for (uint8_t chunk = 1; chunk < chunks; ++chunk) want.insert(want.end(), 4, chunk);
  want.pop_back();  // 20 of 21: the last is dropped
  EXPECT_EQ(sink.firsts, want);
  EXPECT_EQ(heard, (std::vector<int>{1, 5, 9, 13, 17, 20}));
}

TEST(FrameFeed, SaysWhatTheSinkHasThrown) {
  const std::vector<uint8_t> frame(frame_bytes);
  Slow sink;
  sink.error = std::make_exception_ptr(Error(Code::device, "the disk is full"));
  sink.go.set_value();
  FrameFeed feed(sink, frame_bytes, 2, nobody);
  feed.push(frame);
  EXPECT_EQ(words([&] { feed.finish({}); }), "the disk is full");
  EXPECT_EQ(words([&] { feed.push(frame); }), "the disk is full");
  EXPECT_TRUE(sink.firsts.empty());
}

TEST(FrameFeed, IsLeftWhenAskedToStop) {
  const std::vector<uint8_t> frames(3 * frame_bytes);
  Slow sink;
  std::stop_source stop;
  {
    FrameFeed feed(sink, frame_bytes, 3, nobody);
    feed.push(frames);
    stop.request_stop();
    EXPECT_EQ(words([&] { feed.finish(stop.get_token()); }), "cancelled");
    sink.go.set_value();
  }
  EXPECT_LE(sink.firsts.size(), 3u);  // those that had begun to go
}

}  // namespace
}  // namespace zoetrope
