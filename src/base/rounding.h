// Whole parts of whole numbers, none of them negative.
#pragma once
#include <concepts>
#include <type_traits>

namespace zoetrope {

template <std::integral T>
constexpr T ceil_div(T n, std::type_identity_t<T> by) {
  return (n + by - 1) / by;
}

// The first multiple of `to` that is not below n.
template <std::integral T>
constexpr T round_up(T n, std::type_identity_t<T> to) {
  return ceil_div(n, to) * to;
}

}  // namespace zoetrope
