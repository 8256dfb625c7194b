// Rank threads for tests of comm and mesh: no back end is ever looked into, host memory, small limits on waits.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <vector>

#include "comm/local/world.h"

namespace zoetrope {

// The context only passes the back end on; no op is called here.
inline Backend* no_backend() {
  static int nothing = 0;
  return reinterpret_cast<Backend*>(&nothing);
}

inline Pool& one_thread() {
  static Pool pool(1);
  return pool;
}

inline Waits short_waits(std::chrono::milliseconds limit = std::chrono::seconds(20)) {
  Waits waits;
  for (int kind = 0; kind < wait_kinds; ++kind)
    if (static_cast<Wait>(kind) != Wait::idle) waits.set(static_cast<Wait>(kind), limit);
  return waits;
}

inline void prepare_rank(Rank& rank, int) {
  rank.backend = no_backend();
  rank.pool = &one_thread();
  rank.make_pages = [](size_t) { return host_pages(size_t{64} << 20); };  // many ranks, few addresses
}

inline void on_ranks(int n, const std::function<void(Ctx& c, Comm& world)>& body, const Waits& waits = short_waits()) {
  run_ranks(n, prepare_rank, body, waits);
}

// [rows, columns] fp32 or int32, element (i, j) = f(i, j).
template <class T = float, class F>
Tensor filled(Ctx& c, int64_t rows, int64_t columns, F&& f) {
  const Tensor x = c.empty({rows, columns}, dtype_of<T>, c.request());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) x.data<T>()[i * columns + j] = static_cast<T>(f(i, j));
  return x;
}

// No ASSERT between two collectives: it would leave the peers waiting. Counts what differs, once.
template <class T = float, class F>
void expect_filled(const Tensor& x, F&& f) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < x.dim(0); ++i)
    for (int64_t j = 0; j < x.dim(1); ++j) wrong += x.data<T>()[i * x.dim(1) + j] != static_cast<T>(f(i, j));
  EXPECT_EQ(wrong, 0) << "elements of " << x.shape();
}

}  // namespace zoetrope
