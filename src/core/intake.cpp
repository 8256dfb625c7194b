#include "core/intake.h"

#include <algorithm>
#include <cassert>
#include <exception>
#include <thread>

#include "base/deadline.h"
#include "core/stop.h"

namespace zoetrope {

// What readers and sender share. A slot holds piece k, k + slots, k + 2 slots, ... Nobody is woken for what he does not
// wait for: small pieces come by the thousand, and each would wake all readers twice.
struct Intake::Reading {
  const std::vector<Piece>& pieces;
  size_t slots;
  Port& port;

  std::mutex mutex{};
  std::condition_variable room{}, filled{};  // for readers: there is a slot to fill; for the sender: its piece is there
  size_t next = 0, retired = 0;              // first piece that nobody reads yet, first that is not in its place yet
  size_t wanted = SIZE_MAX;                  // the sender waits for it
  std::vector<std::exception_ptr> errors{};
  std::vector<bool> ready{};
  bool quit = false;

  void read_some() {
    std::unique_lock lock(mutex);
    while (true) {
      room.wait(lock, [&] { return quit || next == pieces.size() || next < retired + slots; });
      if (quit || next == pieces.size()) return;
      const size_t k = next++, slot = k % slots;
      if (next == pieces.size()) room.notify_all();  // who still waits can go
      lock.unlock();
      std::exception_ptr error;
      try {
        pieces[k].read({port.buffer(slot), pieces[k].bytes()});
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      ready[slot] = true, errors[slot] = error;
      if (k == wanted) filled.notify_one();
    }
  }

  // Waits until piece k is read; its error is thrown here, so that the first in order is.
  void take(size_t k) {
    std::unique_lock lock(mutex);
    wanted = k;
    filled.wait(lock, [&] { return ready[k % slots]; });
    wanted = SIZE_MAX;
    ready[k % slots] = false;
    if (errors[k % slots]) std::rethrow_exception(errors[k % slots]);
  }

  void retire() {
    const Piece& piece = pieces[retired];
    const bool look = static_cast<bool>(piece.not_finite);
    if (!port.arrived(retired % slots, look) && look) piece.not_finite();
    {
      const std::lock_guard lock(mutex);
      ++retired;
    }
    room.notify_one();  // one slot more, for one reader
  }

  void end() {
    const std::lock_guard lock(mutex);
    quit = true;
    room.notify_all();
  }
};

void Intake::send_all(Reading& reading, const std::stop_token& stop) {
  for (size_t k = 0; k < reading.pieces.size(); ++k) {
    check_stop(stop);
    const Stopwatch arriving;
    while (k - reading.retired >= spare) reading.retire();
    spent_.arriving += arriving.seconds();
    const Stopwatch taking;
    reading.take(k);
    spent_.reading += taking.seconds();
    port_->send(k % slots(), reading.pieces[k]);
  }
  const Stopwatch arriving;
  while (reading.retired < reading.pieces.size()) reading.retire();
  spent_.arriving += arriving.seconds();
}

void Intake::run(const std::vector<Piece>& pieces, const Event& event, const std::stop_token& stop) {
  spent_ = {0, 0, pieces.size()};
  if (pieces.empty()) return;
  assert(std::ranges::all_of(pieces, [](const Piece& piece) { return piece.bytes() <= slot_bytes; }));
  for (size_t slot = 0; slot < slots(); ++slot) port_->buffer(slot);  // made here, not by a reader
  Reading reading{pieces, slots(), *port_};
  reading.errors.resize(slots()), reading.ready.resize(slots());
  std::vector<std::jthread> readers;
  try {
    port_->after(event);
    for (size_t i = 0; i < std::min<size_t>(static_cast<size_t>(readers_), pieces.size()); ++i)
      readers.emplace_back([&] { reading.read_some(); });
    send_all(reading, stop);
  } catch (...) {
    reading.end();
    readers.clear();
    port_->drain();
    throw;
  }
}

}  // namespace zoetrope
