// Seeded random weights at unit output scale, for toys, tests and `random:NAME`. The rule, the same in tools/oracle:
//   base = fnv1a64(key) ^ (seed * G),  z = base + (i + 1) * G,  G = 0x9E3779B97F4A7C15     i: flat row-major index
//   z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;  z = z ^ (z >> 31)
//   u = (z >> 40) * 2^-24 (exact),  value = (2u - 1) * a + b in fp32, one rounding at the product, one at the sum
// (the mixing is splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
// A value depends on (seed, key, i) alone, so that slices, threads and ranks cannot change it.
#pragma once
#include "core/pool.h"
#include "nn/parameters.h"

namespace zoetrope::nn {

// value = (2u - 1) * scale + offset for tensor `key`; by name, see random.cpp. Matrices keep the scale of their input.
struct Spread {
  float scale = 0, offset = 0;
};
Spread spread_of(const std::string& key, const Shape& shape);

class Random : public Parameters {
 public:
  // Components of one model share a seed, except transformer_2: seed + 1. `pool` may be null.
  explicit Random(uint64_t seed, Pool* pool = nullptr) : seed_(seed), pool_(pool) {}

  const Listing* listing() const override { return nullptr; }
  void read(const std::string& key, const Shape& shape, const Slice& part, const Tensor& to) override;

 private:
  uint64_t seed_;
  Pool* pool_;
};

}  // namespace zoetrope::nn
