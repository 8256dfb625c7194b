// Streams and events. On the CPU the main stream runs each job where it is issued; a side stream is a real second
// thread. On CUDA both are CUDA streams (core only sees this interface).
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace zoetrope {

class Stream;

// A place in a stream's order of work. Plain value; good as long as the stream lives.
struct Event {
  Stream* stream = nullptr;
  uint64_t number = 0;
};

class Stream {
 public:
  using Job = std::function<void()>;

  virtual ~Stream() = default;
  virtual bool immediate() const = 0;  // a job is done when submit returns (or, on CUDA, launched)
  virtual void submit(Job job) = 0;
  virtual Event record() = 0;                       // everything submitted so far
  virtual void wait(const Event& e) = 0;            // later jobs of this stream start after e
  virtual void sync() = 0;                          // the host waits for all jobs; rethrows the first error of one
  virtual void block_until(uint64_t number) = 0;    // the calling thread waits for an event of this stream
  virtual void* native() const { return nullptr; }  // cudaStream_t

  // Between host memory and memory of this stream's device. `from` may be reused when upload returns; download waits
  // for all that was submitted before.
  virtual void upload(const void* from, void* to, size_t bytes);  // here: device memory is host memory
  virtual void download(const void* from, void* to, size_t bytes);
  // Within memory of this stream's device, in its order where jobs are launched; where it runs them itself: at once.
  virtual void copy(const void* from, void* to, size_t bytes);
  bool on_host() const { return native() == nullptr; }  // the host may read and write what its jobs do
};

std::unique_ptr<Stream> inline_stream();  // runs jobs in the caller
std::unique_ptr<Stream> thread_stream();  // runs jobs in a thread of its own, in order

}  // namespace zoetrope
