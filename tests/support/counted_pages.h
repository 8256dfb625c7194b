// Pages that count what their regions take and give back.
#pragma once
#include <memory>

#include "core/ctx.h"

namespace zoetrope {

struct Counted {
  int commits = 0, releases = 0;
  int64_t held = 0;
};

class CountedPages final : public Pages {
 public:
  CountedPages(std::unique_ptr<Pages> pages, Counted& counted) : pages_(std::move(pages)), counted_(counted) {}
  std::byte* base() const override { return pages_->base(); }
  bool host() const override { return pages_->host(); }
  size_t reserved() const override { return pages_->reserved(); }
  size_t grain() const override { return host() ? 4096 : pages_->grain(); }  // the system's: toys are small
  void commit(size_t from, size_t to) override {
    pages_->commit(from, to);
    ++counted_.commits, counted_.held += static_cast<int64_t>(to - from);
  }
  void release(size_t from, size_t to) override {
    pages_->release(from, to);
    ++counted_.releases, counted_.held -= static_cast<int64_t>(to - from);
  }

 private:
  std::unique_ptr<Pages> pages_;
  Counted& counted_;
};

// Of all regions that the rank makes from now on.
inline void count_pages(Rank& rank, Counted& counted) {
  rank.make_pages = [&counted, make = rank.make_pages](size_t bytes) -> std::unique_ptr<Pages> {
    return std::make_unique<CountedPages>(make(bytes), counted);
  };
}

}  // namespace zoetrope
