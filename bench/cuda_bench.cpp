// Times of Wan's parts at their real sizes on one GPU, with random weights and inputs. Each timed result is checked.
// - block: one block of A14B (5120 wide, 40 heads), 72,000 tokens, bf16: replays of its graph, then by op
// - step [LAYERS]: a forward of 480x256, 17 frames, 40 blocks unless told otherwise: replays against the sum of its ops
// - end: guidance and solver at the end of a step of 1280x720, 81 frames, in one pass and op by op
// - products: the block's matrix products, one by one
// - attention: its attentions, one by one, a slice of them against a sum in fp32
// - vae: 2.1 decode of 20 latent frames to 1280x720, bf16, and the device memory that it takes; by the plans of
//   the table in FILE, if one is given
// - tune: the table of that decode's plans, to FILE
// - glue: what moves bytes in that decode, alone
// - depth: bf16 against fp32 plain operations through all 40 blocks, 768 tokens; the fp32 result to FILE
// Each line: bench | what | value | unit | remark. Exit status 1 where a check does not hold.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>

#include "base/error.h"
#include "eval/timing.h"
#include "models/wan/transformer.h"
#include "models/wan_vae/decoder.h"
#include "nn/random.h"
#include "op_times.h"
#include "ops/cuda/backend.h"
#include "ops/host.h"
#include "ops/ops.h"
#include "sched/unipc.h"

namespace zoetrope {
namespace {

constexpr int64_t frames = 20, rows = 90, columns = 160;  // of the latents of 77 frames of 1280x720
constexpr int64_t tokens = frames * rows / 2 * columns / 2, text = WanConfig::text_rows;

using bench::check, bench::in_place, bench::InPlace, bench::Watch;

constexpr const char* where_they_run = "sum of the ops' times on the device, in place behind replays";

void line(const std::string& what, double value, const char* unit, const std::string& remark = "") {
  std::printf("bench | %s | %.4g | %s | %s\n", what.c_str(), value, unit, remark.c_str());
  std::fflush(stdout);
}

struct Gpu {
  Pool pool{16};
  std::unique_ptr<Backend> backend = make_cuda_backend(0);
  Rank rank;
  Ctx c;

  Gpu() : c(prepare()) {}
  cudaStream_t stream() const { return static_cast<cudaStream_t>(c.stream().native()); }

  // Uniform, of unit variance.
  Tensor random(const Shape& shape, uint64_t seed, DType type) {
    std::vector<std::byte> host(static_cast<size_t>(shape.size() * bytes_of(type)));
    nn::Random(seed, &pool).read("shared.weight", shape, {}, Tensor(host.data(), shape, type));
    const Tensor x = c.empty(shape, type, c.request());
    c.upload(host.data(), x);
    return x;
  }

 private:
  Rank& prepare() {
    prepare_cuda(rank, *backend);
    rank.pool = &pool;
    return rank;
  }
};

// Times one of the segments, from its graph's start to its end.
class TimedSegments : public Segments {
 public:
  TimedSegments(std::unique_ptr<Segments> inner, cudaStream_t stream, std::string part)
      : inner_(std::move(inner)), watch_(stream), part_(std::move(part)) {}
  void run(Ctx& c, std::string_view key, const std::function<void()>& body) override {
    const bool timed = key.find(part_) != std::string_view::npos;
    if (timed) watch_.start();
    inner_->run(c, key, body);
    if (timed) watch_.stop();
  }
  void clear() override { inner_->clear(); }
  double ms() const { return watch_.ms(); }

 private:
  std::unique_ptr<Segments> inner_;
  Watch watch_;
  std::string part_;
};

std::string range(const Spread& s, const std::string& more = "") {
  return cat('[', s.least, ", ", s.most, "] of ", s.runs, " runs", more);
}

double median_ms(Gpu& g, int runs, const std::function<void()>& body, int warm = 2) {
  Watch watch(g.stream());
  std::vector<double> all;
  for (int i = -warm; i < runs; ++i) {
    watch.start();
    body();
    watch.stop();
    if (i >= 0) all.push_back(watch.ms());
  }
  check(cudaStreamSynchronize(g.stream()));
  return spread_of(all).median;
}

std::vector<float> host_of(Ctx& c, const Tensor& x) {
  Scope scope(c.scratch());
  return c.fetch<float>(x.dtype() == DType::f32 ? x : cast(c, x, DType::f32), 0);
}

double relative_l2(const std::vector<float>& got, const std::vector<float>& want) {
  require(got.size() == want.size() && !want.empty(), "cuda_bench: sizes differ");
  double off = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    off += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(off / size);
}

// Finite and far from constant, or an error.
double rms_of(const std::string& what, const std::vector<float>& values) {
  double sum = 0, squares = 0;
  for (const float v : values) sum += static_cast<double>(v), squares += std::pow(static_cast<double>(v), 2);
  const double n = static_cast<double>(values.size()), rms = std::sqrt(squares / n),
               variance = squares / n - std::pow(sum / n, 2);
  require(std::isfinite(rms) && variance > 1e-4 * squares / n, "cuda_bench: ", what, " has rms ", rms, " and variance ",
          variance);
  return rms;
}

void within(const std::string& what, double error, double bound) {
  line(what, error, "relative L2", cat("at most ", bound));
  require(error <= bound, "cuda_bench: ", what, ": ", error, ", at most ", bound);  // a NaN is no number below it
}

void plans(Gpu& g) {
  for (const std::string& one : cuda_plans(*g.backend)) std::printf("plan | %s\n", one.c_str());
}

// A line an op: time, share, and how near it comes to the card.
void print(const std::string& what, const OpCounts& counts, const char* how) {
  for (const OpShare& op : profile_of(counts, peak_of(cuda_devices().at(0).name))) {
    char remark[128];
    std::snprintf(remark, sizeof remark, "%lld calls, %.1f %%, %.1f TFLOP/s, %.2f TB/s",
                  static_cast<long long>(op.count.calls), 100 * op.share, op.flops / 1e12, op.bytes / 1e12);
    const int percent = static_cast<int>(100 * op.of_peak.value_or(0) + 0.5);
    line(cat(what, " profile ", op.op), 1e3 * op.count.seconds, "ms",
         cat(remark, op.of_peak ? cat(", ", percent, " % of peak") : ""));
  }
  line(what + " profile all", 1e3 * seconds_of(counts), "ms", how);
}

// ---- the transformer --------------------------------------------------------------------------------------------

struct Inputs {
  Tensor latents, context;
  Inputs(Gpu& g, const Shape& shape)
      : latents(g.random(shape, 11, DType::f32)), context(g.random({text, WanConfig{}.text_dim}, 12, DType::f32)) {}
};

std::vector<float> velocity(Gpu& g, const WanTransformer& model, const Inputs& in) {
  Scope once(g.c.request()), scope(g.c.scratch());
  const float step = 500;
  return host_of(
      g.c, model.forward(g.c, in.latents, model.steps(g.c, {&step, 1}), 0, model.encode_text(g.c, in.context, text)));
}

// bf16 as it is run against fp32 with plain operations.
// The fp32 result is written to `file`, unless that is empty: bench/peers/cuda.py compares it with the peer's.
void fidelity(Gpu& g, const std::string& what, const WanConfig& config, const Shape& shape,
              const std::string& file = "") {
  const Inputs in(g, shape);
  std::vector<float> result[2];
  for (const DType type : {DType::bf16, DType::f32}) {
    nn::Random weights(1, &g.pool);
    g.rank.traits.fused_glue = type == DType::bf16;
    const WanTransformer model(g.c, config, weights, type, "check");
    result[type == DType::f32] = velocity(g, model, in);
    check(cudaStreamSynchronize(g.stream()));
    g.c.drop_weights("check");
  }
  g.rank.traits.fused_glue = true;
  if (!file.empty())
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(result[1].data()),
               static_cast<std::streamsize>(result[1].size() * sizeof(float)));
  line(what + " rms", rms_of(what, result[1]), "", cat(config.layers, " layers, latents ", shape));
  within(what + " bf16 against fp32", relative_l2(result[0], result[1]), 1e-2);
}

void block(Gpu& g) {
  WanConfig config;
  config.layers = 1;
  fidelity(g, "block, 7200 tokens", config, {4, 72, 100, 16});

  nn::Random weights(1, &g.pool);
  const WanTransformer model(g.c, config, weights, DType::bf16);
  const Inputs in(g, {frames, rows, columns, 16});
  const float step = 500;
  const StepTable steps = model.steps(g.c, {&step, 1});
  const Text prompt = model.encode_text(g.c, in.context, text);
  auto owner = std::make_unique<TimedSegments>(std::move(g.rank.segments), g.stream(), ".blocks ");
  const TimedSegments& timed = *owner;
  g.rank.segments = std::move(owner);

  std::vector<double> all;
  std::vector<float> plain, replayed;
  for (int i = -4; i < 15; ++i) {  // plain, recorded, two replays to warm up
    Scope scope(g.c.scratch());
    const Tensor v = model.forward(g.c, in.latents, steps, 0, prompt);
    if (i >= 0) all.push_back(timed.ms());
    if (i == -4) plain = host_of(g.c, v);
    if (i == 14) replayed = host_of(g.c, v);
  }
  require(plain == replayed, "cuda_bench: block: a replay has other bits than the plain run");
  line("block rms", rms_of("block", plain), "", "velocity; replay has the bits of the plain run");
  const Spread s = spread_of(all);
  line("block", s.median, "ms", range(s, ", graph replays, 72000 tokens"));

  print("block",
        in_place(g.rank, 3,
                 [&](Ctx& c) {
                   Scope scope(c.scratch());
                   model.forward(c, in.latents, steps, 0, prompt);
                 })
            .ops,
        where_they_run);
  plans(g);
}

// A forward of a small video, where launches could show: 480x256, 17 frames, A14B's width. Replays against the sum of
// what its ops take in place, in turns.
void step(Gpu& g, const std::string& layers) {
  WanConfig config;
  if (!layers.empty()) config.layers = std::stoi(layers);
  nn::Random weights(1, &g.pool);
  const WanTransformer model(g.c, config, weights, DType::bf16);
  const Inputs in(g, {5, 32, 60, 16});
  const float at = 500;
  const StepTable steps = model.steps(g.c, {&at, 1});
  const Text prompt = model.encode_text(g.c, in.context, text);
  std::vector<float> first, last;
  const auto look = [&](std::vector<float>& to) {
    Scope scope(g.c.scratch());
    to = host_of(g.c, model.forward(g.c, in.latents, steps, 0, prompt));
  };
  const auto forward = [&](Ctx& c) {
    Scope scope(c.scratch());
    model.forward(c, in.latents, steps, 0, prompt);
  };
  look(first), look(last), look(last);  // plain, recorded, replayed
  const InPlace times = in_place(g.rank, 15, forward);
  const bench::Nodes nodes = bench::nodes_of(g.rank, forward);
  look(last);
  require(first == last, "cuda_bench: step: a replay has other bits than the plain run");
  rms_of("step", last);

  print("step", times.ops, where_they_run);
  const double gap = times.replay.median - times.sum.median, count = static_cast<double>(nodes.all());
  int64_t calls = 0;
  for (const auto& [name, op] : times.ops) calls += op.calls;
  line("step", times.replay.median, "ms",
       cat(range(times.replay), ", ", config.layers, " blocks, 2400 tokens, graph replays; ", times.clock));
  line("step ops", times.sum.median, "ms", cat(range(times.sum), ", ", calls, " ops; ", times.clock_of_ops));
  line("step ops, first to last", times.span.median, "ms",
       cat(range(times.span), ", with events and gaps; ", times.spoilt, " rounds spoilt"));
  line("step events", 1e3 * times.events, "us",
       cat("an empty pair; ", calls, " of them are ", times.events * static_cast<double>(calls), " ms of the sum"));
  line("step nodes", count, "",
       cat(nodes.kernels, " kernels, ", nodes.copies, " copies, ", nodes.sets, " sets, ", nodes.others, " others"));
  line("step gap", 1e3 * gap / count, "us", "a node: replay less the sum of its ops");
  line("step against the sum of its ops", times.replay.median / times.sum.median, "", "at most 1.03");
}

void end_of_step(Gpu& g) {
  const Shape shape{21, rows, columns, 16};
  SchedulerConfig config;
  config.flow_shift = 5;
  const UniPC solver(g.c, g.random(shape, 1, DType::f32), make_schedule(config, 40, Grid::diffusers), 2);
  const Predictions predictions{g.random(shape, 2, DType::f32), g.random(shape, 3, DType::f32),
                                g.random({1}, 4, DType::f32)};
  solver.begin(g.c, 20);
  const auto time = [&](const char* what) {
    const double ms = median_ms(
        g, 50, [&] { g.c.segment(what, [&] { solver.step(g.c, predictions); }); }, 5);
    rms_of(what, host_of(g.c, solver.latents()));
    line(what, 1e3 * ms, "us",
         cat(shape, ", graph replays; ", 10e-9 * static_cast<double>(predictions.cond.bytes()) / ms,
             " TB/s of one pass"));
  };
  time("end of step");
  g.rank.traits.fused_glue = false;
  time("end of step, op by op");
  g.rank.traits.fused_glue = true;
  require(solver.bad(g.c) == 0, "cuda_bench: end: values that are not finite");
}

// ---- the libraries alone ----------------------------------------------------------------------------------------

void products(Gpu& g) {
  const int64_t dim = 5120, ffn = 13824;
  const Tensor x = g.random({tokens, ffn}, 1, DType::bf16), w = g.random({3 * dim, ffn}, 2, DType::bf16),
               b = g.random({3 * dim}, 3, DType::bf16);
  double sum = 0;
  const auto time = [&](const char* name, int64_t in, int64_t out, Act act) {
    const Tensor left(x.raw(), {tokens, in}, DType::bf16), right(w.raw(), {out, in}, DType::bf16);
    const Tensor bias = b.rows(0, out);
    Scope scope(g.c.scratch());
    const Tensor y = g.c.empty({tokens, out}, DType::bf16);
    const double ms = median_ms(g, 10, [&] { linear_into(g.c, left, right, bias, act, y); });
    rms_of(name, host_of(g.c, y.rows(tokens - 64, tokens)));
    line(name, ms, "ms", cat(2e-9 * static_cast<double>(tokens * in * out) / ms, " TFLOP/s"));
    sum += ms;
  };
  time("product qkv", dim, 3 * dim, Act::none);
  time("product out", dim, dim, Act::none);
  time("product q cross", dim, dim, Act::none);
  time("product out cross", dim, dim, Act::none);
  time("product up", dim, ffn, Act::gelu_tanh);
  time("product down", ffn, dim, Act::none);
  line("products", sum, "ms", "sum");
  plans(g);
}

void attention(Gpu& g) {
  const int64_t dim = 5120, width = 128, slice_rows = 64;
  const Tensor qkv = g.random({tokens, 3 * dim}, 1, DType::bf16), kv = g.random({text, 2 * dim}, 2, DType::bf16);
  const auto part = [&](const Tensor& x, int64_t i) { return as_heads(x, i * dim, dim / width, width); };
  const auto wide = [&](const Heads& x) {
    const Tensor dense = g.c.empty({x.tokens, x.heads, width}, DType::bf16);
    copy_heads(g.c, x, as_heads(dense, width));
    return as_heads(cast(g.c, dense, DType::f32), width);
  };
  const auto one = [&](const char* name, const Heads& k, const Heads& v, int runs) {
    const Heads q = part(qkv, 0);
    Scope scope(g.c.scratch());
    const double ms = median_ms(g, runs, [&] {
      Scope each(g.c.scratch());
      zoetrope::attention(g.c, q, k, v);
    });
    const double flops = 4.0 * static_cast<double>(q.tokens * k.tokens * dim);
    line(name, ms, "ms", cat(flops / ms / 1e9, " TFLOP/s"));
    const Tensor o = zoetrope::attention(g.c, q, k, v).o;
    const int64_t at = tokens / 2;
    const Partial want = zoetrope::attention(g.c, wide(slice(q, at, at + slice_rows)), wide(k), wide(v));
    within(cat(name, ", 64 queries against fp32"),
           relative_l2(host_of(g.c, o.rows(at, at + slice_rows)), host_of(g.c, want.o)), 6e-3);
  };
  one("self-attention", part(qkv, 1), part(qkv, 2), 10);
  one("cross-attention", part(kv, 0), part(kv, 1), 10);
  plans(g);
}

// ---- VAE --------------------------------------------------------------------------------------------------------

std::string gib(size_t bytes) {
  char text[16];
  std::snprintf(text, sizeof text, "%.2f", static_cast<double>(bytes) / (1 << 30));
  return text;
}

size_t used() {
  size_t free = 0, all = 0;
  check(cudaMemGetInfo(&free, &all));
  return all - free;
}

// The first `count` latent frames, to pixels on the host (`pixels`, of all of them) by way of a side stream, as the
// pipeline does it; the first frames as they are lie in `head`, unless that is undefined.
void decode(Gpu& g, const WanVaeDecoder& decoder, const Tensor& latents, int64_t count, const Tensor& pixels,
            const Tensor& head) {
  Scope once(g.c.request()), whole(g.c.scratch());
  WanVaeDecoder::Stream stream(decoder);
  const Tensor room = g.c.empty({decoder.config().temporal_factor(), 8 * rows, 8 * columns, 3}, DType::u8);
  Fork side(g.c);
  for (int64_t t = 0, at = 0; t < count; ++t) {
    Scope scope(g.c.scratch());
    const Tensor some = stream.decode_next(g.c, latents.rows(t, t + 1));
    const int64_t to = at + some.dim(0);
    if (head.defined() && to <= head.dim(0)) copy(g.c, some, head.rows(at, to));
    const Tensor rgb = to_pixels(g.c, some), here = room.rows(0, rgb.dim(0));
    side.before_parent();
    copy(g.c, rgb, here);
    side.after_parent();
    copy(side, here, pixels.rows(at, to));
    at = to;
  }
}

void vae(Gpu& g) {
  const size_t before = used();
  const WanVaeConfig config = wan_vae_config(Json::object());
  nn::Random weights(3, &g.pool);
  const Tensor latents = g.random({frames, rows, columns, config.z_dim}, 4, DType::f32);
  const WanVaeDecoder decoder(g.c, config, weights, DType::bf16);
  const Shape frame{1, 8 * rows, 8 * columns, 3};
  const Shape clip = frame.with(0, config.frames_of(frames));
  const auto memory = host_memory(g.c, static_cast<size_t>(clip.size()));
  const Tensor pixels(memory.get(), clip, DType::u8);
  Watch watch(g.stream());
  std::vector<double> all;
  std::vector<uint8_t> first;
  for (int i = -1; i < 3; ++i) {
    watch.start();
    decode(g, decoder, latents, frames, pixels, {});
    watch.stop();
    (i < 0 ? (void)line("vae first", watch.ms(), "ms", "with the choice of plans") : all.push_back(watch.ms()));
    if (i < 0) first.assign(pixels.data<uint8_t>(), pixels.data<uint8_t>() + clip.size());
  }
  require(std::equal(first.begin(), first.end(), pixels.data<uint8_t>()),
          "cuda_bench: vae: other bits the second time");
  const Spread s = spread_of(all);
  line("vae", s.median, "ms", range(s, ", 20 latent frames to 77 of 1280x720, pixels on the host"));
  line("vae memory", static_cast<double>(used() - before) / (1 << 30), "GiB",
       cat("weights ", gib(g.c.weights("vae").peak()), ", histories and latents ", gib(g.c.request().peak()),
           ", scratch ", gib(g.c.scratch().peak()), ", the rest working memory and the libraries; ", gib(before),
           " before it"));
  std::vector<float> shades(first.begin(), first.end());
  line("vae rms", rms_of("vae", shades), "", "of the pixels");

  print("vae", profiled(g.c, [&] { decode(g, decoder, latents, 4, pixels, {}); }),
        "host's clock, a wait behind each op");
  plans(g);

  const Shape beginning = frame.with(0, 5);
  const Tensor head = g.c.empty(beginning, DType::bf16, g.c.request());
  decode(g, decoder, latents, 2, pixels, head);
  const WanVaeDecoder exact(g.c, config, weights, DType::f32, "check");
  const Tensor want = g.c.empty(beginning, DType::f32, g.c.request());
  decode(g, exact, latents, 2, pixels, want);
  within("vae, 5 frames, bf16 against fp32", relative_l2(host_of(g.c, head), host_of(g.c, want)), 3e-2);
}

// What moves bytes in the decoder, at its largest sizes.
void glue(Gpu& g) {
  for (const auto& [frame, channels] : {std::pair<Shape, int64_t>{{1, 720, 1280, 96}, 96}, {{1, 360, 640, 192}, 192}}) {
    const Tensor x = g.random(frame, 1, DType::bf16), more = g.random(frame, 2, DType::bf16),
                 gamma = g.random({channels}, 3, DType::bf16), y = g.c.empty(frame, DType::bf16, g.c.request());
    const auto time = [&](const char* what, double tensors, const std::function<void()>& body) {
      const double ms = median_ms(g, 30, body);
      line(cat(what, ' ', frame), ms, "ms", cat(tensors * static_cast<double>(x.bytes()) / ms / 1e9, " TB/s"));
    };
    time("channel_norm", 2, [&] { channel_norm(g.c, x, gamma, true, y); });
    rms_of("channel_norm", host_of(g.c, y));
    time("add_channel_norm", 4, [&] { add_channel_norm(g.c, x, more, gamma, true, y); });
    time("add", 3, [&] { add(g.c, x, more); });
    time("copy", 2, [&] { copy(g.c, more, y); });
    const Tensor w = g.random({96, 1, 3, 3, channels}, 4, DType::bf16), b = g.random({96}, 5, DType::bf16);
    const ConvOptions same{1, 1, 1, 1};
    const Tensor big(x.raw(), frame, DType::bf16), out = g.c.empty(frame.with(3, 96), DType::bf16, g.c.request());
    time("1x3x3", 2, [&] { conv_into(g.c, big, w, b, same, {}, out); });
  }
}

// The decoder's three enlargements, by corners; a few rows against the plain form in fp32.
void enlarge(Gpu& g) {
  for (const auto& [rows_in, columns_in, in] :
       {std::array<int64_t, 3>{90, 160, 384}, {180, 320, 384}, {360, 640, 192}}) {
    const int64_t outputs = in / 2;
    const Tensor x = g.random({1, rows_in, columns_in, in}, 1, DType::bf16),
                 w = g.random({outputs, 1, 3, 3, in}, 2, DType::f32), b = g.random({2 * outputs}, 3, DType::bf16),
                 corners = corner_weights(g.c, w, DType::bf16, g.c.request()),
                 y = g.c.empty({1, 2 * rows_in, 2 * columns_in, outputs}, DType::bf16, g.c.request());
    const double ms = median_ms(g, 30, [&] { nn::Slab().enlarge(g.c, x, corners, b, {}, y); });
    const double each = median_ms(g, 30, [&] {
      const Scope scope(g.c.scratch());
      conv(g.c, x, corners.row(0), b, nn::Slab::around, {});
    });
    line(cat("enlarge ", x.shape()), ms, "ms",
         cat("of it two products of ", each, " ms, ",
             16e-9 * static_cast<double>(outputs * in * (rows_in + 1) * (columns_in + 1)) / each, " TFLOP/s"));
    rms_of("enlarge", host_of(g.c, y));
  }
  plans(g);
}

void tune(Gpu& g, const std::string& file) {
  const WanVaeConfig config = wan_vae_config(Json::object());
  nn::Random weights(3, &g.pool);
  const Tensor latents = g.random({2, rows, columns, config.z_dim}, 4, DType::f32);
  const WanVaeDecoder decoder(g.c, config, weights, DType::bf16);
  begin_cuda_tuning(*g.backend);
  WanVaeDecoder::Stream stream(decoder);
  for (int64_t t = 0; t < 2; ++t) {
    const Scope scope(g.c.scratch());
    stream.decode_next(g.c, latents.rows(t, t + 1));
  }
  g.c.stream().sync();
  std::ofstream(file) << end_cuda_tuning(*g.backend);
}

// What the file holds.
std::string text_of(const std::string& file) {
  std::ifstream in(file);
  require(in.good(), "cuda_bench: ", file, " cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

void run(const std::string& what, const std::string& file) {
  Gpu g;
  const CudaFacts facts = cuda_devices().at(0);
  std::printf("device | %s | sm_%d | driver %s | runtime %s | cublas %s | cudnn %s\n", facts.name.c_str(),
              facts.capability, facts.driver.c_str(), facts.runtime.c_str(), facts.cublas.c_str(), facts.cudnn.c_str());
  if (what == "block") return block(g);
  if (what == "step") return step(g, file);
  if (what == "end") return end_of_step(g);
  if (what == "products") return products(g);
  if (what == "attention") return attention(g);
  if (what == "vae" && !file.empty()) use_cuda_tuning(*g.backend, text_of(file), file);
  if (what == "vae") return vae(g);
  if (what == "tune") return tune(g, file);
  if (what == "glue") return enlarge(g), glue(g);
  if (what == "depth") return fidelity(g, "depth, 768 tokens", WanConfig{}, {2, 32, 48, 16}, file);
  fail(Code::invalid, "cuda_bench block|step [LAYERS]|end|products|attention|vae|tune|glue|depth [FILE]");
}

}  // namespace
}  // namespace zoetrope

int main(int count, char** words) {
  try {
    zoetrope::run(count > 1 ? words[1] : "", count > 2 ? words[2] : "");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::printf("bench | failed | 0 | | %s\n", error.what());
    return 1;
  }
}
