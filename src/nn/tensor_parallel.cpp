#include "nn/tensor_parallel.h"

#include "base/error.h"
#include "mesh/shard.h"

namespace zoetrope::nn {

int64_t TensorParallel::own(int64_t n) const { return group_ ? even_share(n, size(), group_->rank()).count : n; }

Slice TensorParallel::share(int axis, int64_t n, int64_t unit) const {
  if (size() == 1) return {};
  require(n % unit == 0, "tp: ", n, " are no whole units of ", unit);
  const Span units = even_share(n / unit, size(), group_->rank());
  return {axis, units.first * unit, (units.first + units.count) * unit};
}

int64_t TensorParallel::unit_of(int64_t n) const {
  int64_t unit = 16;
  while (unit > 1 && (n % unit != 0 || n / unit < size())) unit /= 2;
  return unit;
}

void TensorParallel::reserve(int64_t numbers) {
  if (size() > 1) slot_.reserve(numbers * bytes_of(DType::f32));
}

Tensor TensorParallel::sum(Ctx& c, const Linear& part, const Tensor& x) const {
  if (size() == 1) return part(c, x);
  const Tensor y = slot_.view({x.dim(0), part.w.dim(0)}, DType::f32);
  if (x.size() > 0)
    part.into(c, x, y);
  else
    fill(c, y, 0);
  group_->all_reduce(c, y);
  return x.dtype() == DType::f32 ? y : cast(c, y, x.dtype());
}

void TensorParallel::norm_rope(Ctx& c, const std::vector<Normed>& parts, int64_t columns, float eps,
                               const Rope* rope) const {
  Tensor sums;
  if (size() > 1) {
    sums = slot_.view({static_cast<int64_t>(parts.size()), parts[0].x.tokens}, DType::f32);
    for (size_t i = 0; i < parts.size(); ++i) square_sums(c, parts[i].x, sums.row(static_cast<int64_t>(i)));
    group_->all_reduce(c, sums);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const RowSquares whole = sums.defined() ? RowSquares{sums.row(static_cast<int64_t>(i)), columns} : RowSquares{};
    zoetrope::norm_rope(c, parts[i].x, parts[i].w, eps, rope, parts[i].out, whole);
  }
}

}  // namespace zoetrope::nn
