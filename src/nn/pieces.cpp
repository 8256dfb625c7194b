#include "nn/pieces.h"

#include <algorithm>

namespace zoetrope::nn {
namespace {

bool is_float(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

// What is cut: `rows` that lie `row` stored elements apart, of which each becomes `becomes` elements.
struct Rows {
  int64_t first = 0, rows = 1, row = 0, becomes = 0;
  Unpack each;  // of one row

  Unpack of(int64_t n) const {
    if (each.kernel == 1 && each.inner == row) return Unpack::run(n * row);
    return {n, each.inner, each.kernel, row, each.pitch};
  }
};

// Elements are the rows of what lies in one run, so that a piece ends where its buffer does.
Rows rows_of(const Wanted& w) {
  const Shape part = w.slice.of(w.shape);
  if (w.channels_last) {
    const auto [in, kernel, pitch] = *w.channels_last;
    return {0, w.shape[0], in * kernel, kernel * pitch, {1, in, kernel, in * kernel, pitch}};
  }
  if (w.slice.axis == 1) return {w.slice.from, part[0], w.shape[1], part[1], {1, part[1], 1, w.shape[1], part[1]}};
  const int64_t above = w.shape.rank() == 0 || w.shape[0] == 0 ? 0 : w.slice.from * (w.shape.size() / w.shape[0]);
  return {above, part.size(), 1, 1, Unpack::run(1)};
}

int64_t fit(int64_t row, DType type) { return static_cast<int64_t>(Intake::slot_bytes) / (row * bytes_of(type)); }

bool add_stored(const Checkpoint& from, const Wanted& w, std::vector<Piece>& pieces) {
  const DType stored = from.at(w.key).dtype, type = w.to.dtype();
  const Rows rows = rows_of(w);
  const int64_t most = fit(rows.row, stored);
  for (int64_t r = 0; r < rows.rows && most > 0; r += most) {
    const int64_t n = std::min(most, rows.rows - r), at = (rows.first + r * rows.row) * bytes_of(stored);
    pieces.push_back(
        {[&from, key = w.key, at](std::span<std::byte> to) { from.read_stored(key, static_cast<size_t>(at), to); },
         stored,
         rows.of(n),
         elements(w.to, r * rows.becomes, {n * rows.becomes}),
         [&from, key = w.key, type] { from.fail_not_finite(key, type); },
         {}});
  }
  return most > 0;
}

// Some rows of the outermost axis at a time; of columns, all.
bool add_read(Parameters& from, const Wanted& w, std::vector<Piece>& pieces) {
  const Shape part = w.slice.of(w.shape);
  const DType type = w.to.dtype();
  const bool whole = part.rank() == 0 || w.slice.axis == 1;
  const int64_t rows = whole ? 1 : part[0], row = part.size() / rows, most = fit(row, type);
  for (int64_t r = 0; r < rows && most > 0; r += most) {
    const int64_t n = std::min(most, rows - r);
    const Slice slice = whole ? w.slice : Slice{0, w.slice.from + r, w.slice.from + r + n};
    Unpack unpack = Unpack::run(n * row);
    int64_t becomes = row;
    if (const ChannelsLast* last = w.channels_last) {
      unpack = {n, last->in, last->kernel, row, last->in_padded};
      becomes = last->kernel * last->in_padded;
    }
    pieces.push_back({[&from, key = w.key, shape = w.shape, slice, type, n, row](std::span<std::byte> to) {
                        from.read(key, shape, slice, Tensor(to.data(), {n * row}, type));
                      },
                      type,
                      unpack,
                      elements(w.to, r * becomes, {n * becomes}),
                      {},
                      {}});
  }
  return most > 0;
}

}  // namespace

Tensor elements(const Tensor& x, int64_t from, const Shape& shape) {
  return {static_cast<std::byte*>(x.raw()) + from * bytes_of(x.dtype()), shape, x.dtype()};
}

bool add_pieces(Parameters& source, const Wanted& wanted, std::vector<Piece>& pieces) {
  if (wanted.slice.of(wanted.shape).size() == 0) return true;
  const Checkpoint* checkpoint = source.checkpoint();
  if (checkpoint && is_float(checkpoint->at(wanted.key).dtype)) return add_stored(*checkpoint, wanted, pieces);
  return add_read(source, wanted, pieces);
}

}  // namespace zoetrope::nn
