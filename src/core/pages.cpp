#include "core/pages.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/rounding.h"

namespace zoetrope {
namespace {

constexpr size_t host_grain = size_t{2} << 20;

class HostPages final : public Pages {
 public:
  explicit HostPages(size_t reserve) : size_(round_up(reserve, host_grain)) {
    void* range = ::mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
      fail(Code::out_of_memory, "memory: cannot reserve ", size_, " bytes of addresses: ", std::strerror(errno),
           "; the system gives a process fewer of them");
    base_ = static_cast<std::byte*>(range);
  }
  ~HostPages() override { ::munmap(base_, size_); }
  HostPages(const HostPages&) = delete;
  HostPages& operator=(const HostPages&) = delete;

  std::byte* base() const override { return base_; }
  bool host() const override { return true; }
  size_t reserved() const override { return size_; }
  size_t grain() const override { return host_grain; }

  void commit(size_t from, size_t to) override {
    if (::mprotect(base_ + from, to - from, PROT_READ | PROT_WRITE) != 0)
      fail(Code::out_of_memory, "memory: cannot use ", to - from, " more bytes: ", std::strerror(errno));
  }
  void release(size_t from, size_t to) override {
    ::madvise(base_ + from, to - from, MADV_DONTNEED);
    ::mprotect(base_ + from, to - from, PROT_NONE);
  }

 private:
  std::byte* base_;
  size_t size_;
};

// Where a limit stands on the addresses of a process (ulimit -v), a reservation counts as if it were used. There the
// range is only claimed: a page of our own lies at its begin, far from where the system puts what it places itself, and
// the range is mapped as it is needed.
class ClaimedPages final : public Pages {
 public:
  explicit ClaimedPages(size_t reserve) : size_(std::min(reserve, stride - host_grain)) {
    for (uintptr_t at = first; at < last && !base_; at += stride)
      if (map(reinterpret_cast<std::byte*>(at), marker_size, PROT_NONE))
        base_ = reinterpret_cast<std::byte*>(at) + host_grain;
    if (!base_)
      fail(Code::out_of_memory, "memory: cannot claim addresses: ", std::strerror(errno),
           "; lift the limit on them (ulimit -v unlimited)");
  }
  ~ClaimedPages() override {
    ::munmap(base_, mapped_);
    ::munmap(base_ - host_grain, marker_size);
  }
  ClaimedPages(const ClaimedPages&) = delete;
  ClaimedPages& operator=(const ClaimedPages&) = delete;

  std::byte* base() const override { return base_; }
  bool host() const override { return true; }
  size_t reserved() const override { return size_; }
  size_t grain() const override { return host_grain; }

  void commit(size_t from, size_t to) override {
    if (!map(base_ + from, to - from, PROT_READ | PROT_WRITE))
      fail(Code::out_of_memory, "memory: cannot use ", to - from, " more bytes: ", std::strerror(errno),
           "; there is a limit on the addresses of this process (ulimit -v)");
    mapped_ = to;
  }
  void release(size_t from, size_t to) override {
    ::munmap(base_ + from, to - from);
    mapped_ = from;
  }

 private:
  static constexpr uintptr_t first = uintptr_t{1} << 44, last = uintptr_t{5} << 44, stride = uintptr_t{1} << 40;
  static constexpr size_t marker_size = 4096;

  static bool map(std::byte* at, size_t size, int access) {
    void* got = ::mmap(at, size, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != MAP_FAILED && got != at) ::munmap(got, size);  // a kernel that does not know the last flag
    return got == at;
  }

  std::byte* base_ = nullptr;
  size_t size_, mapped_ = 0;
};

bool addresses_are_limited() {
  struct rlimit limit {};
  return ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

class DryPages final : public Pages {
 public:
  DryPages(size_t reserve, size_t grain) : size_(reserve), grain_(grain) {}
  std::byte* base() const override { return reinterpret_cast<std::byte*>(uintptr_t{1} << 52); }  // no real address
  bool host() const override { return false; }
  size_t reserved() const override { return size_; }
  size_t grain() const override { return grain_; }
  void commit(size_t, size_t) override {}
  void release(size_t, size_t) override {}

 private:
  size_t size_, grain_;
};

}  // namespace

std::unique_ptr<Pages> host_pages(size_t reserve) {
  if (addresses_are_limited()) return std::make_unique<ClaimedPages>(reserve);
  return std::make_unique<HostPages>(reserve);
}
std::unique_ptr<Pages> dry_pages(size_t reserve, size_t grain) { return std::make_unique<DryPages>(reserve, grain); }

}  // namespace zoetrope
