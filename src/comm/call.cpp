#include "comm/call.h"

#include <algorithm>

#include "base/cat.h"

namespace zoetrope {
namespace {

constexpr int words_per_tensor = 8;  // type, number of axes, extents

void write(const Tensor& x, int64_t* words) {
  words[0] = x.defined() ? static_cast<int64_t>(x.dtype()) : -1;
  words[1] = x.defined() ? x.rank() : 0;
  if (x.defined()) std::ranges::copy(x.shape().dims(), words + 2);
}

std::string tensor_text(const int64_t* words) {
  if (words[0] < 0 || words[0] > static_cast<int64_t>(DType::f8_e5m2)) return "nothing";
  std::string text = "[";
  for (int64_t i = 0; i < std::clamp<int64_t>(words[1], 0, Shape::max_rank); ++i)
    text += cat(i ? ", " : "", words[2 + i]);
  return cat(text, "] ", static_cast<DType>(words[0]));
}

}  // namespace

const char* name(Verb verb) {
  constexpr const char* names[verb_count] = {"all_to_all", "all_gather", "all_reduce", "exchange",
                                             "gather",     "broadcast",  "barrier",    "split"};
  return names[static_cast<size_t>(verb)];
}

Call::Agreed Call::agreed() const {
  Agreed words{};
  words[0] = static_cast<int64_t>(verb), words[1] = number, words[2] = root, words[3] = static_cast<int64_t>(ends);
  write(in.prev, &words[4]);
  write(in.next, &words[4 + words_per_tensor]);
  return words;
}

std::string text_of(const Call::Agreed& agreed) {
  if (agreed[0] < 0 || agreed[0] >= verb_count) return cat("verb ", agreed[0]);
  const Verb verb = static_cast<Verb>(agreed[0]);
  const std::string first = tensor_text(&agreed[4]), second = tensor_text(&agreed[4 + words_per_tensor]);
  switch (verb) {
    case Verb::barrier:
    case Verb::split:
      return name(verb);
    case Verb::exchange:
      return cat(name(verb), " of ", first, " to the previous and ", second, " to the next rank, ends ",
                 agreed[3] ? "joined" : "open");
    case Verb::gather:
      return cat(name(verb), " of ", first, " to rank ", agreed[2]);
    case Verb::broadcast:
      return cat(name(verb), " of ", first, " from rank ", agreed[2]);
    default:
      return cat(name(verb), " of ", first);
  }
}

std::string stall(const std::string& axis, const Call& call, const std::vector<int>& missing) {
  std::string who;
  for (const int rank : missing) who += cat(who.empty() ? "" : ", ", rank);
  return cat("axis ", axis, ": ", name(call.verb), " ", call.number, " of ", call.bytes,
             " bytes: ", missing.size() == 1 ? "rank " : "ranks ", who, missing.size() == 1 ? " is" : " are",
             " not there after ", std::chrono::duration<double>(call.limit).count(), " s (waits of class ",
             name(call.wait), ")");
}

std::string disagreement(const std::string& axis, int rank_a, const Call::Agreed& a, int rank_b,
                         const Call::Agreed& b) {
  const std::string text_a = text_of(a), text_b = text_of(b);
  const std::string number_a = a[1] == b[1] ? "" : cat(" as call ", a[1]);
  const std::string number_b =
      a[1] == b[1] ? cat(" (axis ", axis, ", call ", b[1], ")") : cat(" as call ", b[1], " (axis ", axis, ")");
  return cat("rank ", rank_a, " calls ", text_a, number_a, " but rank ", rank_b, " ", text_b, number_b);
}

}  // namespace zoetrope
