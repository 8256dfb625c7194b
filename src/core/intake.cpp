#include "core/intake.h"

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "base/deadline.h"
#include "core/stop.h"

namespace zoetrope {

// What readers and sender share. Batches are begun in order and sent as they come. Nobody is woken for what he does not
// wait for: small pieces come by the thousand, and each would wake all readers twice.
class Intake::Reading {
 public:
  struct Read {
    Batch pieces;  // those of a batch that could be read
    size_t slot = 0;
  };

  Reading(std::vector<Batch> batches, Port& port, const Buffers& buffers, const std::stop_token& stop)
      : batches_(std::move(batches)),
        port_(port),
        stop_(stop),
        in_a_row_(std::max<size_t>(1, read_bytes / buffers.bytes)) {
    for (size_t slot = buffers.count(); slot-- > 0;) {
      port_.buffer(slot);  // made here, not by a reader
      free_.push_back(slot);
    }
  }

  // Several batches in a row: they lie in a file one behind the other, and the system reads ahead of a reader that goes
  // on where it was.
  void read_some() {
    std::unique_lock lock(mutex_);
    while (!all_begun()) {
      const size_t from = begun_, to = std::min(from + in_a_row_, batches_.size());
      begun_ = to, under_way_ += to - from;
      for (size_t i = from; i < to; ++i) read(batches_[i], lock);
    }
  }

  // The next that was read; false: there is none any more.
  bool take(Read& read) {
    std::unique_lock lock(mutex_);
    sender_waits_ = true;
    filled_.wait(lock, [&] { return !read_.empty() || (all_begun() && under_way_ == 0); });
    sender_waits_ = false;
    if (read_.empty()) return false;
    read = read_.front();
    read_.pop_front();
    return true;
  }

  void retire(const Read& read) {
    const size_t bad = port_.arrived(read.slot, read.pieces);
    std::exception_ptr error;
    if (bad < read.pieces.size()) error = told(read.pieces[bad].not_finite);
    bool wake = false;
    {
      const std::lock_guard lock(mutex_);
      if (error) fail(&read.pieces[bad], std::move(error));
      free_.push_back(read.slot);
      wake = idle_ > 0;
    }
    if (wake) room_.notify_one();  // one slot more, for one reader
  }

  void throw_first() const {
    if (error_) std::rethrow_exception(error_);
  }

  void end() {
    const std::lock_guard lock(mutex_);
    begun_ = batches_.size(), ended_ = true;
    room_.notify_all();
  }

 private:
  bool all_begun() const { return begun_ == batches_.size(); }

  void read(const Batch& batch, std::unique_lock<std::mutex>& lock) {
    ++idle_;
    room_.wait(lock, [&] { return ended_ || !free_.empty(); });
    --idle_;
    const bool unwanted = ended_ || (failed_ && batch.data() > failed_);
    if (!unwanted) {
      Read one{batch, free_.back()};
      free_.pop_back();
      lock.unlock();
      std::exception_ptr error = fill(one);
      lock.lock();
      if (error) fail(one.pieces.data() + one.pieces.size(), std::move(error));
      if (one.pieces.empty())
        free_.push_back(one.slot), room_.notify_one();
      else
        read_.push_back(one);
    }
    --under_way_;
    if (sender_waits_) filled_.notify_one();
  }

  static std::exception_ptr told(const std::function<void()>& f) {
    try {
      f();
    } catch (...) {
      return std::current_exception();
    }
    return {};
  }

  // What cannot be read, and all behind it, is no longer part of what was read; nor is what nobody wants after a stop,
  // which the sender sees next.
  std::exception_ptr fill(Read& read) const {
    std::byte* at = port_.buffer(read.slot);
    for (size_t i = 0; i < read.pieces.size(); ++i) {
      const Piece& piece = read.pieces[i];
      if (stop_.stop_requested()) {
        read.pieces = read.pieces.first(i);
        return {};
      }
      if (auto error = told([&] { piece.read({at, piece.bytes()}); })) {
        read.pieces = read.pieces.first(i);
        return error;
      }
      at += room(piece);
    }
    return {};
  }

  // All before it were begun, so that whichever of them fails, too, will be known; no more are.
  void fail(const Piece* piece, std::exception_ptr error) {
    if (!failed_ || piece < failed_) failed_ = piece, error_ = std::move(error);
    begun_ = batches_.size();
  }

  std::vector<Batch> batches_;
  Port& port_;
  const std::stop_token& stop_;
  std::mutex mutex_;
  std::condition_variable room_, filled_;  // for readers: a slot is free; for the sender: a batch was read
  std::vector<size_t> free_;               // the last is taken first: it is still in the cache
  std::deque<Read> read_;                  // and not sent yet
  const size_t in_a_row_;                  // batches that a reader takes at once
  size_t begun_ = 0, under_way_ = 0;       // batches: of those begun, the ones that are not read yet
  size_t idle_ = 0;                        // readers
  bool sender_waits_ = false, ended_ = false;
  const Piece* failed_ = nullptr;  // the first in order
  std::exception_ptr error_;
};

void Intake::send_all(Reading& reading, const std::stop_token& stop) {
  std::deque<Reading::Read> sent;
  const auto retire = [&](size_t most) {
    const Stopwatch arriving;
    for (; sent.size() > most; sent.pop_front()) reading.retire(sent.front());
    spent_.arriving += arriving.seconds();
  };
  while (true) {
    check_stop(stop);
    retire(buffers_.sent - 1);
    Reading::Read read;
    const Stopwatch taking;
    const bool more = reading.take(read);
    spent_.reading += taking.seconds();
    if (!more) break;
    port_->send(read.slot, read.pieces);
    sent.push_back(read);
  }
  retire(0);
  check_stop(stop);  // which may have left pieces out
  reading.throw_first();
}

std::vector<Intake::Batch> Intake::batches_of(const std::vector<Piece>& pieces) const {
  std::vector<Batch> batches;
  size_t first = 0, bytes = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    assert(pieces[i].bytes() <= buffers_.bytes);
    const size_t more = room(pieces[i]);
    if (i > first && (i - first == most_pieces || bytes + more > buffers_.bytes)) {
      batches.emplace_back(&pieces[first], i - first);
      first = i, bytes = 0;
    }
    bytes += more;
  }
  batches.emplace_back(&pieces[first], pieces.size() - first);
  return batches;
}

void Intake::run(const std::vector<Piece>& pieces, const Event& event, const std::stop_token& stop) {
  spent_ = {};
  if (pieces.empty()) return;
  std::vector<Tensor> clear;
  for (const Piece& piece : pieces)
    if (piece.clear.defined()) clear.push_back(piece.clear);
  std::vector<Batch> batches = batches_of(pieces);
  spent_.pieces = pieces.size(), spent_.batches = batches.size();
  const size_t threads = std::min(static_cast<size_t>(buffers_.readers), batches.size());
  Reading reading(std::move(batches), *port_, buffers_, stop);
  std::vector<std::jthread> readers;
  try {
    port_->begin(event, clear);
    for (size_t i = 0; i < threads; ++i) readers.emplace_back([&] { reading.read_some(); });
    send_all(reading, stop);
  } catch (...) {
    reading.end();
    readers.clear();
    port_->drain();
    throw;
  }
}

}  // namespace zoetrope
