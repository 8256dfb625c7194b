// A deleter that calls a C library's function: std::unique_ptr<dnnl_stream, Calls<dnnl_stream_destroy>>.
#pragma once

namespace zoetrope {

template <auto Destroy>
struct Calls {
  void operator()(auto* handle) const { Destroy(handle); }
};

}  // namespace zoetrope
