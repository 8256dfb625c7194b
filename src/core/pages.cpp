#include "core/pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace zoetrope {
namespace {

constexpr size_t host_grain = size_t{2} << 20;

class HostPages final : public Pages {
 public:
  explicit HostPages(size_t reserve) : size_((reserve + host_grain - 1) / host_grain * host_grain) {
    void* range = ::mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
      fail(Code::out_of_memory, "memory: cannot reserve ", size_, " bytes of addresses: ", std::strerror(errno),
           "; lift the limit on them (ulimit -v unlimited)");
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

class DryPages final : public Pages {
 public:
  explicit DryPages(size_t reserve) : size_(reserve) {}
  std::byte* base() const override { return reinterpret_cast<std::byte*>(uintptr_t{1} << 52); }  // no real address
  bool host() const override { return false; }
  size_t reserved() const override { return size_; }
  size_t grain() const override { return host_grain; }
  void commit(size_t, size_t) override {}
  void release(size_t, size_t) override {}

 private:
  size_t size_;
};

}  // namespace

std::unique_ptr<Pages> host_pages(size_t reserve) { return std::make_unique<HostPages>(reserve); }
std::unique_ptr<Pages> dry_pages(size_t reserve) { return std::make_unique<DryPages>(reserve); }

}  // namespace zoetrope
