// conv: cuDNN for bf16 with input channels in eights, channels last; few outputs (3 colours) are padded with zeros and
// cut. Zeros on one side only go through a padded copy of a band of rows. fp32, odd channel counts and shapes for which
// the library has no plan that keeps its bits are unfolded into rows of a product: exact fp32 sums, and bits that
// depend on the pixel's inputs alone, for any shape.
#include <algorithm>

#include "base/rounding.h"
#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/stream.h"

namespace zoetrope::cuda {
namespace {

bool pixelwise(const Tensor& w, const ConvOptions& o) {
  return w.dim(1) * w.dim(2) * w.dim(3) == 1 && o.stride == 1 && o.top == 0 && o.bottom == 0 && o.left == 0 &&
         o.right == 0;
}

bool for_library(const Tensor& x, const Tensor& w) {
  const auto aligned = [](const Tensor& t) { return reinterpret_cast<uintptr_t>(t.raw()) % 16 == 0; };
  return x.dtype() == DType::bf16 && x.dim(3) % 8 == 0 && aligned(x) && aligned(w);
}

// Frames [first, first + frames) of a picture, of each the rows [row, row + rows).
struct Part {
  int64_t first, frames, row, rows;

  // The address of the first, the frames' distance stays that of x.
  Tensor of(const Tensor& x) const {
    auto* base = static_cast<std::byte*>(x.row(first).raw()) + row * x.dim(2) * x.dim(3) * bytes_of(x.dtype());
    return {base, x.shape().with(0, frames).with(1, rows), x.dtype()};
  }
};

class Conv {
 public:
  // `work` is the stream's slot, what lies from `free` on is not in use.
  Conv(cudaStream_t stream, std::byte* work, std::byte* free, Dnn& dnn, Products& products, const Tensor& x,
       const Tensor& w, const Tensor& b, const ConvOptions& options, const Tensor& add, const Tensor& y)
      : stream_(stream),
        work_(work),
        free_(free),
        dnn_(dnn),
        products_(products),
        x_(x),
        w_(w),
        b_(b),
        o_(options),
        add_(add),
        y_(y) {
    look_ = {o_.top, o_.bottom, o_.left, o_.right, o_.stride};
  }

  void run() {
    if (pixelwise(w_, o_)) return unfolded();
    const bool whole = w_.dim(0) % 8 == 0 && reinterpret_cast<uintptr_t>(y_.raw()) % 16 == 0;
    if (!for_library(x_, w_) || !(whole ? by_library() : cut())) unfolded();
  }

 private:
  int64_t frame() const { return y_.size() / y_.dim(0); }
  int64_t room() const { return work_ + Slots::bytes - free_; }

  // As the library pads: the same on both sides, and nothing left out.
  bool symmetric() const { return o_.top == o_.bottom && o_.left == o_.right && o_.top >= 0 && o_.left >= 0; }

  // A kernel without depth takes one frame a call, so that the plan cannot depend on how many there are: with four
  // frames the library has none that keeps its bits. The same for `add`: the rounded sum and it are added, as the
  // reference does, since the library fuses no addition into such a plan, nor leaves fp32 sums.
  bool by_library() {
    const int64_t depth = w_.dim(1), each = depth == 1 ? 1 : y_.dim(0);
    for (int64_t t = 0; t < y_.dim(0); t += each)
      if (!some_frames(x_.rows(t, t + each + depth - 1), t, each)) return false;
    if (add_.defined()) cuda::add(stream_, y_, add_);
    return true;
  }

  // Frames [first, first + count) of y, out of those of x that they need.
  bool some_frames(const Tensor& x, int64_t first, int64_t count) {
    if (symmetric()) return convolve(x, {first, count, 0, y_.dim(1)}, o_.top, o_.left);
    const int64_t columns = x.dim(2) + o_.left + o_.right, kh = w_.dim(2);
    const int64_t row_bytes = x.dim(0) * columns * x.dim(3) * bytes_of(x.dtype());
    const int64_t most = (room() / row_bytes - kh) / o_.stride + 1;  // rows of y a band
    if (most < 1) return false;
    for (int64_t from = 0; from < y_.dim(1); from += most) {
      const Part band{first, count, from, std::min(most, y_.dim(1) - from)};
      const int64_t rows = (band.rows - 1) * o_.stride + kh;
      const Tensor padded(free_, {x.dim(0), rows, columns, x.dim(3)}, x.dtype());
      pad_rows(stream_, x, look_, from * o_.stride, rows, padded.raw());
      if (!convolve(padded, band, 0, 0)) return false;
    }
    return true;
  }

  bool convolve(const Tensor& x, const Part& part, int top, int left) {
    return dnn_.convolve(stream_, {x, w_, b_, part.of(y_), frame(), top, left, o_.stride}, work_);
  }

  // Outputs padded to eight: weights and bias, then the padded result, some frames at a time. Where inputs have to be
  // padded, too, half of the room is left for bands of them.
  bool cut() {
    if (add_.defined()) return false;
    const int64_t outputs = w_.dim(0), padded = round_up(outputs, 8);
    std::byte* at = free_;
    const auto take = [&](const Shape& shape, DType type) {
      const Tensor t(at, shape, type);
      at += round_up(t.bytes(), 256);
      return t;
    };
    const Tensor w = take(w_.shape().with(0, padded), w_.dtype());
    const Tensor b = b_.defined() ? take({padded}, b_.dtype()) : Tensor{};
    const auto widen_into = [&](const Tensor& from, const Tensor& to) {
      fill(stream_, to, 0);
      copy_heads(stream_, as_heads(from.view({1, from.size()}), from.size()),
                 as_heads(to.view({1, to.size()}), 0, 1, from.size()));
    };
    widen_into(w_, w);
    if (b.defined()) widen_into(b_, b);
    const int64_t pixels = y_.dim(1) * y_.dim(2), left = work_ + Slots::bytes - at;
    const int64_t most = (symmetric() ? left : left / 2) / (pixels * padded * bytes_of(y_.dtype()));
    if (most < 1) return false;
    for (int64_t from = 0; from < y_.dim(0); from += most) {
      const int64_t count = std::min(most, y_.dim(0) - from);
      const Tensor wide(at, y_.shape().with(0, count).with(3, padded), y_.dtype());
      const Tensor x = x_.rows(from, from + count + w_.dim(1) - 1);
      std::byte* behind = at + round_up(wide.bytes(), 256);
      if (!Conv(stream_, work_, behind, dnn_, products_, x, w, b, o_, {}, wide).by_library()) return false;
      copy_heads(stream_, as_heads(wide.view({count * pixels, padded}), 0, 1, outputs),
                 as_heads(y_.rows(from, from + count).view({count * pixels, outputs}), outputs));
    }
    return true;
  }

  // Pixels in pieces of which the unfolded inputs and the fp32 sums fit into the slot.
  void unfolded() {
    const int64_t outputs = w_.dim(0), depth = w_.size() / outputs, pixels = y_.size() / outputs;
    const int64_t each = depth * bytes_of(x_.dtype()) + outputs * 4 + 512;
    const int64_t most = std::max<int64_t>(1, room() / each);
    const Tensor weights = w_.view({outputs, depth});
    const Tensor y = y_.view({pixels, outputs}), add = add_.defined() ? add_.view({pixels, outputs}) : Tensor{};
    for (int64_t from = 0; from < pixels; from += most) {
      const int64_t count = std::min(most, pixels - from);
      std::byte* at = free_;
      const Tensor sums(at, {count, outputs}, DType::f32);
      at += round_up(sums.bytes(), 256);
      Tensor inputs(at, {count, depth}, x_.dtype());
      if (pixelwise(w_, o_))
        inputs = x_.view({pixels, depth}).rows(from, from + count);
      else
        unfold(stream_, x_, w_, y_, look_, from, count, at);
      products_.run(stream_, inputs, weights, Epilogue::none, {}, sums, work_);
      finish(stream_, sums.data<float>(), b_, Finish::none, add.defined() ? add.rows(from, from + count) : Tensor{},
             y.rows(from, from + count));
    }
  }

  cudaStream_t stream_;
  std::byte *work_, *free_;
  Dnn& dnn_;
  Products& products_;
  const Tensor &x_, &w_, &b_;
  const ConvOptions& o_;
  Look look_;
  const Tensor &add_, &y_;
};

}  // namespace

void CudaBackend::conv(Ctx& c, Tensor x, Tensor w, Tensor b, ConvOptions options, Tensor add, Tensor y) {
  if (y.size() == 0) return;
  std::byte* slot = slots_.of(c);  // begins with the library's workspace
  Conv(native(c.stream()), slot, slot + Dnn::workspace, *dnn_, products_, x, w, b, options, add, y).run();
}

}  // namespace zoetrope::cuda
