// One collective call as data: what all ranks of it must agree on, and this rank's buffers.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "comm/waits.h"
#include "core/tensor.h"

namespace zoetrope {

enum class Verb : uint8_t { all_to_all, all_gather, all_reduce, exchange, gather, broadcast, barrier, split };
inline constexpr int verb_count = 8;

const char* name(Verb verb);

// exchange: `joined` makes a ring of the ranks; `open` leaves the first without a previous and the last without a next.
enum class Ends : uint8_t { open, joined };

// What goes to, or came from, the previous and the next rank. Undefined: nothing does.
struct Sides {
  Tensor prev, next;
};

struct Call {
  Verb verb = Verb::barrier;
  int64_t number = 0;  // of this communicator, from 1
  int root = 0;
  Ends ends = Ends::open;
  Sides in = {};  // in.prev alone for every verb but exchange
  Sides out = {};
  int64_t bytes = 0;  // on this rank's wire, see comm.h
  Wait wait = Wait::bootstrap;
  Waits::Limit limit = Waits::none;

  // The part that must be equal on all ranks, in a form that can be sent.
  static constexpr int agreed_words = 20;
  using Agreed = std::array<int64_t, agreed_words>;
  Agreed agreed() const;
};

// "all_to_all of [4, 8] fp32", "broadcast of [2] i32 from rank 0", ...; `agreed` may come from a stranger's memory.
std::string text_of(const Call::Agreed& agreed);

// "axis ulysses: all_to_all 17 of 4096 bytes: rank 3 is not there after 10 s (waits of class step)"
std::string stall(const std::string& axis, const Call& call, const std::vector<int>& missing);

// "rank 2 calls all_gather of [4, 8] fp32 but rank 0 all_to_all of [2, 4] fp32 (axis ulysses, call 7)"
std::string disagreement(const std::string& axis, int rank_a, const Call::Agreed& a, int rank_b, const Call::Agreed& b);

}  // namespace zoetrope
