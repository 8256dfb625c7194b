#include "nn/random.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"

namespace zoetrope::nn {
namespace {

constexpr uint64_t golden = 0x9E3779B97F4A7C15;

uint64_t fnv1a64(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char ch : text) hash = (hash ^ static_cast<uint8_t>(ch)) * 0x100000001b3;
  return hash;
}

float value_at(uint64_t base, int64_t i, Spread s) {
  uint64_t z = base + (static_cast<uint64_t>(i) + 1) * golden;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  z = z ^ (z >> 31);
  const float u = static_cast<float>(z >> 40) * 0x1p-24f;
  return (2 * u - 1) * s.scale + s.offset;
}

// Rows of `columns` consecutive values, `stride` apart in the whole tensor, the first at `first`.
struct Block {
  int64_t first, columns, stride;
};

Block block_of(const Shape& whole, const Slice& part) {
  const int64_t inner = whole.rank() == 0 || whole[0] == 0 ? 1 : whole.size() / whole[0];
  if (part.axis == 0) return {part.from * inner, inner, inner};
  const int64_t step = whole[1] == 0 ? 0 : inner / whole[1];
  return {part.from * step, part.of(whole)[1] * step, inner};
}

// Row by row: a division a value would take longer than the value.
template <class T>
void fill_values(T* to, int64_t begin, int64_t end, uint64_t base, const Block& block, Spread spread) {
  for (int64_t j = begin; j < end;) {
    const int64_t column = j % block.columns, run = std::min(end - j, block.columns - column);
    const int64_t first = block.first + j / block.columns * block.stride + column;
    for (int64_t k = 0; k < run; ++k) to[j + k] = T(value_at(base, first + k, spread));
    j += run;
  }
}

}  // namespace

Spread spread_of(const std::string& key, const Shape& shape) {
  const auto contains = [&](const char* part) { return key.find(part) != std::string::npos; };
  const auto ends = [&](std::string_view tail) { return std::string_view(key).ends_with(tail); };
  double fan_in = 1;
  for (int axis = 1; axis < shape.rank(); ++axis) fan_in *= static_cast<double>(shape[axis]);
  const auto uniform = [&](double gain) { return Spread{static_cast<float>(gain * std::sqrt(3.0 / fan_in)), 0}; };

  if (ends(".gamma") || (ends(".weight") && shape.rank() == 1)) return {0.2f, 1};
  if (contains("relative_attention_bias")) return {1.0f, 0};
  if (contains("scale_shift_table")) return {0.5f, 0};
  if (ends(".bias")) return {0.1f, 0};
  if (key == "shared.weight" || contains("embed_tokens")) return {static_cast<float>(std::sqrt(3.0)), 0};
  if (contains("SelfAttention.q.weight")) return uniform(0.25);
  if (contains("decoder.conv_out.weight")) return uniform(0.5);
  if (contains("resnets") && (contains("conv1") || contains("conv2"))) return uniform(1.5);
  return uniform(1);
}

void Random::read(const std::string& key, const Shape& shape, const Slice& part, const Tensor& to) {
  require(part.of(shape).size() == to.size(), "random: ", key, " is ", part.of(shape), " but the target is ",
          to.shape());
  const uint64_t base = fnv1a64(key) ^ (seed_ * golden);
  const Spread spread = spread_of(key, shape);
  const Block block = block_of(shape, part);
  const auto fill = [&](int64_t begin, int64_t end) {
    if (to.dtype() == DType::bf16)
      fill_values(to.data<bf16>(), begin, end, base, block, spread);
    else
      fill_values(to.data<float>(), begin, end, base, block, spread);
  };
  if (pool_)
    pool_->for_each(to.size(), 1 << 16, fill);
  else
    fill(0, to.size());
}

}  // namespace zoetrope::nn
