#include "core/region.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/error.h"
#include "base/rounding.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

namespace zoetrope {
Region::Region(std::string name, std::unique_ptr<Pages> pages, size_t limit)
    : name_(std::move(name)), pages_(std::move(pages)), limit_(std::min(limit, pages_->reserved())) {}

void Region::allow(size_t from, size_t to) const {
  if (pages_->host()) ASAN_UNPOISON_MEMORY_REGION(pages_->base() + from, to - from);
}

void Region::forbid(size_t from, size_t to) const {
  if (pages_->host()) ASAN_POISON_MEMORY_REGION(pages_->base() + from, to - from);
}

void Region::commit(size_t to) {
  if (to <= committed_) return;
  const size_t grown = std::min(pages_->reserved(), round_up(to, pages_->grain()));
  pages_->commit(committed_, grown);
  forbid(committed_, grown);
  committed_ = grown;
}

void Region::reserve(size_t bytes) { commit(std::min(limit_, used_ + std::min(bytes, limit_ - used_))); }

void* Region::take(size_t bytes) {
  if (bytes > limit_ - used_)
    fail(Code::out_of_memory, "memory: ", name_, " needs ", bytes, " bytes more, has ", used_, " of ", limit_);
  const size_t from = used_, to = std::min(limit_, round_up(used_ + bytes, alignment));
  commit(to);
  allow(from, from + bytes);
  used_ = to;
  peak_ = std::max(peak_, used_);
  largest_ = std::max(largest_, bytes);
  return pages_->base() + from;
}

void Region::rewind(size_t mark) {
  assert(mark <= used_);
  forbid(mark, used_);
  used_ = mark;
}

bool Region::trim(size_t keep) {
  keep = round_up(std::max(used_, std::min(keep, committed_)), pages_->grain());
  if (keep >= committed_) return false;
  allow(keep, committed_);
  pages_->release(keep, committed_);
  committed_ = keep;
  return true;
}

}  // namespace zoetrope
