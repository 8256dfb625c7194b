// Working memory of the CPU ops. Bodies run on pool threads and on forks, where the context's scratch (single-threaded)
// is out of reach; so each piece of work leases a buffer from here. Buffers are kept and handed out again.
#pragma once
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

namespace zoetrope {

class Workspaces {
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  struct Buffer {
    std::unique_ptr<void, Free> data;
    size_t bytes = 0;
  };

 public:
  class Lease {
   public:
    Lease(Workspaces& owner, int64_t floats) : owner_(owner), buffer_(owner.fetch(floats)) {}
    ~Lease() { owner_.put_back(std::move(buffer_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    // The next `count` floats, 64-byte aligned; never more in all than the lease was taken for.
    float* floats(int64_t count) {
      float* at = static_cast<float*>(buffer_.data.get()) + used_;
      used_ += padded(count);
      return at;
    }

   private:
    Workspaces& owner_;
    Buffer buffer_;
    int64_t used_ = 0;
  };

  static constexpr int64_t padded(int64_t floats) { return (floats + 15) / 16 * 16; }

  // A lease of `floats` in all; each part taken from it counts padded to 16.
  Lease take(int64_t floats) { return {*this, floats}; }

 private:
  Buffer fetch(int64_t floats);
  void put_back(Buffer buffer);

  std::mutex mutex_;
  std::vector<Buffer> idle_;
};

}  // namespace zoetrope
