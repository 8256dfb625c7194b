// Where a region's bytes come from: an address range reserved once, its pages made usable on demand.
#pragma once
#include <cstddef>
#include <memory>

namespace zoetrope {

class Pages {
 public:
  virtual ~Pages() = default;
  virtual std::byte* base() const = 0;
  virtual bool host() const = 0;  // the host can read and write them
  virtual size_t reserved() const = 0;
  virtual size_t grain() const = 0;                  // commits are multiples of this
  virtual void commit(size_t from, size_t to) = 0;   // make [from, to) usable; never moves anything
  virtual void release(size_t from, size_t to) = 0;  // give [from, to) back, the addresses stay ours
};

// mmap. Under a limit on addresses (ulimit -v) only what is committed counts.
std::unique_ptr<Pages> host_pages(size_t reserve);
// Addresses that nobody may touch, for counting; in the steps of the device that is imitated.
std::unique_ptr<Pages> dry_pages(size_t reserve, size_t grain = size_t{2} << 20);

}  // namespace zoetrope
