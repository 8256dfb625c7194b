#include "ops/cuda/pages.h"

#include <algorithm>
#include <map>

#include "base/rounding.h"
#include "ops/cuda/check.h"

namespace zoetrope::cuda {
namespace {

constexpr size_t chunk = size_t{256} << 20;  // of one physical allocation, at most
constexpr size_t least = size_t{32} << 20;   // and at least: each costs 0.4 ms

// A POSIX file descriptor can be asked of each chunk: another process, or a collective library, can map it.
CUmemAllocationProp properties(int device) {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = device;
  p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return p;
}

class DevicePages final : public Pages {
 public:
  DevicePages(const Driver& driver, int device, size_t reserve) : driver_(driver), device_(device) {
    const CUmemAllocationProp p = properties(device);
    check(driver_.granularity(&grain_, &p, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    grain_ = std::max(grain_, least);
    size_ = round_up(reserve, grain_);
    check(driver_.reserve(&base_, size_, 0, 0, 0));
  }
  ~DevicePages() override {
    forget(cudaDeviceSynchronize());  // nothing may still work on what goes
    for (const auto& [at, bytes] : chunks_) driver_.unmap(base_ + at, bytes);
    driver_.free(base_, size_);
  }
  DevicePages(const DevicePages&) = delete;
  DevicePages& operator=(const DevicePages&) = delete;

  std::byte* base() const override { return reinterpret_cast<std::byte*>(base_); }
  bool host() const override { return false; }
  size_t reserved() const override { return size_; }
  size_t grain() const override { return grain_; }

  // All or nothing: what is not there in the whole is not taken in part, others may use the device.
  void commit(size_t from, size_t to) override {
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total));
    const size_t more = to - std::min(to, std::max(from, mapped_end()));
    if (more > free)
      fail(Code::out_of_memory, "memory: GPU ", device_, " has no ", more, " bytes more, only ", free, " of ", total);
    for (size_t at = from; at < to; at += chunk) map(at, std::min(chunk, to - at));
  }

  // Chunks that lie in [from, to) whole. One that begins below stays mapped as it is, which costs memory, not
  // correctness: a later commit finds it and adds only what is missing.
  void release(size_t from, size_t) override {
    check(cudaDeviceSynchronize());
    for (auto it = chunks_.lower_bound(from); it != chunks_.end(); it = chunks_.erase(it))
      check(driver_.unmap(base_ + it->first, it->second));
  }

 private:
  size_t mapped_end() const { return chunks_.empty() ? 0 : chunks_.rbegin()->first + chunks_.rbegin()->second; }

  void map(size_t at, size_t bytes) {
    const size_t end = at + bytes;
    if (end <= mapped_end()) return;
    at = std::max(at, mapped_end()), bytes = end - at;
    const CUmemAllocationProp p = properties(device_);
    CUmemGenericAllocationHandle handle{};
    const CUresult made = driver_.create(&handle, bytes, &p, 0);
    if (made == CUDA_ERROR_OUT_OF_MEMORY)
      fail(Code::out_of_memory, "memory: GPU ", device_, " has no ", bytes, " bytes more");
    check(made);
    const CUresult mapped = driver_.map(base_ + at, bytes, 0, handle, 0);
    driver_.release(handle);  // the mapping keeps it alive
    check(mapped);
    chunks_.emplace(at, bytes);
    CUmemAccessDesc access{};
    access.location = p.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    check(driver_.set_access(base_ + at, bytes, &access, 1));
  }

  Driver driver_;
  int device_;
  size_t grain_ = 0, size_ = 0;
  CUdeviceptr base_ = 0;
  std::map<size_t, size_t> chunks_;  // offset -> bytes, without gaps
};

}  // namespace

std::unique_ptr<Pages> device_pages(const Driver& driver, int device, size_t reserve) {
  return std::make_unique<DevicePages>(driver, device, reserve);
}

}  // namespace zoetrope::cuda
