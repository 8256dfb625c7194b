#include "comm/world.h"

#include <utility>

namespace zoetrope {
namespace {

class WatchedStream final : public Stream {
 public:
  WatchedStream(std::unique_ptr<Stream> stream, std::function<void()> on_error)
      : stream_(std::move(stream)), on_error_(std::move(on_error)) {}

  bool immediate() const override { return stream_->immediate(); }
  void submit(Job job) override {
    stream_->submit([this, job = std::move(job)] {
      try {
        job();
      } catch (...) {
        on_error_();
        throw;
      }
    });
  }
  Event record() override { return stream_->record(); }
  void wait(const Event& e) override { stream_->wait(e); }
  void sync() override { stream_->sync(); }
  void block_until(uint64_t number) override { stream_->block_until(number); }
  void* native() const override { return stream_->native(); }
  void upload(const void* from, void* to, size_t bytes) override { stream_->upload(from, to, bytes); }
  void download(const void* from, void* to, size_t bytes) override { stream_->download(from, to, bytes); }
  void copy(const void* from, void* to, size_t bytes) override { stream_->copy(from, to, bytes); }

 private:
  std::unique_ptr<Stream> stream_;
  std::function<void()> on_error_;
};

}  // namespace

void World::watch(Rank& rank, int number) {
  rank.make_side = [this, number, make = std::move(rank.make_side)] {
    return std::make_unique<WatchedStream>(make(), [this, number] { abort(current_cause(number)); });
  };
}

}  // namespace zoetrope
