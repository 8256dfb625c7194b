// What loading takes beyond the weights that stay.
#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "io/checkpoint.h"
#include "io/temp_folder.h"
#include "nn/loader.h"
#include "nn/stored.h"
#include "support/cpu_ctx.h"

namespace zoetrope::nn {
namespace {

constexpr int blocks = 8;
constexpr int64_t width = 1024, channels = 256;

int64_t status_kb(const std::string& field) {
  std::ifstream status("/proc/self/status");
  int64_t kb = 0;
  for (std::string word; status >> word;)
    if (word == field && status >> kb) return kb;
  return -1;
}

// The kernel's own mark of the most that was resident, anonymous and file pages together, starts anew.
bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << "5" << std::flush);
}

struct Written {
  Json header = Json::object();
  int64_t bytes = 0;

  void add(const std::string& key, const char* type, int64_t size, std::vector<int64_t> shape) {
    for (const int64_t extent : shape) size *= extent;
    header[key] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {bytes, bytes + size}}};
    bytes += size;
  }

  // A hole where the data belongs: it reads as zeros and takes no room on disk.
  void write(const std::filesystem::path& file) const {
    const std::string text = header.dump();
    const uint64_t size = text.size();
    std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(&size), 8) << text;
    std::filesystem::resize_file(file, 8 + text.size() + static_cast<size_t>(bytes));
  }
};

Written block_weights() {
  Written file;
  for (int b = 0; b < blocks; ++b) {
    for (const char* key : {"q", "k", "v"}) file.add(cat("blocks.", b, ".", key), "F16", 2, {width, width});
    file.add(cat("blocks.", b, ".ffn"), "BF16", 2, {8 * width, width});
    file.add(cat("blocks.", b, ".conv.weight"), "F32", 4, {channels, channels, 1, 3, 3});
    file.add(cat("blocks.", b, ".conv.bias"), "F32", 4, {channels});
  }
  return file;
}

struct Block {
  Tensor qkv, ffn, conv, bias;
};

void load_blocks(Ctx& c, Parameters& source, std::vector<Block>& into) {
  Loader load(c, "transformer", source, DType::bf16);
  for (int b = 0; b < blocks; ++b) {
    const std::string at = cat("blocks.", b, ".");
    load.stacked(into[b].qkv, {{at + "q", {width, width}}, {at + "k", {width, width}}, {at + "v", {width, width}}});
    load.tensor(into[b].ffn, at + "ffn", {8 * width, width});
    load.conv(into[b].conv, into[b].bias, at + "conv", {channels, channels, 1, 3, 3});
  }
  load.load();
}

TEST(LoadingMemory, PeaksAtATenthAboveTheWeights) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory is resident too";
#endif
  const TempFolder folder;
  const Written file = block_weights();
  ASSERT_GT(file.bytes, 190 << 20);
  file.write(folder / "model.safetensors");
  CpuCtx cpu;
  std::vector<Block> loaded(blocks);
  const Checkpoint checkpoint(folder.path());
  Stored source(checkpoint);

  ASSERT_TRUE(reset_peak());
  const int64_t before = status_kb("VmRSS:");
  load_blocks(cpu.c, source, loaded);
  const int64_t weights = static_cast<int64_t>(cpu.c.weights("transformer").used()) / 1024;
  const int64_t peak = status_kb("VmHWM:") - before;
  ASSERT_GT(weights, 170 << 10);
  EXPECT_GE(peak, weights);  // or this measures nothing
  EXPECT_LE(peak, weights * 11 / 10);
  RecordProperty("peak_to_weights", cat(static_cast<double>(peak) / static_cast<double>(weights)));
}

}  // namespace
}  // namespace zoetrope::nn
