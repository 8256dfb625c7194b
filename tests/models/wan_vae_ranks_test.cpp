// The decoder on several ranks: the bits of one rank, the messages and bytes of docs/parallelism.md, and memory.
#include <cstring>

#include "comm/dry/world.h"
#include "core/dry_rank.h"
#include "models/wan_vae/decoder.h"
#include "nn/random.h"
#include "support/cpu_ctx.h"
#include "support/ranks.h"
#include "support/words.h"

namespace zoetrope {
namespace {

constexpr int64_t base = 8, z = 4, multipliers[] = {1, 2, 4, 4};  // widths 32, 32, 16 and 8 from the middle on

struct Clip {
  int64_t frames, rows, columns;  // of latents
  DType dtype = DType::f32;
  int64_t resnets = 1;

  int64_t resnets_a_stage() const { return resnets + 1; }
};

WanVaeConfig config_of(const Clip& clip) {
  const Json json{{"z_dim", z},
                  {"base_dim", base},
                  {"num_res_blocks", clip.resnets},
                  {"latents_mean", {0.1, -0.2, 0.3, 0.05}},
                  {"latents_std", {0.9, 1.1, 1.2, 0.8}}};
  return wan_vae_config(json);
}

std::string bytes_of(const Tensor& x) {
  if (!x.defined()) return "";
  std::string bytes(static_cast<size_t>(x.bytes()), '\0');
  device::read(x, bytes.data());
  return bytes;
}

// One entry a chunk; empty where gather leaves nothing, and in dry contexts.
struct Video {
  std::vector<std::string> frames, pixels;
  bool operator==(const Video&) const = default;
};

Video decode(Ctx& c, const Clip& clip, const VaeRanks& ranks = {}) {
  const Scope request(c.request()), exchange(c.exchange());
  nn::Random weights(5);
  const WanVaeDecoder decoder(c, config_of(clip), weights, clip.dtype, "vae", ranks);
  const std::vector<float> values = random_values(clip.frames * clip.rows * clip.columns * z, 3);
  const Tensor latents = c.empty({clip.frames, clip.rows, clip.columns, z}, DType::f32, c.request());
  c.upload(values.data(), latents);
  WanVaeDecoder::Stream stream(decoder);
  Video video;
  for (int64_t t = 0; t < clip.frames; ++t) {
    const Scope scope(c.scratch());
    const Tensor part = stream.decode_next(c, latents.rows(t, t + 1));
    const Tensor frames = stream.gather(c, part), pixels = stream.gather(c, to_pixels(c, part));
    video.frames.push_back(c.dry() ? "" : bytes_of(frames)), video.pixels.push_back(c.dry() ? "" : bytes_of(pixels));
  }
  c.drop_weights("vae");
  return video;
}

Video decode(const Clip& clip) {
  CpuCtx cpu(1);
  return decode(cpu.c, clip);
}

const VaeSplit splits[] = {VaeSplit::height, VaeSplit::width};
const VaeForm forms[] = {VaeForm::exchange, VaeForm::overlap};

void expect_one_ranks_bits(int ranks, const std::vector<Clip>& clips) {
  std::vector<Video> one;
  for (const Clip& clip : clips) one.push_back(decode(clip));
  Ranks(ranks).run([&](Ctx& c, Comm& world) {
    for (size_t i = 0; i < clips.size(); ++i)
      for (const VaeSplit split : splits)
        for (const VaeForm form : forms) {
          poison(c.scratch(), 1u << 20), poison(c.request(), 1u << 20), poison(c.exchange(), 1u << 20);
          const Video video = decode(c, clips[i], {&world, split, form});
          const Video nothing{std::vector<std::string>(video.frames.size()),
                              std::vector<std::string>(one[i].pixels.size())};
          EXPECT_TRUE(video == (world.rank() == 0 ? one[i] : nothing))
              << "rank " << world.rank() << " of " << ranks << ", clip " << i << ", split " << static_cast<int>(split)
              << ", form " << static_cast<int>(form);
        }
  });
}

struct VaeOnRanks : testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, VaeOnRanks, testing::Values(2, 3, 4, 7, 8));

// Uneven shares, more ranks than rows or columns, a single row.
TEST_P(VaeOnRanks, GivesTheBitsOfOne) {
  expect_one_ranks_bits(GetParam(), {{3, 9, 5}, {2, 4, 11, DType::bf16}, {1, 1, 2}, {1, 2, 1, DType::bf16}});
}

TEST(VaeOnRank, ItsVideoSaysSomething) {
  const Video video = decode({2, 9, 5});
  std::vector<float> values(video.frames[1].size() / 4);
  std::memcpy(values.data(), video.frames[1].data(), video.frames[1].size());
  double square = 0;
  for (const float v : values) square += double{v} * double{v};
  EXPECT_EQ(values.size(), 4u * 72 * 40 * 3);
  EXPECT_GT(std::sqrt(square / static_cast<double>(values.size())), 0.2);
}

// At the released depth a margin of 13 latent rows is all that the overlapped form computes: rows 0 .. 29 of 34 here.
TEST(VaeOnRank, AMarginOfThirteenRowsIsEnough) { expect_one_ranks_bits(2, {{2, 34, 1, DType::f32, 2}}); }

// ---- messages ---------------------------------------------------------------------------------------------------

struct Sent {
  Verb verb;
  int64_t bytes;
  bool operator==(const Sent&) const = default;
};
void PrintTo(const Sent& s, std::ostream* out) { *out << name(s.verb) << ' ' << s.bytes; }

// docs/parallelism.md, "The VAE": a chunk of a rank, in order. The middle is base * 4 wide.
struct Formula {
  const Clip& clip;
  VaeSplit split;
  int ranks, rank;

  int64_t number() const { return zoetrope::bytes_of(clip.dtype); }
  int64_t across() const { return split == VaeSplit::height ? clip.columns : clip.rows; }
  int64_t most() const {  // latent lines of a rank
    const int64_t lines = split == VaeSplit::height ? clip.rows : clip.columns;
    return (lines + ranks - 1) / ranks;
  }
  int64_t line(int64_t t, int64_t scale, int64_t channels) const { return t * scale * across() * channels * number(); }
  int64_t sides() const { return rank == 0 || rank + 1 == ranks ? 1 : 2; }

  std::vector<Sent> chunk(bool first) const {
    std::vector<Sent> all;
    int64_t t = 1, scale = 1, width = base * multipliers[3];
    const auto fetch = [&](int64_t channels) { all.push_back({Verb::exchange, sides() * line(t, scale, channels)}); };
    fetch(width), fetch(width);
    all.push_back({Verb::all_gather, (ranks - 1) * most() * line(1, 1, 2 * width)});
    fetch(width), fetch(width);
    for (int stage = 0; stage < 4; ++stage) {
      const int64_t out = base * multipliers[3 - stage];
      for (int64_t i = 0; i < clip.resnets_a_stage(); ++i, width = out) fetch(width), fetch(out);
      if (stage == 3) break;
      if (stage < 2 && !first) t *= 2;
      fetch(width);
      scale *= 2, width /= 2;
    }
    fetch(width);
    return all;
  }
  Sent gather(int64_t t, int64_t bytes) const {
    return {Verb::gather, (rank == 0 ? ranks - 1 : 1) * t * 8 * most() * 8 * across() * 3 * bytes};
  }
  std::vector<Sent> decode() const {
    std::vector<Sent> all;
    for (int64_t i = 0; i < clip.frames; ++i) {
      const std::vector<Sent> more = chunk(i == 0);
      all.insert(all.end(), more.begin(), more.end());
      all.push_back(gather(i ? 4 : 1, number())), all.push_back(gather(i ? 4 : 1, 1));
    }
    return all;
  }
};

std::vector<Sent> sent(const std::vector<Record>& log) {
  std::vector<Sent> all;
  for (const Record& r : log) all.push_back({r.verb, r.bytes});
  return all;
}

struct Memory {
  size_t scratch, request, exchange;
  bool operator==(const Memory&) const = default;
};
Memory peaks(Ctx& c) { return {c.scratch().peak(), c.request().peak(), c.exchange().peak()}; }

struct DryRun {
  std::vector<Record> log;
  Memory memory;
  OpCounts counts;
};
DryRun dry_run(const Clip& clip, const VaeRanks& ranks, int rank, int size) {
  DryWorld world(rank, size);
  const auto comm = world.comm();
  DryRank dry(device::traits());
  decode(dry.c, clip, {comm.get(), ranks.split, ranks.form});
  return {world.log(), peaks(dry.c), dry.c.counts()};
}

const Clip some[] = {{2, 9, 5}, {3, 4, 11, DType::bf16}, {1, 1, 2}, {2, 7, 3, DType::f32, 2}};

TEST_P(VaeOnRanks, SendsWhatTheFormulasSayToTheByte) {
  const int ranks = GetParam();
  for (const Clip& clip : some)
    for (const VaeSplit split : splits)
      for (int rank = 0; rank < ranks; ++rank) {
        const Formula formula{clip, split, ranks, rank};
        EXPECT_EQ(sent(dry_run(clip, {nullptr, split}, rank, ranks).log), formula.decode()) << "rank " << rank;
        std::vector<Sent> gathers;  // the overlapped form sends nothing else
        for (const Sent& one : formula.decode())
          if (one.verb == Verb::gather) gathers.push_back(one);
        EXPECT_EQ(sent(dry_run(clip, {nullptr, split, VaeForm::overlap}, rank, ranks).log), gathers);
      }
}

TEST(VaeOnRank, AChunkOfTheReleasedDecoderTakesThirtyTwoExchangesAndOneGatherOfKeys) {
  const Clip clip{2, 7, 3, DType::f32, 2};
  const std::vector<Sent> chunk = Formula{clip, VaeSplit::width, 2, 0}.chunk(false);
  EXPECT_EQ(std::ranges::count(chunk, Verb::exchange, &Sent::verb), 32);
  EXPECT_EQ(chunk.size(), 33u);
}

TEST_P(VaeOnRanks, SendsAndTakesLiveWhatADryRunSays) {
  const int ranks = GetParam();
  for (const VaeForm form : forms) {
    std::vector<std::vector<Record>> logs(static_cast<size_t>(ranks));
    std::vector<Memory> memory(logs.size());
    Ranks(ranks).run([&](Ctx& c, Comm& world) {
      const auto rank = static_cast<size_t>(world.rank());
      world.session().log = &logs[rank];
      decode(c, some[0], {&world, VaeSplit::width, form});
      world.session().log = nullptr;
      memory[rank] = peaks(c);
    });
    for (size_t rank = 0; rank < logs.size(); ++rank) {
      const DryRun dry = dry_run(some[0], {nullptr, VaeSplit::width, form}, static_cast<int>(rank), ranks);
      EXPECT_EQ(logs[rank], dry.log) << "rank " << rank;
      EXPECT_TRUE(memory[rank] == dry.memory) << "rank " << rank;
      EXPECT_EQ(memory[rank].exchange, memory[0].exchange) << "rank " << rank;
    }
  }
}

// ---- work and memory --------------------------------------------------------------------------------------------

TEST_P(VaeOnRanks, ComputesTogetherWhatOneRankComputes) {
  const Clip clip{2, 12, 10};
  const OpCounts one = dry_run(clip, {}, 0, 1).counts;
  for (const VaeSplit split : splits)
    for (const char* op : {"conv", "attention", "linear"}) {
      double flops = 0;
      for (int rank = 0; rank < GetParam(); ++rank)
        flops += dry_run(clip, {nullptr, split}, rank, GetParam()).counts.at(op).flops;
      // The first convolution's input is made from latents that every rank has, its neighbours' lines too. Where frames
      // are enlarged both sides of a cut compute the corners on it, and one more that they leave out.
      const double twice = op == std::string("linear") ? 1.02 : op == std::string("conv") ? 1.05 : 1;
      EXPECT_GE(flops, one.at(op).flops) << op;
      EXPECT_LE(flops, one.at(op).flops * twice) << op;
    }
}

// Four of the longest lines, the columns between the last upsamplers here, or all keys and values; then gather's slot.
TEST(VaeOnRank, TakesTheDocumentedExchangeMemory) {
  for (const auto& [clip, ranks] : {std::pair{Clip{2, 9, 5}, 2}, {Clip{2, 1, 40, DType::bf16}, 4}}) {
    const Formula formula{clip, VaeSplit::width, ranks, 0};
    const int64_t lines = 4 * formula.line(4, 4, 2 * base),
                  keys = ranks * formula.most() * formula.line(1, 1, 2 * 4 * base);
    const int64_t frames = (ranks + 1) * 4 * 8 * formula.most() * 8 * formula.across() * 3 * formula.number();
    EXPECT_EQ(keys > lines, ranks == 4);
    const auto slot = [](int64_t bytes) { return (static_cast<size_t>(bytes) + 255) / 256 * 256; };
    EXPECT_EQ(dry_run(clip, {}, 0, ranks).memory.exchange, slot(std::max(lines, keys)) + slot(frames)) << ranks;
  }
}

// The table of docs/parallelism.md: the released decoder at 720p in bf16, a chunk of four frames on the busiest rank.
TEST(VaeOnRank, ComputesAndSendsWhatTheTableSays) {
  const auto tenths = [](double x) { return std::lround(10 * x); };
  const auto chunk = [&](int ranks, VaeSplit split, VaeForm form) {
    double flops = 0, bytes = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      DryWorld world(rank, ranks);
      const auto comm = world.comm();
      DryRank dry(device::traits());
      nn::Random weights(0);
      const WanVaeDecoder decoder(dry.c, wan_vae_config(Json::object()), weights, DType::bf16, "vae",
                                  {comm.get(), split, form});
      WanVaeDecoder::Stream stream(decoder);
      const Tensor latent = dry.c.empty({1, 90, 160, 16}, DType::f32, dry.c.request());
      stream.decode_next(dry.c, latent);
      dry.c.counts().clear(), world.clear();
      stream.decode_next(dry.c, latent);
      double work = 0, sent = 0;
      for (const char* op : {"conv", "linear", "attention"}) work += dry.c.counts().at(op).flops;
      for (const Record& record : world.log()) sent += static_cast<double>(record.bytes);
      flops = std::max(flops, work), bytes = std::max(bytes, sent);
    }
    return std::pair(tenths(flops / 1e12), tenths(bytes / (1 << 20)));
  };
  using Pair = std::pair<long, long>;
  EXPECT_EQ(chunk(1, VaeSplit::width, VaeForm::exchange), Pair(300, 0));
  EXPECT_EQ(chunk(2, VaeSplit::width, VaeForm::exchange), Pair(150, 207));
  EXPECT_EQ(chunk(4, VaeSplit::width, VaeForm::exchange), Pair(75, 361));
  EXPECT_EQ(chunk(8, VaeSplit::width, VaeForm::exchange), Pair(38, 388));
  EXPECT_EQ(chunk(2, VaeSplit::height, VaeForm::exchange), Pair(150, 286));
  EXPECT_EQ(chunk(4, VaeSplit::height, VaeForm::exchange), Pair(77, 523));
  EXPECT_EQ(chunk(8, VaeSplit::height, VaeForm::exchange), Pair(40, 558));
  EXPECT_EQ(chunk(2, VaeSplit::width, VaeForm::overlap), Pair(159, 0));
  EXPECT_EQ(chunk(4, VaeSplit::width, VaeForm::overlap), Pair(91, 0));
  EXPECT_EQ(chunk(8, VaeSplit::width, VaeForm::overlap), Pair(55, 0));
  EXPECT_EQ(chunk(2, VaeSplit::height, VaeForm::overlap), Pair(163, 0));
  EXPECT_EQ(chunk(4, VaeSplit::height, VaeForm::overlap), Pair(101, 0));
  EXPECT_EQ(chunk(8, VaeSplit::height, VaeForm::overlap), Pair(65, 0));
}

TEST(VaeOnRank, OneRankTakesNothingMore) {
  const Clip clip{2, 6, 7};
  DryRank dry(device::traits());
  decode(dry.c, clip);
  EXPECT_TRUE(dry_run(clip, {}, 0, 1).memory == peaks(dry.c));
  EXPECT_EQ(dry.c.exchange().peak(), 0u);
}

// ---- wrong use --------------------------------------------------------------------------------------------------

// What came from the previous rank is taken for the next one's.
class Crossed final : public Comm {
 public:
  Crossed(Ctx& c, Comm& real) : Comm("vae", real.rank(), real.members(), real.session()), c_(c), real_(real) {}
  std::unique_ptr<Comm> split(const std::string&, const std::vector<int>&) override { return nullptr; }
  void abort(const Cause& cause) noexcept override { real_.abort(cause); }
  bool capturable() const override { return false; }

 private:
  void carry_out(Stream&, const Call& call) override {
    if (call.verb == Verb::all_gather) real_.all_gather(c_, call.in.prev, call.out.prev);
    if (call.verb == Verb::gather) real_.gather(c_, call.in.prev, call.root, call.out.prev);
    if (call.verb != Verb::exchange) return;
    real_.exchange(c_, call.in, call.ends, call.out);
    if (!call.out.prev.defined() || !call.out.next.defined()) return;
    std::vector<std::byte> prev(static_cast<size_t>(call.out.prev.bytes())), next(prev.size());
    device::read(call.out.prev, prev.data()), device::read(call.out.next, next.data());
    device::write(next.data(), call.out.prev), device::write(prev.data(), call.out.next);
  }

  Ctx& c_;
  Comm& real_;
};

TEST(VaeOnRank, LinesOfTheWrongNeighbourShow) {
  const Clip clip{1, 6, 6};
  const Video one = decode(clip);
  for (const VaeSplit split : splits)
    Ranks(3).run([&](Ctx& c, Comm& world) {
      Crossed crossed(c, world);
      const Video video = decode(c, clip, {&crossed, split});
      EXPECT_FALSE(world.rank() == 0 && video == one);
    });
}

TEST(VaeOnRank, RanksThatDisagreeAreNamed) {
  const std::string text = words([] {
    Ranks(2).run([](Ctx& c, Comm& world) { decode(c, {1, 4, 4 + world.rank()}, {&world, VaeSplit::height}); });
  });
  EXPECT_EQ(text,
            "rank 1 calls exchange of [1, 1, 5, 32] fp32 to the previous and [1, 1, 5, 32] fp32 to the next rank, "
            "ends open but rank 0 exchange of [1, 1, 4, 32] fp32 to the previous and [1, 1, 4, 32] fp32 to the next "
            "rank, ends open (axis world, call 1)");
}

}  // namespace
}  // namespace zoetrope
