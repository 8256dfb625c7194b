// Tiles on oneDNN 2.x (its C API; 3.x describes a primitive in one call and needs a twin of this file).
#include <oneapi/dnnl/dnnl.h>

#include <array>
#include <string>

#include "base/calls.h"
#include "base/error.h"
#include "ops/cpu/tiles.h"

// libgomp: the number of OpenMP threads of the calling thread's parallel regions. Our pool is the only parallelism.
extern "C" void omp_set_num_threads(int);

#if DNNL_VERSION_MAJOR != 2
#error "oneDNN 2.x is needed: 3.x has another API, which ops/cpu does not speak yet"
#endif

namespace zoetrope {
namespace {

void check(dnnl_status_t status, const char* what) {
  if (status == dnnl_success) return;
  fail(status == dnnl_out_of_memory ? Code::out_of_memory : Code::device, "oneDNN: ", what, " failed with status ",
       static_cast<int>(status));
}

using Engine = std::unique_ptr<dnnl_engine, Calls<dnnl_engine_destroy>>;
using Attributes = std::unique_ptr<dnnl_primitive_attr, Calls<dnnl_primitive_attr_destroy>>;
using PostOps = std::unique_ptr<dnnl_post_ops, Calls<dnnl_post_ops_destroy>>;
using Description = std::unique_ptr<dnnl_primitive_desc, Calls<dnnl_primitive_desc_destroy>>;
using Primitive = std::unique_ptr<dnnl_primitive, Calls<dnnl_primitive_destroy>>;
using Stream = std::unique_ptr<dnnl_stream, Calls<dnnl_stream_destroy>>;
using Memory = std::unique_ptr<dnnl_memory, Calls<dnnl_memory_destroy>>;

dnnl_memory_desc_t dense(int64_t rows, int64_t columns) {
  const dnnl_dims_t dims = {rows, columns};
  dnnl_memory_desc_t desc;
  check(dnnl_memory_desc_init_by_tag(&desc, 2, dims, dnnl_f32, dnnl_ab), "memory description");
  return desc;
}

Attributes attributes(bool add) {
  dnnl_primitive_attr_t made = nullptr;
  check(dnnl_primitive_attr_create(&made), "attributes");
  Attributes result(made);
  // Scratchpads are the caller's: the library's own belong to the thread that made a primitive, not to all that run it.
  check(dnnl_primitive_attr_set_scratchpad_mode(made, dnnl_scratchpad_mode_user), "scratchpad mode");
  if (!add) return result;
  dnnl_post_ops_t sum = nullptr;
  check(dnnl_post_ops_create(&sum), "post-ops");
  const PostOps owned(sum);
  check(dnnl_post_ops_append_sum(sum, 1.0f), "sum");
  check(dnnl_primitive_attr_set_post_ops(made, sum), "post-ops");
  return result;
}

}  // namespace

struct DnnlEngine {
  Engine handle;
};

struct DnnlPrimitive {
  dnnl_memory_desc_t a, b, c;
  Primitive handle;
  std::string implementation;
  size_t scratchpad = 0;
  dnnl_memory_desc_t scratchpad_desc;
};

namespace {

std::unique_ptr<DnnlPrimitive> make(dnnl_engine_t engine, int64_t k, int64_t n, bool add) {
  auto result = std::make_unique<DnnlPrimitive>();
  result->a = dense(tile_rows, k), result->b = dense(k, n), result->c = dense(tile_rows, n);
  dnnl_matmul_desc_t desc;
  check(dnnl_matmul_desc_init(&desc, &result->a, &result->b, nullptr, &result->c), "matmul description");
  dnnl_primitive_desc_t pd = nullptr;
  check(dnnl_primitive_desc_create(&pd, &desc, attributes(add).get(), engine, nullptr), "matmul");
  const Description owned(pd);
  const char* text = nullptr;
  check(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &text), "query");
  result->implementation = text;
  result->scratchpad_desc = *dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
  result->scratchpad = dnnl_memory_desc_get_size(&result->scratchpad_desc);
  dnnl_primitive_t primitive = nullptr;
  check(dnnl_primitive_create(&primitive, pd), "matmul");
  result->handle.reset(primitive);
  return result;
}

}  // namespace

Tiles::Tiles() : engine_(std::make_unique<DnnlEngine>()) {
  dnnl_engine_t engine = nullptr;
  check(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine");
  engine_->handle.reset(engine);
}

Tiles::~Tiles() = default;

const DnnlPrimitive& Tiles::get(int64_t k, int64_t n, bool add) {
  omp_set_num_threads(1);  // also while it is made: blocking depends on the number of threads
  const std::lock_guard lock(mutex_);
  auto& found = made_[{k, n, add}];
  if (!found) found = make(engine_->handle.get(), k, n, add);
  return *found;
}

std::vector<std::string> Tiles::implementations() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [shape, made] : made_)
    names.push_back(cat(tile_rows, "x", std::get<1>(shape), "x", std::get<0>(shape), ": ", made->implementation));
  return names;
}

struct TileProduct::Call {
  const DnnlPrimitive& primitive;
  Stream stream;
  std::array<Memory, 4> memory;  // a, b, c, scratchpad
  std::array<dnnl_exec_arg_t, 4> args;
  std::unique_ptr<std::byte[]> scratchpad;

  void bind(size_t i, int role, const dnnl_memory_desc_t& desc, dnnl_engine_t engine, void* data) {
    dnnl_memory_t made = nullptr;
    check(dnnl_memory_create(&made, &desc, engine, data), "memory");
    memory[i].reset(made);
    args[i] = {role, made};
  }
};

TileProduct::TileProduct(Tiles& tiles, int64_t k, int64_t n, bool add)
    : call_(new Call{tiles.get(k, n, add), {}, {}, {}, {}}) {
  dnnl_engine_t engine = tiles.engine().handle.get();
  dnnl_stream_t stream = nullptr;
  check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "stream");
  call_->stream.reset(stream);
  const DnnlPrimitive& p = call_->primitive;
  call_->scratchpad.reset(new std::byte[p.scratchpad + 1]);
  call_->bind(0, DNNL_ARG_SRC, p.a, engine, DNNL_MEMORY_NONE);
  call_->bind(1, DNNL_ARG_WEIGHTS, p.b, engine, DNNL_MEMORY_NONE);
  call_->bind(2, DNNL_ARG_DST, p.c, engine, DNNL_MEMORY_NONE);
  call_->bind(3, DNNL_ARG_SCRATCHPAD, p.scratchpad_desc, engine, call_->scratchpad.get());
}

TileProduct::~TileProduct() = default;
TileProduct::TileProduct(TileProduct&&) noexcept = default;

void TileProduct::operator()(const float* a, const float* b, float* c) {
  Call& call = *call_;
  dnnl_memory_set_data_handle(call.memory[0].get(), const_cast<float*>(a));
  dnnl_memory_set_data_handle(call.memory[1].get(), const_cast<float*>(b));
  dnnl_memory_set_data_handle(call.memory[2].get(), c);
  check(dnnl_primitive_execute(call.primitive.handle.get(), call.stream.get(), static_cast<int>(call.args.size()),
                               call.args.data()),
        "matmul");
}

}  // namespace zoetrope
