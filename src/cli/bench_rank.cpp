#include "cli/bench_rank.h"

#include <algorithm>
#include <cstdio>
#include <thread>

#include "base/error.h"
#include "core/digest.h"
#include "engine/memory.h"
#include "nn/random.h"
#include "ops/cpu/backend.h"
#include "ops/cpu/version.h"
#include "ops/cuda/backend.h"
#include "pipeline/finite.h"
#include "version.h"

namespace zoetrope::cli {
namespace {

int thread_count(int asked) {
  require(asked >= 0, "threads: ", asked, " asked for; 1 or more make sense, 0 takes all");
  return asked > 0 ? asked : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

BenchRank::BenchRank(DeviceKind device, int threads, const std::string& table)
    : pool(thread_count(threads)),
      backend(device == DeviceKind::cpu ? make_cpu_backend() : make_cuda_backend(0)),
      c(prepare()),
      tuning(use_tuning(*backend, table)) {}

Rank& BenchRank::prepare() {
  prepare_rank(rank, *backend);
  if (!on_cuda()) rank.memory_limit = static_cast<size_t>(available_memory());  // else the system ends us, by a signal
  rank.pool = &pool;
  rank.shared = &shared;
  return rank;
}

Tensor BenchRank::random(const Shape& shape, uint64_t seed, DType type) {
  const Tensor x = c.empty(shape, type, c.request());  // first: it knows what is too much
  std::vector<std::byte> host(static_cast<size_t>(shape.size() * bytes_of(type)));
  nn::Random(seed, &pool).read("shared.weight", shape, {}, Tensor(host.data(), shape, type));
  c.upload(host.data(), x);
  return x;
}

uint64_t BenchRank::digest(const std::vector<Tensor>& tensors) {
  if (on_cuda()) return cuda_digest(*backend, tensors);
  uint64_t sum = 0;
  for (const Tensor& x : tensors) sum += zoetrope::digest(x);
  return sum;
}

std::string BenchRank::device_name() const { return on_cuda() ? cuda_devices().at(0).name : "cpu"; }

OrderedJson BenchRank::facts() const {
  OrderedJson versions{{"zoetrope", ZOETROPE_VERSION}, {"git", ZOETROPE_GIT}};
  if (on_cuda()) {
    const CudaFacts f = cuda_devices().at(0);
    versions.update({{"driver", f.driver}, {"cuda", f.runtime}, {"cublas", f.cublas}, {"cudnn", f.cudnn}});
  } else {
    versions["onednn"] = onednn_version();
  }
  return {{"device", device_name()},
          {"threads", pool.threads()},
          {"versions", versions},
          {"tuned", !tuning.hash.empty()},
          {"table_hash", tuning.hash.empty() ? OrderedJson(nullptr) : OrderedJson(tuning.hash)}};
}

void SameBits::see(const std::vector<Tensor>& results) {
  Scope scope(rank_.c.scratch());
  for (const Tensor& x : results) {
    const float bad = range_of(rank_.c, x).bad;
    require(bad == 0, "bench: ", what_, ": run ", seen_ + 1, " holds ", static_cast<int64_t>(bad),
            " values that are not finite");
  }
  const uint64_t bits = rank_.digest(results);
  if (seen_++ == 0) first_ = bits;
  require(bits == first_, "bench: ", what_, ": run ", seen_, " has other bits than the first");
}

std::string SameBits::hex() const {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(first_));
  return text;
}

}  // namespace zoetrope::cli
