// Every verb against closed-form values, on whatever ranks there are: threads, processes, MPI.
#pragma once
#include <gtest/gtest.h>

#include "comm/ranks.h"

namespace zoetrope {

// What rank r holds at (i, j), exact in fp32.
inline int64_t value(int64_t rank, int64_t i, int64_t j) { return rank * 10000 + i * 100 + j; }

inline void all_to_all_transposes_ranks_and_rows(Ctx& c, Comm& world) {
  const int me = world.rank();
  const Tensor x = filled(c, 2 * world.size(), 5, [&](int64_t i, int64_t j) { return value(me, i, j); });
  const Tensor y = world.all_to_all(c, x);
  expect_filled(y, [&](int64_t i, int64_t j) { return value(i / 2, 2 * me + i % 2, j); });
  EXPECT_EQ(y.raw() == x.raw(), world.size() == 1);
}

inline void all_gather_concatenates_in_rank_order(Ctx& c, Comm& world) {
  const int me = world.rank();
  const Tensor x = filled<int32_t>(c, 3, 4, [&](int64_t i, int64_t j) { return value(me, i, j); });
  const Tensor y = world.all_gather(c, x);
  expect_filled<int32_t>(y, [&](int64_t i, int64_t j) { return value(i / 3, i % 3, j); });
}

inline void all_gather_takes_the_ranks_own_rows_of_its_result(Ctx& c, Comm& world) {
  const int me = world.rank();
  const Tensor slot = c.empty({3 * world.size(), 4}, DType::f32, c.exchange());
  const Tensor x = slot.rows(3 * me, 3 * me + 3);
  std::iota(x.data<float>(), x.data<float>() + 12, 100.0f * static_cast<float>(me));
  const Tensor y = world.all_gather(c, x, slot);
  EXPECT_EQ(y.raw(), slot.raw());
  expect_filled(y, [&](int64_t i, int64_t j) { return i / 3 * 100 + i % 3 * 4 + j; });
}

inline void all_reduce_adds_in_rank_order(Ctx& c, Comm& world) {
  for (const int64_t n : {1, 5, 4096 * 3 + 7}) {  // fewer elements than ranks, and more than a block
    const auto term = [](int64_t rank, int64_t j) {
      return (static_cast<float>(j % 97) + 0.1f) * 3.7f / (static_cast<float>(rank) * 1.3f + 1);
    };
    const Tensor x = filled(c, 1, n, [&](int64_t, int64_t j) { return term(world.rank(), j); });
    const Tensor y = world.all_reduce(c, x);
    EXPECT_EQ(y.raw(), x.raw());
    expect_filled(y, [&](int64_t, int64_t j) {
      float sum = term(0, j);
      for (int r = 1; r < world.size(); ++r) sum += term(r, j);
      return sum;
    });
  }
}

inline void exchange_reaches_both_neighbours(Ctx& c, Comm& world) {
  const int me = world.rank(), n = world.size(), before = (me + n - 1) % n, after = (me + 1) % n;
  const Tensor up = filled(c, 1, 6, [&](int64_t i, int64_t j) { return value(me, i, j); });
  const Tensor down = filled(c, 2, 3, [&](int64_t i, int64_t j) { return -value(me, i, j) - 1; });
  const Sides ring = world.exchange(c, {up, down}, Ends::joined);
  expect_filled(ring.prev, [&](int64_t i, int64_t j) { return -value(before, i, j) - 1; });
  expect_filled(ring.next, [&](int64_t i, int64_t j) { return value(after, i, j); });

  const Sides line = world.exchange(c, {up, down}, Ends::open);
  EXPECT_EQ(line.prev.defined(), me > 0);
  EXPECT_EQ(line.next.defined(), me + 1 < n);
  if (me > 0) expect_filled(line.prev, [&](int64_t i, int64_t j) { return -value(before, i, j) - 1; });
  if (me + 1 < n) expect_filled(line.next, [&](int64_t i, int64_t j) { return value(after, i, j); });

  const Sides one_way = world.exchange(c, {{}, down}, Ends::joined);
  expect_filled(one_way.prev, [&](int64_t i, int64_t j) { return -value(before, i, j) - 1; });
  EXPECT_FALSE(one_way.next.defined());
}

inline void gather_and_broadcast_take_any_root(Ctx& c, Comm& world) {
  for (int root = 0; root < world.size(); ++root) {
    const Tensor x = filled(c, 2, 3, [&](int64_t i, int64_t j) { return value(world.rank(), i, j); });
    const Tensor all = world.gather(c, x, root);
    EXPECT_EQ(all.defined(), world.rank() == root);
    if (all.defined()) expect_filled(all, [&](int64_t i, int64_t j) { return value(i / 2, i % 2, j); });
    world.broadcast(c, x, root);
    expect_filled(x, [&](int64_t i, int64_t j) { return value(root, i, j); });
  }
}

inline void empty_tensors_travel_too(Ctx& c, Comm& world) {
  const Tensor x = c.empty({0, 8}, DType::f32);
  EXPECT_EQ(world.all_gather(c, x).shape(), Shape({0, 8}));
  EXPECT_EQ(world.all_to_all(c, x).size(), 0);
  world.all_reduce(c, x);
  const Sides got = world.exchange(c, {x, x}, Ends::joined);
  EXPECT_EQ(got.prev.size() + got.next.size(), 0);
}

inline void split_makes_independent_groups(Ctx& c, Comm& world) {
  std::vector<int> even, odd;
  for (int r = 0; r < world.size(); ++r) (r % 2 ? odd : even).push_back(r);
  const auto half = world.split("half", world.rank() % 2 ? odd : even);
  EXPECT_EQ(half->rank(), world.rank() / 2);
  EXPECT_EQ(half->world_rank(), world.rank());
  EXPECT_EQ(half->axis(), "half");
  const Tensor x = filled(c, 1, 1, [&](int64_t, int64_t) { return world.rank(); });
  expect_filled(half->all_gather(c, x), [&](int64_t i, int64_t) { return 2 * i + world.rank() % 2; });
  const auto first = world.split("first", world.rank() == 0 ? std::vector<int>{0} : std::vector<int>());
  EXPECT_EQ(first != nullptr, world.rank() == 0);
  const auto again = half->split("again", std::vector<int>{half->rank()});
  EXPECT_EQ(again->members(), std::vector<int>{world.rank()});
}

// Calls each verb once, on a context of any kind.
inline void one_of_each(Ctx& c, Comm& g) {
  const Tensor x = c.empty({2 * g.size(), 3}, DType::f32), y = c.empty({1, 10}, DType::f32);
  if (!c.dry()) std::fill_n(x.data<float>(), x.size(), 0.0f), std::fill_n(y.data<float>(), y.size(), 0.0f);
  g.all_to_all(c, x);
  g.all_gather(c, x);
  g.all_reduce(c, y);
  g.exchange(c, {x, y}, Ends::open);
  g.exchange(c, {x, y}, Ends::joined);
  g.gather(c, x, g.size() - 1);
  g.broadcast(c, x, 0);
  g.barrier(c);
}

inline constexpr void (*verb_cases[])(Ctx&, Comm&) = {all_to_all_transposes_ranks_and_rows,
                                                      all_gather_concatenates_in_rank_order,
                                                      all_gather_takes_the_ranks_own_rows_of_its_result,
                                                      all_reduce_adds_in_rank_order,
                                                      exchange_reaches_both_neighbours,
                                                      gather_and_broadcast_take_any_root,
                                                      empty_tensors_travel_too,
                                                      split_makes_independent_groups};

}  // namespace zoetrope
