// A region: bump allocation over reserved addresses, pages taken on demand, so growing never moves anything and the
// peak is exact. Scope gives back all that was taken since it began.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "core/pages.h"

namespace zoetrope {

class Region {
 public:
  static constexpr size_t alignment = 256;

  // `limit` bounds what may be taken; taking more is Error(out_of_memory) that names the region and the sizes.
  Region(std::string name, std::unique_ptr<Pages> pages, size_t limit);
  ~Region() { allow(0, committed_); }  // the addresses may become somebody else's
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  void* take(size_t bytes);    // aligned; bytes may be 0
  void reserve(size_t bytes);  // pages for so much more, in one go, which is quicker than one by one
  size_t used() const { return used_; }
  size_t peak() const { return peak_; }            // most that was used since reset_peak
  size_t largest() const { return largest_; }      // most that was taken at once since reset_peak
  size_t committed() const { return committed_; }  // pages held now
  const std::string& name() const { return name_; }

  void* data() const { return pages_->base(); }

  void rewind(size_t mark);    // back to an earlier used()
  bool trim(size_t keep = 0);  // give back the pages above used() and above `keep`; whether any went
  void reset_peak() { peak_ = used_, largest_ = 0; }

 private:
  // Under ASan: what nobody holds may not be touched, so that a tensor that outlives its scope is caught.
  void commit(size_t to);
  void allow(size_t from, size_t to) const;
  void forbid(size_t from, size_t to) const;

  std::string name_;
  std::unique_ptr<Pages> pages_;
  size_t limit_;
  size_t used_ = 0, peak_ = 0, largest_ = 0, committed_ = 0;
};

class Scope {
 public:
  explicit Scope(Region& region) : region_(region), mark_(region.used()) {}
  ~Scope() { region_.rewind(mark_); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Region& region_;
  size_t mark_;
};

}  // namespace zoetrope
