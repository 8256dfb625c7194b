// Segments as CUDA graphs: a replay gives the bits of a plain run, allocates nothing, waits for nothing, and reads what
// changes between steps from device memory.
#include <cuda_runtime.h>

#include "cuda/counted_calls.h"
#include "models/wan/transformer.h"
#include "nn/random.h"
#include "ops/cuda/segments.h"
#include "ops/host.h"
#include "ops/ops.h"
#include "pipeline/toy_runs.h"
#include "sched/unipc.h"
#include "support/device_ctx.h"
#include "support/words.h"

namespace zoetrope {
namespace {

// A small transformer block, with every kind of call a segment makes: products, attention, norms, rotary, residual.
struct Block {
  static constexpr int64_t tokens = 96, heads = 2, width = 64, channels = heads * width;

  explicit Block(DeviceCtx& dev)
      : h(dev.random({tokens, channels}, 1)),
        qkv_w(dev.random({3 * channels, channels}, 2, DType::bf16, 0.1f)),
        out_w(dev.random({channels, channels}, 3, DType::bf16, 0.1f)),
        bias(dev.random({channels}, 4, DType::bf16)),
        norm(dev.random({channels}, 5, DType::bf16)),
        table(dev.random({3, channels}, 6)),
        rope{{dev.random({4, 16, 2}, 7), dev.random({4, 8, 2}, 8), dev.random({6, 8, 2}, 9)}, RopeStyle::adjacent, 0} {}

  void run(Ctx& c) const {
    Scope scope(c.scratch());
    const Tensor n = norm_modulate(c, h, {table.rows(0, 1), table.rows(1, 2), {}}, 1e-6f, DType::bf16);
    const Tensor qkv = linear(c, n, qkv_w, {});
    const auto part = [&](int64_t i) { return as_heads(qkv, i * channels, heads, width); };
    norm_rope(c, part(0), norm, 1e-6f, &rope, part(0));
    norm_rope(c, part(1), norm, 1e-6f, &rope, part(1));
    const Tensor o = attention(c, part(0), part(1), part(2)).o.view({tokens, channels});
    Tensor more;
    {
      Fork side(c);
      more = silu(side, o);
    }
    const Tensor last = c.empty(h.shape(), DType::bf16);
    gate_add_norm(c, h, linear(c, more, out_w, bias, {.act = Act::gelu_tanh}), table.rows(2, 3), {},
                  {.eps = 1e-6f, .m = {table.rows(0, 1), table.rows(1, 2), {}}}, last);
    gate_add(c, h, last, {}, {});
  }

  Tensor h, qkv_w, out_w, bias, norm, table;
  Rope rope;
};

cuda::GraphSegments& segments(DeviceCtx& dev) { return dynamic_cast<cuda::GraphSegments&>(*dev.rank.segments); }

TEST(Segments, ReplayGivesTheBitsOfPlainRuns) {
  DeviceCtx plain, recorded;
  const Block a(plain), b(recorded);
  for (int step = 0; step < 6; ++step) {
    a.run(plain);
    recorded.c.segment("block", [&] { b.run(recorded); });
    expect_same_bits(a.h, b.h);
  }
  EXPECT_EQ(segments(recorded).recorded(), 1u);
  EXPECT_EQ(segments(recorded).replays(), 4);
  EXPECT_EQ(recorded.c.counts().at("attention").calls, plain.c.counts().at("attention").calls);
  EXPECT_EQ(recorded.c.counts().at("linear").bytes, plain.c.counts().at("linear").bytes);
}

TEST(Segments, ReadWhatChangesFromDeviceMemory) {
  DeviceCtx dev;
  const Tensor cond = dev.random({50}, 1), uncond = dev.random({50}, 2), scale = dev.tensor({1}, std::vector<float>{0}),
               out = dev.poisoned({50}, DType::f32);
  const auto body = [&] {
    Scope scope(dev.c.scratch());
    copy(dev, guide(dev, cond, uncond, scale), out);
  };
  for (const float s : {0.0f, 1.0f, 2.5f, -3.0f}) {
    dev.c.upload(&s, scale);
    dev.c.segment("guide", body);
    std::vector<double> want;
    for (size_t i = 0; i < 50; ++i)
      want.push_back(double{values_of(uncond)[i]} + double{s} * (values_of(cond)[i] - double{values_of(uncond)[i]}));
    expect_near(out, want, 1e-6);
  }
}

// What a segment takes from the device once it is warm: nothing. Others may use the device at the same time, so one
// undisturbed round of a hundred is enough; an allocation of ours would show in each.
TEST(Segments, AllocateNothingAfterWarmUp) {
  DeviceCtx dev;
  const Block block(dev);
  const auto free_bytes = [] {
    size_t free = 0, total = 0;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    return free;
  };
  for (int i = 0; i < 3; ++i) dev.c.segment("block", [&] { block.run(dev); });
  const size_t committed = dev.c.scratch().committed();
  bool same = false;
  for (int round = 0; round < 100 && !same; ++round) {
    const size_t before = free_bytes();
    for (int i = 0; i < 20; ++i) dev.c.segment("block", [&] { block.run(dev); });
    same = free_bytes() == before;
  }
  EXPECT_TRUE(same);
  EXPECT_EQ(dev.c.scratch().committed(), committed);
}

// The first run takes memory; the recording and the replays take none, and wait for nothing.
TEST(Segments, CallNothingThatAllocatesOrWaitsAfterTheFirstRun) {
  DeviceCtx dev;
  const Block block(dev);
  const CudaCalls before = cuda_calls();
  dev.c.segment("block", [&] { block.run(dev); });
  EXPECT_GT(cuda_calls().memory, before.memory) << "what the first run takes must be seen";
  const CudaCalls warm = cuda_calls();
  for (int i = 0; i < 5; ++i) dev.c.segment("block", [&] { block.run(dev); });
  EXPECT_EQ(cuda_calls(), (CudaCalls{warm.memory, warm.waits, warm.graphs + 1}));
  EXPECT_EQ(segments(dev).replays(), 4);
  dev.c.stream().sync();
  EXPECT_GT(cuda_calls().waits, warm.waits) << "a wait must be seen";
}

// A whole prediction: the rows of the step that are copied before the segments, and the segments.
TEST(Segments, OfATransformerCallNothingThatAllocatesOrWaits) {
  DeviceCtx dev;
  WanConfig config;
  config.layers = 2, config.heads = 2, config.width = 64, config.text_dim = 48, config.ffn_dim = 256;
  nn::Random weights(3);
  const WanTransformer model(dev.c, config, weights, DType::bf16);
  const std::vector<float> times{900, 500, 100};
  const StepTable steps = model.steps(dev.c, times);
  const Text text = model.encode_text(dev.c, dev.random({WanConfig::text_rows, config.text_dim}, 1), 20);
  const Tensor latents = dev.random({2, 8, 12, config.in_channels}, 2);
  std::vector<std::vector<float>> plain;
  const auto step = [&](int64_t i) {
    Scope scope(dev.c.scratch());
    return values_of(model.forward(dev.c, latents, steps, i, text));
  };
  for (int64_t i = 0; i < 3; ++i) plain.push_back(step(0));  // plain, recorded, replayed
  EXPECT_EQ(plain[0], plain[2]);
  EXPECT_EQ(segments(dev).recorded(), 3u) << "head, blocks, tail";
  const CudaCalls warm = cuda_calls();
  for (int64_t i = 0; i < 3; ++i) {
    Scope scope(dev.c.scratch());
    model.forward(dev.c, latents, steps, i, text);
  }
  EXPECT_EQ(cuda_calls(), warm);
  EXPECT_NE(step(1), plain[0]) << "a replay reads the rows of its own step";
}

// Guidance and solver as the denoiser issues them: a row of coefficients put in place, then the segment.
struct EndOfStep {
  EndOfStep(DeviceCtx& dev, const Schedule& schedule)
      : cond(dev.random({3, 10, 7, 16}, 1)),
        uncond(dev.random({3, 10, 7, 16}, 2)),
        scale(dev.tensor({1}, std::vector<float>{4})),
        solver(dev, dev.random({3, 10, 7, 16}, 3), schedule, 2) {}

  void run(DeviceCtx& dev, int i, bool recorded) const {
    solver.begin(dev, i);
    const auto body = [&] { solver.step(dev, {cond, uncond, scale}); };
    if (recorded)
      dev.c.segment("guidance and solver", body);
    else
      body();
  }

  Tensor cond, uncond, scale;
  UniPC solver;
};

TEST(Segments, OfGuidanceAndSolverReplayWithTheRowOfTheirStep) {
  SchedulerConfig config;
  config.flow_shift = 5;
  const Schedule schedule = make_schedule(config, 8, Grid::diffusers);
  DeviceCtx plain, recorded;
  const EndOfStep a(plain, schedule), b(recorded, schedule);
  CudaCalls warm{};
  for (int i = 0; i < 8; ++i) {
    a.run(plain, i, false);
    if (i == 1) warm = cuda_calls();
    b.run(recorded, i, true);
    if (i == 1) {
      EXPECT_EQ(cuda_calls(), (CudaCalls{warm.memory, warm.waits, warm.graphs + 1}))
          << "the recording waits or takes memory";
    }
    expect_same_bits(a.solver.latents(), b.solver.latents());
    EXPECT_EQ(b.solver.bad(recorded), 0);
  }
  EXPECT_EQ(segments(recorded).recorded(), 1u);
  EXPECT_EQ(segments(recorded).replays(), 6);
  warm = cuda_calls();
  for (int i = 2; i < 8; ++i) b.run(recorded, i, true);
  EXPECT_EQ(cuda_calls(), warm);
  const float nan = NAN;
  recorded.c.upload(&nan, b.uncond.view({b.uncond.size()}).rows(77, 78));
  b.run(recorded, 7, true);
  EXPECT_EQ(b.solver.bad(recorded), 1) << "a replay counts what is not finite";
}

// Six guided steps: three segments for each of two prompts, and the end of the step. Two runs of each are no replays.
TEST(Segments, OfAWholeVideoGiveTheFramesOfPlainRuns) {
  std::vector<std::vector<uint8_t>> videos;
  for (const bool recorded : {false, true}) {
    DeviceCtx dev;
    if (!recorded) dev.rank.segments.reset();
    const ModelSource source = toy_source("wan");
    TextToVideo pipeline(dev, source, DType::f32, DType::f32, {});
    Ask ask;
    ask.steps = 6;
    const Request request = toy_request(source, ask);
    Frames frames;
    pipeline.run(dev, request, scheduler_config(source, request), {{5, 9, 4, 1}, {7, 1}}, {}, frames);
    videos.push_back(frames.bytes);
    if (!recorded) continue;
    EXPECT_EQ(segments(dev).replays(), 4 * (2 * 3 + 1));
  }
  EXPECT_GT(videos[0].size(), 0u);
  EXPECT_EQ(videos[0], videos[1]);
}

TEST(Segments, OfAPipelineLetItNameTheStepThatIsNotFinite) {
  DeviceCtx dev;
  const ModelSource source = toy_source("wan");
  TextToVideo pipeline(dev, source, DType::f32, DType::f32, {});
  Ask ask;
  ask.steps = 6;
  const Request request = toy_request(source, ask);
  const auto look = [&](const Progress& now) {  // by the fourth step all is replayed
    if (now.stage == Stage::denoise && now.done == 4) spoil(*dev.rank.weights.at("transformer").at(""));
  };
  Frames frames;
  const std::string said = words([&] {
    pipeline.run(dev, request, scheduler_config(source, request), {{5, 9, 4, 1}, {7, 1}}, {{}, look}, frames);
  });
  EXPECT_TRUE(said.starts_with("denoise: step 5 of 6 (transformer) holds ")) << said;
}

// A recording goes with the pages that it works in, and only then.
TEST(Segments, GoWithThePagesThatTheyWorkIn) {
  DeviceCtx dev;
  const Tensor low = dev.random({64}, 1), high = dev.random({64}, 2);
  const auto run = [&](const char* key, const Tensor& x) {
    dev.c.segment(key, [&] {
      Scope scope(dev.c.scratch());
      silu(dev, x);
    });
  };
  for (int i = 0; i < 2; ++i) run("low", low);
  const size_t request = dev.c.request().committed(), scratch = dev.c.scratch().committed();
  dev.c.scratch().reserve(dev.c.scratch().committed() + 1);
  for (int i = 0; i < 2; ++i) run("high", high);
  ASSERT_EQ(segments(dev).recorded(), 2u);
  dev.rank.segments->trimmed(request, scratch);
  EXPECT_EQ(segments(dev).recorded(), 1u);
  const int64_t replays = segments(dev).replays();
  run("low", low);
  EXPECT_EQ(segments(dev).replays(), replays + 1);
  dev.rank.segments->trimmed(0, 0);
  EXPECT_EQ(segments(dev).recorded(), 0u);
}

TEST(HostMemory, ThatCannotBePinnedIsSaidInOneLine) {
  DeviceCtx dev;
  EXPECT_EQ(words([&] { host_memory(dev, size_t{1} << 50); }),
            "memory: the host cannot pin 1125899906842624 bytes for the GPU");
  EXPECT_EQ(values_of(silu(dev, dev.random({10}, 1))).size(), 10u);
}

TEST(Segments, RefuseABodyThatWaitsAndWorkAfterwards) {
  DeviceCtx dev;
  const Tensor x = dev.random({10}, 1);
  const auto waits = [&] {
    add(dev, x, x);
    dev.c.stream().sync();  // not allowed while a graph is recorded
  };
  dev.c.segment("waits", waits);  // the first run works plainly
  EXPECT_NE(words([&] { dev.c.segment("waits", waits); }), "no error");
  const Tensor y = silu(dev, x);
  dev.c.stream().sync();
  EXPECT_TRUE(std::isfinite(values_of(y)[0]));
}

TEST(Segments, KeepABoundedNumberOfRecordings) {
  DeviceCtx dev;
  dev.rank.segments = std::make_unique<cuda::GraphSegments>(4);
  const Tensor x = dev.random({10}, 1);
  for (int round = 0; round < 3; ++round)
    for (int key = 0; key < 4; ++key) dev.c.segment(cat("k", key), [&] { fill(dev, x, static_cast<float>(key)); });
  EXPECT_EQ(segments(dev).recorded(), 4u);
  for (int round = 0; round < 3; ++round) dev.c.segment("another", [&] { fill(dev, x, 9); });
  EXPECT_EQ(segments(dev).recorded(), 4u);
  EXPECT_EQ(values_of(x), std::vector<float>(10, 9.0f));
}

TEST(Segments, RecordNothingWhileSomebodyLooks) {
  DeviceCtx dev;
  const Tensor x = dev.random({10}, 1);
  int seen = 0;
  dev.rank.tap = [&](Ctx&, std::string_view, const Tensor&) { ++seen; };
  for (int i = 0; i < 3; ++i)
    dev.c.segment("tapped", [&] {
      silu(dev, x);
      dev.c.tap("x", x);
    });
  EXPECT_EQ(seen, 3);
  EXPECT_EQ(segments(dev).recorded(), 0u);
}

TEST(Segments, GrowingScratchLeavesARecordingValid) {
  DeviceCtx dev;
  const Block block(dev);
  const auto step = [&] { dev.c.segment("block", [&] { block.run(dev); }); };
  step(), step();
  {
    Scope scope(dev.c.scratch());
    fill(dev, dev.c.empty({200 << 20}, DType::f32), 1);
  }
  step();
  DeviceCtx other;
  const Block fresh(other);
  for (int i = 0; i < 3; ++i) fresh.run(other);
  expect_same_bits(block.h, fresh.h);
}

}  // namespace
}  // namespace zoetrope
