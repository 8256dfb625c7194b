#include "cli/sparse_weights.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "core/stop.h"
#include "io/safetensors.h"
#include "models/models.h"
#include "nn/random.h"

namespace zoetrope::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t shard_bytes = 10'000'000'000, edge = 1024;  // elements that are not zero, at either end

std::vector<std::vector<TensorSpec>> shards_of(const Json& config, DType type) {
  std::vector<std::vector<TensorSpec>> shards(1);
  int64_t bytes = 0;
  for (const nn::Entry& entry : model_class(class_name_of(config)).facts(config).used) {
    const int64_t size = entry.shape.size() * bytes_of(type);
    if (bytes + size > shard_bytes && bytes > 0) shards.emplace_back(), bytes = 0;
    shards.back().push_back({entry.key, type, entry.shape});
    bytes += size;
  }
  return shards;
}

std::vector<std::byte> numbers(const std::string& key, int64_t from, int64_t count, DType type) {
  std::vector<float> values(static_cast<size_t>(count));
  nn::Random(9).read(key, {from + count}, {0, from, from + count}, Tensor(values.data(), {count}, DType::f32));
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(bytes_of(type)));
  const auto store = [&]<class T>(T) {
    for (size_t i = 0; i < values.size(); ++i) {
      const T value(values[i]);
      std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
    }
  };
  type == DType::f32 ? store(float{}) : type == DType::f16 ? store(f16{}) : store(bf16{});
  return bytes;
}

void write_shard(const fs::path& file, const std::vector<TensorSpec>& tensors, const std::stop_token& stop) {
  SafetensorsWriter out(file, tensors, {{"format", "pt"}});
  for (const TensorEntry& entry : out.entries()) {
    check_stop(stop);
    const int64_t size = entry.shape.size(), head = std::min(size, edge), tail = std::min(size - head, edge);
    out.write(entry.name, numbers(entry.name, 0, head, entry.dtype));
    out.skip(entry.name, static_cast<size_t>((size - head - tail) * bytes_of(entry.dtype)));
    out.write(entry.name, numbers(entry.name, size - tail, tail, entry.dtype));
  }
  out.commit();
}

std::string digits(size_t n) {
  std::string text = cat(n);
  return std::string(5 - std::min<size_t>(5, text.size()), '0') + text;
}

}  // namespace

void write_sparse_weights(const Json& config, const fs::path& folder, DType type, const std::stop_token& stop) {
  const bool text = model_class(class_name_of(config)).role == Role::text_encoder;
  const std::string stem = text ? "model" : "diffusion_pytorch_model";
  const auto shards = shards_of(config, type);
  if (shards.size() == 1) return write_shard(folder / (stem + ".safetensors"), shards[0], stop);
  Json map = Json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = cat(stem, '-', digits(i + 1), "-of-", digits(shards.size()), ".safetensors");
    write_shard(folder / name, shards[i], stop);
    for (const TensorSpec& tensor : shards[i]) map[tensor.name] = name;
  }
  write_file(folder / (stem + ".safetensors.index.json"), Json{{"weight_map", map}}.dump());
}

}  // namespace zoetrope::cli
