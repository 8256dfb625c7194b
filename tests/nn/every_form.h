// A checkpoint with every form of weight that a loader knows, in every type, and a model that reads it.
#pragma once
#include <cstring>
#include <filesystem>

#include "io/safetensors.h"
#include "nn/loader.h"
#include "nn/random.h"
#include "nn/stored.h"
#include "support/device.h"

namespace zoetrope::nn {

using Values = std::vector<std::byte>;

// A tensor of numbers of any type, seeded by its name.
inline Values values_as(DType type, const std::string& key, const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.size()));
  Random(5).read(key, shape, {}, Tensor(values.data(), shape, DType::f32));
  Values bytes(values.size() * static_cast<size_t>(bytes_of(type)));
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == DType::f32) std::memcpy(&bytes[i * 4], &values[i], 4);
    const f16 half(values[i]);
    if (type == DType::f16) std::memcpy(&bytes[i * 2], &half, 2);
    const bf16 narrow(values[i]);
    if (type == DType::bf16) std::memcpy(&bytes[i * 2], &narrow, 2);
    const double wide = values[i];
    if (type == DType::f64) std::memcpy(&bytes[i * 8], &wide, 8);
  }
  return bytes;
}

struct Kind {
  std::string key;
  DType type;
  Shape shape;
};

// Every form that a loader knows, in every type; "large" is more than one piece.
inline const std::vector<Kind> kinds{{"large", DType::f32, {3001, 1601}},
                                     {"half", DType::f16, {300, 70}},
                                     {"wide", DType::f64, {30, 7}},
                                     {"q", DType::bf16, {6, 10}},
                                     {"k", DType::bf16, {6, 10}},
                                     {"columns", DType::f32, {2000, 5000}},
                                     {"conv.weight", DType::f32, {13, 5, 2, 3, 3}},
                                     {"conv.bias", DType::f16, {13}},
                                     {"patch", DType::bf16, {8, 4, 1, 2, 2}},
                                     {"kept", DType::bf16, {9}},
                                     {"scalar", DType::f32, {}},
                                     {"table", DType::f16, {50, 4}}};

inline void write(const std::filesystem::path& file) {
  std::vector<Values> bytes;
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const Kind& kind : kinds) bytes.push_back(values_as(kind.type, kind.key, kind.shape));
  for (size_t i = 0; i < kinds.size(); ++i)
    tensors.emplace_back(kinds[i].key, Tensor(bytes[i].data(), kinds[i].shape, kinds[i].type));
  write_safetensors(file, tensors);
}

struct Weights {
  Tensor large, half, wide, qk, columns, conv, bias, patch, kept, scalar, table, rope;

  void declare(Loader& load) {
    load.tensor(large, "large", {3001, 1601});
    load.tensor(half, "half", {300, 70}, {21000});
    load.tensor(wide, "wide", {30, 7});
    load.stacked(qk, {{"q", {6, 10}}, {"k", {6, 10}}}, {0, 1, 5});
    load.part(columns, "columns", {2000, 5000}, {1, 1000, 4001});
    load.conv(conv, bias, "conv", {13, 5, 2, 3, 3});
    load.patch(patch, "patch", {8, 4, 1, 2, 2});
    load.tensor(kept, "kept", {9});
    load.tensor(scalar, "scalar", {});
    load.embedding(table, {"table", "table2"}, 1, 4);
    load.constant(rope, {3}, {1, 2, 3});
  }
  std::vector<Tensor> all() const {
    return {large, half, wide, qk, columns, conv, bias, patch, kept, scalar, table, rope};
  }
};

inline std::vector<Values> bytes_of_all(const Weights& weights) {
  std::vector<Values> all;
  for (const Tensor& x : weights.all()) {
    all.emplace_back(static_cast<size_t>(x.bytes()));
    device::read(x, all.back().data());
  }
  return all;
}

}  // namespace zoetrope::nn
