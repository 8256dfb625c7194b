// Loading by pieces and readers gives the bytes, the errors and the stops of plain loading.
#include "core/intake.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "core/digest.h"
#include "io/temp_folder.h"
#include "nn/every_form.h"
#include "support/cpu_ctx.h"
#include "support/host_intake.h"
#include "support/words.h"

namespace zoetrope::nn {
namespace {

std::vector<Values> loaded(Parameters& source, DType type, int readers) {
  CpuCtx dev(std::max(readers, 1));
  dev.rank.traits.channel_multiple = 8;
  if (readers > 0) use_host_intake(dev.rank);
  Loader load(dev.c, "t", source, type, {"kept"});
  Weights weights;
  weights.declare(load);
  load.load();
  return bytes_of_all(weights);
}

TEST(IntakeLoading, GivesTheBytesOfPlainLoadingForEveryFormAndType) {
  const TempFolder folder;
  write(folder / "model.safetensors");
  const Checkpoint checkpoint(folder.path());
  Stored source(checkpoint);
  for (const DType type : {DType::f32, DType::bf16}) {
    const auto plain = loaded(source, type, 0);
    for (const int readers : {1, 3}) EXPECT_EQ(loaded(source, type, readers), plain) << type << ' ' << readers;
  }
}

TEST(IntakeLoading, TakesSourcesThatHaveNoFile) {
  Random source(3);
  EXPECT_EQ(loaded(source, DType::bf16, 3), loaded(source, DType::bf16, 0));
}

TEST(IntakeLoading, StepsFillWhatIsThereInAnyOrder) {
  const TempFolder folder;
  write(folder / "model.safetensors");
  const Checkpoint checkpoint(folder.path());
  Stored source(checkpoint);
  const auto plain = loaded(source, DType::bf16, 0);
  CpuCtx dev(2);
  dev.rank.traits.channel_multiple = 8;
  use_host_intake(dev.rank);
  Region& region = dev.c.weights("t");
  std::memset(region.take(64 << 20), 0xFF, 64 << 20);  // what was there before
  for (int time = 0; time < 2; ++time) {
    region.rewind(0);
    Loader load(dev.c, "t", source, DType::bf16, {"kept"});
    Weights weights;
    weights.declare(load);
    load.check();
    load.take(region);
    EXPECT_EQ(weights.large.raw(), region.data());
    load.fill(4, load.declared());
    load.fill(0, 2);
    load.fill(2, 4);
    EXPECT_EQ(bytes_of_all(weights), plain);
  }
}

TEST(IntakeLoading, NamesTheTensorThatIsNotFinite) {
  const TempFolder folder;
  std::vector<float> fine(9, 1.0f), large(5'000'000, 1.0f), huge{1, 3.4e38f};
  large[4'999'999] = std::numeric_limits<float>::quiet_NaN();
  write_safetensors(folder / "model.safetensors", {{"fine", Tensor(fine.data(), {9}, DType::f32)},
                                                   {"huge", Tensor(huge.data(), {2}, DType::f32)},
                                                   {"large", Tensor(large.data(), {5'000'000}, DType::f32)}});
  const Checkpoint checkpoint(folder.path());
  Stored source(checkpoint);
  const std::string file = (folder / "model.safetensors").string();
  for (const auto& [type, words_of] :
       {std::pair{DType::f32, "\"large\" holds values that are not finite; the file is damaged, download it again"},
        {DType::bf16, "\"huge\" holds values that are not finite as bf16; the file is damaged, download it again"}}) {
    CpuCtx dev(3);
    use_host_intake(dev.rank);
    Tensor a, b, c;
    Loader load(dev.c, "t", source, type);
    load.tensor(a, "fine", {9});
    load.tensor(b, "huge", {2});
    load.tensor(c, "large", {5'000'000});
    EXPECT_EQ(words([&] { load.load(); }), cat(file, ": tensor ", words_of));
  }
}

TEST(IntakeLoading, AFileThatWasCutOffIsAnErrorAndTheIntakeGoesOn) {
  const TempFolder folder;
  write(folder / "model.safetensors");
  const Checkpoint checkpoint(folder.path());
  Stored source(checkpoint);
  const auto plain = loaded(source, DType::f32, 0);
  CpuCtx dev(3);
  use_host_intake(dev.rank);
  dev.rank.traits.channel_multiple = 8;
  const auto load = [&](const Checkpoint& from) {
    Stored stored(from);
    Loader one(dev.c, "t", stored, DType::f32, {"kept"});
    Weights weights;
    weights.declare(one);
    one.check();
    dev.c.weights("t").rewind(0);
    one.take(dev.c.weights("t"));
    one.fill(0, one.declared());
    return bytes_of_all(weights);
  };
  write(folder / "cut.safetensors");
  const Checkpoint cut(folder / "cut.safetensors");
  std::filesystem::resize_file(folder / "cut.safetensors", 1'000'000);
  const std::string text = words([&] { load(cut); });
  EXPECT_NE(text.find("cut.safetensors: ends at byte "), std::string::npos) << text;
  EXPECT_NE(text.find("it is truncated, download it again"), std::string::npos) << text;
  EXPECT_EQ(load(checkpoint), plain);
}

TEST(IntakeLoading, SaysWhatItWaitedFor) {
  struct Slow final : HostPort {
    size_t arrived(size_t slot, Intake::Batch pieces) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      return HostPort::arrived(slot, pieces);
    }
  };
  const auto pieces = [](int count, int milliseconds) {
    return std::vector<Piece>(
        static_cast<size_t>(count),
        {[=](std::span<std::byte>) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); },
         DType::f32,
         Unpack::run(Intake::slot_bytes / sizeof(float)),
         {},
         {},
         {}});
  };
  Intake reads(std::make_unique<HostPort>(), {1}), sends(std::make_unique<Slow>(), {2});
  reads.run(pieces(20, 2), {}, {});
  sends.run(pieces(20, 0), {}, {});
  EXPECT_EQ(reads.spent().pieces, 20u);
  EXPECT_EQ(reads.spent().batches, 20u);
  EXPECT_GE(reads.spent().reading, 0.03);
  EXPECT_GE(sends.spent().arriving, 0.04);
  EXPECT_GT(reads.spent().reading, reads.spent().arriving);
  sends.run({}, {}, {});
  EXPECT_EQ(sends.spent().pieces, 0u);
}

// A piece of fp32, all `value`, read after some milliseconds.
Piece piece_of(std::vector<float>& to, float value, std::function<void()> not_finite = {}, int milliseconds = 0) {
  const auto n = static_cast<int64_t>(to.size());
  return {[=](std::span<std::byte> bytes) {
            std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
            for (int64_t i = 0; i < n; ++i) std::memcpy(&bytes[static_cast<size_t>(4 * i)], &value, sizeof value);
          },
          DType::f32,
          Unpack::run(n),
          Tensor(to.data(), {n}, DType::f32),
          std::move(not_finite),
          {}};
}

TEST(Intake, SmallPiecesShareABuffer) {
  std::vector<std::vector<float>> small(200, std::vector<float>(3)),
      large(5, std::vector<float>(Intake::slot_bytes / sizeof(float) * 2 / 3));
  for (const int readers : {1, 4}) {
    std::vector<Piece> pieces;
    for (auto& to : small) pieces.push_back(piece_of(to, 1.0f + static_cast<float>(readers * pieces.size())));
    for (auto& to : large) pieces.push_back(piece_of(to, -2.0f * static_cast<float>(readers)));
    Intake intake(std::make_unique<HostPort>(), {readers});
    intake.run(pieces, {}, {});
    for (size_t i = 0; i < small.size(); ++i)
      EXPECT_EQ(small[i], std::vector<float>(3, 1.0f + static_cast<float>(readers * i)));
    for (const auto& x : large) EXPECT_EQ(x, std::vector<float>(x.size(), -2.0f * static_cast<float>(readers)));
    EXPECT_EQ(intake.spent().pieces, 205u);
    EXPECT_EQ(intake.spent().batches, 4u + 4u);  // 64, 64, 64, 8 and one of those that are large; the others alone
  }
}

// Whoever is read or noticed first, also in one buffer: 7 cannot be read, 3 and 5 are not finite, 3 comes last.
TEST(Intake, TheFirstOfTheListThatFailsThrows) {
  for (const size_t elements : {size_t{8}, Intake::slot_bytes / sizeof(float)})
    for (const int readers : {1, 3, 12}) {
      std::vector<std::vector<float>> to(12, std::vector<float>(elements));
      std::vector<Piece> pieces;
      for (int i = 0; i < 12; ++i) {
        const bool bad = i == 3 || i == 5;
        pieces.push_back(piece_of(
            to[static_cast<size_t>(i)], bad ? NAN : 1.0f, [i] { fail(Code::invalid, "not finite: ", i); },
            i == 3 ? 20 : 0));
      }
      pieces[7].read = [](std::span<std::byte>) { fail(Code::invalid, "cannot be read"); };
      Intake intake(std::make_unique<HostPort>(), {readers});
      EXPECT_EQ(words([&] { intake.run(pieces, {}, {}); }), "not finite: 3");
      pieces[3].not_finite = pieces[5].not_finite = {};
      EXPECT_EQ(words([&] { intake.run(pieces, {}, {}); }), "cannot be read");
      pieces.erase(pieces.begin() + 7);
      intake.run(pieces, {}, {});
      EXPECT_EQ(to[11].back(), 1.0f);
    }
}

// The pieces of a buffer, too: nobody begins another, and what was left out is not taken for loaded.
TEST(Intake, AStopIsSeenWithinABuffer) {
  for (const int readers : {1, 4}) {
    std::vector<std::vector<float>> to(60, std::vector<float>(3));
    std::vector<Piece> pieces;
    std::stop_source stop;
    std::atomic<int> reads = 0;
    for (auto& x : to) {
      pieces.push_back(piece_of(x, 1.0f));
      pieces.back().read = [&](std::span<std::byte>) {
        if (++reads == 5) stop.request_stop();
      };
    }
    Intake intake(std::make_unique<HostPort>(), {readers});
    EXPECT_EQ(words([&] { intake.run(pieces, {}, stop.get_token()); }), "cancelled");
    EXPECT_EQ(reads, 5);
  }
}

TEST(Intake, ClearsBeforeAnyPieceComes) {
  std::vector<float> all(16, 9.0f), first(4);
  std::vector<Piece> pieces{piece_of(first, 1.0f), piece_of(first, 2.0f)};
  for (size_t i = 0; i < 2; ++i) pieces[i].to = Tensor(all.data() + 8 * i, {4}, DType::f32);
  pieces[1].clear = Tensor(all.data(), {16}, DType::f32);
  Intake(std::make_unique<HostPort>(), {2}).run(pieces, {}, {});
  EXPECT_EQ(all, (std::vector<float>{1, 1, 1, 1, 0, 0, 0, 0, 2, 2, 2, 2, 0, 0, 0, 0}));
}

// What is asked for again and again is noticed between pieces, and nobody reads on.
TEST(IntakeLoading, AStopEndsALongLoad) {
  CpuCtx dev(3);
  use_host_intake(dev.rank);
  std::stop_source stop;
  struct Endless : Random {
    std::stop_source& stop;
    std::atomic<int> reads{0};
    explicit Endless(std::stop_source& s) : Random(1), stop(s) {}
    void read(const std::string&, const Shape&, const Slice&, const Tensor&) override {
      if (++reads == 5) stop.request_stop();
    }
  } source(stop);
  const StopScope scope(dev.rank, stop.get_token());
  Tensor large;
  Loader load(dev.c, "t", source, DType::f32);
  load.tensor(large, "w", {256, 1 << 20});  // 64 pieces
  EXPECT_EQ(words([&] { load.load(); }), "cancelled");
  EXPECT_LT(source.reads, 20);
}

TEST(Digest, SeesEveryByteAndItsPlace) {
  std::vector<uint8_t> bytes(37, 7);
  const Tensor x(bytes.data(), {37}, DType::u8);
  const uint64_t before = digest(x);
  EXPECT_EQ(before, digest(x));
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = 8;
    EXPECT_NE(digest(x), before) << i;
    bytes[i] = 7;
  }
  std::swap(bytes[0] = 1, bytes[8] = 2);
  const uint64_t one = digest(x);
  std::swap(bytes[0], bytes[8]);
  EXPECT_NE(digest(x), one);
}

}  // namespace
}  // namespace zoetrope::nn
