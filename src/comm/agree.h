// Decisions that all ranks of a group take alike: what only one of them knows becomes known to all, at the same place
// in all of their programs. So an error of one can be thrown by all, and nobody need be freed from a wait by an abort.
//
// In a dry context nothing is exchanged: each rank sees what it said itself.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "comm/comm.h"

namespace zoetrope {

// Thrown by every rank of the world at the same place: none waits for another, and no abort is needed.
class AgreedError : public Error {
 public:
  using Error::Error;
};

// The sums over the ranks, the same bits on each.
std::vector<float> sum_over(Ctx& c, Comm& group, std::vector<float> mine);

// Every rank's text, in rank order; each at most 1 MiB.
std::vector<std::string> all_texts(Ctx& c, Comm& group, const std::string& mine);

// Runs `body`, which issues no collective on the group. If it throws on any rank, all throw the first one's words, with
// its rank ("rank 3: ...") unless all said the same.
void together(Ctx& c, Comm& group, const std::function<void()>& body);

}  // namespace zoetrope
