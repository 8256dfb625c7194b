// Weights that reach the device through readers, pinned memory and kernels have the bytes of the host's loading.
#include <gtest/gtest.h>

#include <limits>

#include "core/digest.h"
#include "io/temp_folder.h"
#include "nn/every_form.h"
#include "ops/cuda/backend.h"
#include "support/device_ctx.h"
#include "support/words.h"

namespace zoetrope::nn {
namespace {

std::vector<Values> on_host(Parameters& source, DType type) {
  Pool pool(1);
  Rank rank;
  int not_a_backend = 0;  // which the loader does not call
  rank.pool = &pool;
  rank.backend = reinterpret_cast<Backend*>(&not_a_backend);
  rank.traits.channel_multiple = 8;
  Ctx c(rank);
  Loader load(c, "t", source, type, {"kept"});
  Weights weights;
  weights.declare(load);
  load.load();
  std::vector<Values> all;
  for (const Tensor& x : weights.all()) {
    const auto* at = static_cast<const std::byte*>(x.raw());
    all.emplace_back(at, at + x.bytes());
  }
  return all;
}

void expect_same_bytes(Parameters& source) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const auto plain = on_host(source, type);
    for (const int threads : {1, 8}) {
      DeviceCtx dev(threads);
      dev.rank.traits.channel_multiple = 8;
      Region& region = dev.c.weights("t");
      device::poison(region.take(128 << 20), 128 << 20);
      region.rewind(0);
      Loader load(dev.c, "t", source, type, {"kept"});
      Weights weights;
      weights.declare(load);
      load.load();
      const auto loaded = bytes_of_all(weights);
      for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(loaded[i], plain[i]) << type << " weight " << i;
      uint64_t sum = 0;
      for (size_t i = 0; i < plain.size(); ++i)
        sum += digest({const_cast<std::byte*>(plain[i].data()), {static_cast<int64_t>(plain[i].size())}, DType::u8});
      EXPECT_EQ(cuda_digest(*dev.backend, weights.all()), sum);
    }
  }
}

TEST(Loading, GivesTheHostsBytesForEveryFormAndType) {
  const TempFolder folder;
  write(folder / "model.safetensors");
  const Checkpoint checkpoint(folder.path());
  Stored source(checkpoint);
  expect_same_bytes(source);
}

TEST(Loading, TakesSourcesThatHaveNoFile) {
  Random source(3);
  expect_same_bytes(source);
}

TEST(Loading, LooksAtWhatItPutsInPlace) {
  for (const bool converted : {false, true}) {
    const TempFolder folder;
    std::vector<float> fine(9, 1.0f), large(9'000'000, 1.0f);
    large[8'999'999] = std::numeric_limits<float>::infinity();
    write_safetensors(folder / "model.safetensors", {{"fine", Tensor(fine.data(), {9}, DType::f32)},
                                                     {"large", Tensor(large.data(), {9'000'000}, DType::f32)}});
    const Checkpoint checkpoint(folder.path());
    Stored source(checkpoint);
    DeviceCtx dev(4);
    Tensor a, b;
    Loader load(dev.c, "t", source, converted ? DType::bf16 : DType::f32);
    load.tensor(a, "fine", {9});
    load.tensor(b, "large", {9'000'000});
    EXPECT_EQ(words([&] { load.load(); }),
              cat((folder / "model.safetensors").string(), ": tensor \"large\" holds values that are not finite",
                  converted ? " as bf16" : "", "; the file is damaged, download it again"));
  }
}

}  // namespace
}  // namespace zoetrope::nn
