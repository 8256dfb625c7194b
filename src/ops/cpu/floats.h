// A per-channel vector of any compute type, or none, as fp32.
#pragma once
#include <algorithm>
#include <vector>

#include "core/tensor.h"

namespace zoetrope {

class Floats {
 public:
  Floats(const Tensor& v, int64_t n, float otherwise) {
    if (v.defined() && v.dtype() == DType::f32) {
      data_ = v.data<float>();
      return;
    }
    copy_.assign(static_cast<size_t>(n), otherwise);
    if (v.defined()) std::transform(v.data<bf16>(), v.data<bf16>() + n, copy_.begin(), [](bf16 x) { return float(x); });
    data_ = copy_.data();
  }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;

  const float* data() const { return data_; }

 private:
  std::vector<float> copy_;
  const float* data_;
};

}  // namespace zoetrope
