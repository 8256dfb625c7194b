#include "comm/comm.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

namespace zoetrope {
namespace {

// The result of a verb: what the caller passed, checked, or a new tensor.
Tensor result(Ctx& c, Verb verb, const Tensor& out, const Shape& shape, DType type) {
  if (!out.defined()) return c.empty(shape, type);
  require(out.shape() == shape && out.dtype() == type, name(verb), ": out is ", out.shape(), " ", out.dtype(), " but ",
          shape, " ", type, " is needed");
  return out;
}

Shape times(const Shape& shape, int64_t ranks) { return shape.with(0, shape[0] * ranks); }

bool overlap(const Tensor& a, const Tensor& b) {
  const auto *from_a = static_cast<const std::byte*>(a.raw()), *from_b = static_cast<const std::byte*>(b.raw());
  return a.defined() && b.defined() && a.bytes() > 0 && b.bytes() > 0 && from_a < from_b + b.bytes() &&
         from_b < from_a + a.bytes();
}

void check_input(Verb verb, const Tensor& x) {
  require(x.defined() && x.rank() > 0, name(verb), ": x is ", x.defined() ? "a scalar" : "undefined",
          ", a tensor of one axis or more is needed");
}

void check_root(Verb verb, int root, int size) {
  require(root >= 0 && root < size, name(verb), ": root ", root, " of ", size, " ranks");
}

}  // namespace

// Who was asked to stop first says nothing about why.
std::string Cause::words() const { return rank < 0 || code == Code::cancelled ? text : cat("rank ", rank, ": ", text); }

Cause current_cause(int rank) {
  try {
    throw;
  } catch (const Error& error) {
    return {rank, error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {rank, Code::out_of_memory,
            "host memory is exhausted; a smaller request, or more room for this process (ulimit -v), would do"};
  } catch (const std::filesystem::filesystem_error& error) {
    return {rank, Code::invalid, cat(error.path1().string(), ": ", error.code().message())};
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) return {rank, Code::device, error.what()};
    return {rank, Code::out_of_memory,
            "threads: the system gives no more; fewer ranks or --threads, or a higher limit (ulimit -u, -v), would do"};
  } catch (const std::exception& error) {
    return {rank, Code::device, error.what()};
  } catch (...) {
    return {rank, Code::device, "an exception of unknown type"};
  }
}

Comm::Comm(std::string axis, int rank, std::vector<int> members, Session& session)
    : axis_(std::move(axis)), rank_(rank), members_(std::move(members)), session_(&session) {
  require(rank_ >= 0 && rank_ < size(), "axis ", axis_, ": rank ", rank_, " of ", size());
}

void Comm::issue(Ctx& c, Call call) {
  call.number = ++issued_;
  call.wait = waits().now(), call.limit = waits().limit();
  Traffic& total = traffic_[static_cast<size_t>(call.verb)];
  ++total.calls, total.bytes += call.bytes;
  const Tensor& x = call.in.next.defined() ? call.in.next : call.in.prev;
  if (session_->log) session_->log->push_back({call.verb, axis_, call.bytes, x.shape()});
  c.run({name(call.verb), 0, call.bytes}, [this, stream = &c.stream(), call] { carry_out(*stream, call); });
}

Tensor Comm::all_to_all(Ctx& c, const Tensor& x, const Tensor& out) {
  check_input(Verb::all_to_all, x);
  if (size() == 1) return x;
  require(x.dim(0) % size() == 0, "all_to_all: ", x.dim(0), " rows of ", x.shape(), " do not divide by ", size(),
          " ranks");
  const Tensor y = result(c, Verb::all_to_all, out, x.shape(), x.dtype());
  require(!overlap(x, y), "all_to_all: x and out overlap");
  issue(c, {.verb = Verb::all_to_all, .in = {x, {}}, .out = {y, {}}, .bytes = x.bytes() / size() * (size() - 1)});
  return y;
}

Tensor Comm::all_gather(Ctx& c, const Tensor& x, const Tensor& out) {
  check_input(Verb::all_gather, x);
  if (size() == 1) return x;
  const Tensor y = result(c, Verb::all_gather, out, times(x.shape(), size()), x.dtype());
  require(!overlap(x, y) || x.raw() == y.rows(rank_ * x.dim(0), (rank_ + 1) * x.dim(0)).raw(),
          "all_gather: x overlaps out but is not this rank's part of it");
  issue(c, {.verb = Verb::all_gather, .in = {x, {}}, .out = {y, {}}, .bytes = x.bytes() * (size() - 1)});
  return y;
}

Tensor Comm::all_reduce(Ctx& c, const Tensor& x) {
  require(x.defined(), "all_reduce: x is undefined");
  require(x.dtype() == DType::f32, "all_reduce: x is ", x.dtype(), ", sums over ranks are fp32: cast it first");
  if (size() == 1) return x;
  // Rank r adds up elements [r n/P, (r+1) n/P) of all ranks, then sends its sums to the others.
  const int64_t n = x.size(), mine = n * (rank_ + 1) / size() - n * rank_ / size();
  issue(c, {.verb = Verb::all_reduce,
            .in = {x, {}},
            .out = {x, {}},
            .bytes = bytes_of(DType::f32) * (n - mine + mine * (size() - 1))});
  return x;
}

Sides Comm::exchange(Ctx& c, const Sides& send, Ends ends, const Sides& out) {
  if (size() == 1) return ends == Ends::joined ? Sides{send.next, send.prev} : Sides{};
  const bool has_prev = ends == Ends::joined || rank_ > 0, has_next = ends == Ends::joined || rank_ + 1 < size();
  Sides got;
  if (has_prev && send.next.defined())
    got.prev = result(c, Verb::exchange, out.prev, send.next.shape(), send.next.dtype());
  if (has_next && send.prev.defined())
    got.next = result(c, Verb::exchange, out.next, send.prev.shape(), send.prev.dtype());
  for (const Tensor& from : {send.prev, send.next})
    for (const Tensor& to : {got.prev, got.next}) require(!overlap(from, to), "exchange: what is sent overlaps out");
  require(!overlap(got.prev, got.next), "exchange: both parts of out overlap");
  const int64_t sent = (has_prev ? bytes(send.prev) : 0) + (has_next ? bytes(send.next) : 0);
  issue(c, {.verb = Verb::exchange,
            .ends = ends,
            .in = send,
            .out = got,
            .bytes = std::max(sent, bytes(got.prev, got.next))});
  return got;
}

Tensor Comm::gather(Ctx& c, const Tensor& x, int root, const Tensor& out) {
  check_input(Verb::gather, x);
  check_root(Verb::gather, root, size());
  if (size() == 1) return x;
  const bool mine = rank_ == root;
  const Tensor y = mine ? result(c, Verb::gather, out, times(x.shape(), size()), x.dtype()) : Tensor();
  require(!mine || !overlap(x, y), "gather: x and out overlap");
  issue(c, {.verb = Verb::gather,
            .root = root,
            .in = {x, {}},
            .out = {y, {}},
            .bytes = x.bytes() * (mine ? size() - 1 : 1)});
  return y;
}

void Comm::broadcast(Ctx& c, const Tensor& x, int root) {
  require(x.defined(), "broadcast: x is undefined");
  check_root(Verb::broadcast, root, size());
  if (size() == 1) return;
  issue(c, {.verb = Verb::broadcast,
            .root = root,
            .in = {x, {}},
            .out = {x, {}},
            .bytes = x.bytes() * (rank_ == root ? size() - 1 : 1)});
}

void Comm::barrier(Ctx& c) {
  if (size() > 1) issue(c, {.verb = Verb::barrier});
}

std::vector<int> Comm::world_ranks(const std::vector<int>& group) const {
  std::vector<int> world;
  for (const int rank : group) {
    require(rank >= 0 && rank < size(), "split: rank ", rank, " of ", size(), " on axis ", axis_);
    world.push_back(members_[static_cast<size_t>(rank)]);
  }
  require(std::ranges::adjacent_find(group, std::greater_equal<>()) == group.end(), "split: ranks must ascend");
  require(group.empty() || std::ranges::count(group, rank_) == 1, "split: rank ", rank_, " names a group without it");
  return world;
}

namespace {

class Solo final : public Comm {
 public:
  Solo(std::string axis, int world_rank, Session& session) : Comm(std::move(axis), 0, {world_rank}, session) {}

  std::unique_ptr<Comm> split(const std::string& axis, const std::vector<int>& group) override {
    const std::vector<int> world = world_ranks(group);
    return world.empty() ? nullptr : solo(axis, world[0], session());
  }
  void abort(const Cause&) noexcept override {}
  bool capturable() const override { return true; }

 private:
  void carry_out(Stream&, const Call&) override {}
};

}  // namespace

std::unique_ptr<Comm> solo(std::string axis, int world_rank, Session& session) {
  return std::make_unique<Solo>(std::move(axis), world_rank, session);
}

}  // namespace zoetrope
