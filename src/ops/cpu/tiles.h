// Products of one fixed shape: the only thing that is asked of oneDNN. A row of a larger product is computed by the
// same machine code in the same order wherever its tile lies, so its bits depend on (N, K) and on nothing else.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace zoetrope {

constexpr int64_t tile_rows = 16;

struct DnnlEngine;     // dnnl_v2.cpp
struct DnnlPrimitive;  // dnnl_v2.cpp

class Tiles {
 public:
  Tiles();
  ~Tiles();

  // The product c[16, n] = a[16, k] b[k, n], or += if `add`; made on first use. Any thread.
  const DnnlPrimitive& get(int64_t k, int64_t n, bool add);
  const DnnlEngine& engine() const { return *engine_; }
  std::vector<std::string> implementations() const;

 private:
  mutable std::mutex mutex_;
  std::unique_ptr<DnnlEngine> engine_;
  std::map<std::tuple<int64_t, int64_t, bool>, std::unique_ptr<DnnlPrimitive>> made_;
};

// Runs one product. Made by the thread that uses it, for the length of a piece of work; a, b, c are dense fp32.
class TileProduct {
 public:
  TileProduct(Tiles& tiles, int64_t k, int64_t n, bool add);
  ~TileProduct();
  TileProduct(TileProduct&&) noexcept;

  void operator()(const float* a, const float* b, float* c);

 private:
  struct Call;
  std::unique_ptr<Call> call_;
};

}  // namespace zoetrope
