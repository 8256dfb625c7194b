#include "comm/message.h"

#include <cstring>
#include <utility>

namespace zoetrope {
namespace {

std::byte* at(const Tensor& x, int64_t byte) { return static_cast<std::byte*>(x.raw()) + byte; }

void keep(void* to, const void* from, int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

std::pair<int64_t, int64_t> share(int64_t n, int rank, int ranks) { return {n * rank / ranks, n * (rank + 1) / ranks}; }

}  // namespace

void MessageComm::carry_out(Stream& stream, const Call& call) {
  if (!stream.on_host())
    fail(Code::unsupported, name(call.verb), " on axis ", axis(), ": messages between processes carry host memory, ",
         "and these tensors lie on a GPU; ranks of several processes run with --device cpu");
  struct Release {
    std::atomic_flag& flag;
    ~Release() { flag.clear(); }
  };
  if (busy_.test_and_set()) {
    const Cause cause{world_rank(), Code::comm,
                      cat(name(call.verb), " ", call.number, " on axis ", axis(),
                          " began while another call was not done: two streams share a communicator without waiting "
                          "for each other")};
    abort(cause);
    throw Error(Code::comm, cause.words());
  }
  const Release release{busy_};
  agree(call);
  if (call.verb == Verb::all_reduce)
    reduce(call);
  else
    move(call);
}

void MessageComm::agree(const Call& call) {
  std::vector<Call::Agreed> all(static_cast<size_t>(size()));
  const Call::Agreed mine = all[static_cast<size_t>(rank())] = call.agreed();
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (int p = 0; p < size(); ++p) {
    if (p == rank()) continue;
    out.push_back({p, mine.data(), sizeof mine});
    in.push_back({p, all[static_cast<size_t>(p)].data(), sizeof mine});
  }
  transfer(out, in, call);
  for (int p = 1; p < size(); ++p) {
    const Call::Agreed& other = all[static_cast<size_t>(p)];
    if (other == all[0]) continue;
    const Cause cause{-1, Code::comm,
                      disagreement(axis(), members()[static_cast<size_t>(p)], other, members()[0], all[0])};
    abort(cause);
    throw Error(Code::comm, cause.words());
  }
}

void MessageComm::move(const Call& call) {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  const Tensor &x = call.in.prev, &y = call.out.prev;
  const int64_t bytes = x.defined() ? x.bytes() : 0, part = bytes / size();
  const auto each_peer = [&](auto&& work) {
    for (int i = 1; i < size(); ++i) work((rank() + i) % size());
  };
  switch (call.verb) {
    case Verb::all_to_all:
      each_peer([&](int p) { out.push_back({p, at(x, p * part), part}), in.push_back({p, at(y, p * part), part}); });
      keep(at(y, rank() * part), at(x, rank() * part), part);
      break;
    case Verb::all_gather:
      each_peer([&](int p) { out.push_back({p, x.raw(), bytes}), in.push_back({p, at(y, p * bytes), bytes}); });
      keep(at(y, rank() * bytes), x.raw(), bytes);
      break;
    case Verb::gather:
      if (rank() != call.root) {
        out.push_back({call.root, x.raw(), bytes});
        break;
      }
      each_peer([&](int p) { in.push_back({p, at(y, p * bytes), bytes}); });
      keep(at(y, rank() * bytes), x.raw(), bytes);
      break;
    case Verb::broadcast:
      if (rank() == call.root)
        each_peer([&](int p) { out.push_back({p, x.raw(), bytes}); });
      else
        in.push_back({call.root, x.raw(), bytes});
      break;
    case Verb::exchange: {
      const bool has_prev = call.ends == Ends::joined || rank() > 0;
      const bool has_next = call.ends == Ends::joined || rank() + 1 < size();
      const int prev = (rank() + size() - 1) % size(), next = (rank() + 1) % size();
      // Of two ranks in a ring each is both neighbours of the other: what goes to "prev" arrives first, as "next".
      if (has_prev && call.in.prev.defined()) out.push_back({prev, call.in.prev.raw(), call.in.prev.bytes()});
      if (has_next && call.in.next.defined()) out.push_back({next, call.in.next.raw(), call.in.next.bytes()});
      if (call.out.next.defined()) in.push_back({next, call.out.next.raw(), call.out.next.bytes()});
      if (call.out.prev.defined()) in.push_back({prev, call.out.prev.raw(), call.out.prev.bytes()});
      break;
    }
    case Verb::all_reduce:
    case Verb::barrier:
    case Verb::split:
      break;
  }
  if (!out.empty() || !in.empty()) transfer(out, in, call);
}

// Each rank adds up its share of all, in rank order, and sends the sums to everybody.
void MessageComm::reduce(const Call& call) {
  float* x = call.in.prev.data<float>();
  const int64_t n = call.in.prev.size();
  const auto [begin, end] = share(n, rank(), size());
  const int64_t mine = end - begin, mine_bytes = mine * bytes_of(DType::f32);
  std::vector<float> terms(static_cast<size_t>(mine * size()));
  std::vector<Outgoing> out, sums;
  std::vector<Incoming> in, others;
  for (int i = 1; i < size(); ++i) {
    const int p = (rank() + i) % size();
    const auto [from, to] = share(n, p, size());
    const int64_t theirs = (to - from) * bytes_of(DType::f32);
    out.push_back({p, x + from, theirs}), in.push_back({p, terms.data() + p * mine, mine_bytes});
    sums.push_back({p, x + begin, mine_bytes}), others.push_back({p, x + from, theirs});
  }
  transfer(out, in, call);
  keep(terms.data() + rank() * mine, x + begin, mine_bytes);
  for (int64_t i = 0; i < mine; ++i) {
    float total = terms[static_cast<size_t>(i)];
    for (int p = 1; p < size(); ++p) total += terms[static_cast<size_t>(p * mine + i)];
    x[begin + i] = total;
  }
  transfer(sums, others, call);
}

}  // namespace zoetrope
