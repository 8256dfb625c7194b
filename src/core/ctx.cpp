#include "core/ctx.h"

#include <exception>
#include <utility>

#include "base/error.h"

namespace zoetrope {
namespace {

// Addresses are reserved, not used. ThreadSanitizer leaves a program few of them.
#if defined(__SANITIZE_THREAD__)
constexpr size_t region_addresses = size_t{1} << 34;
#else
constexpr size_t region_addresses = size_t{1} << 39;  // 8 rank threads of 13 regions fit a 47-bit address space
#endif

constexpr size_t dry_addresses = size_t{1} << 46;  // nobody's; counting needs no system

size_t addresses(const Rank& rank) { return rank.backend ? region_addresses : dry_addresses; }

std::unique_ptr<Region> make_region(const Rank& rank, std::string name) {
  return std::make_unique<Region>(std::move(name), rank.make_pages(addresses(rank)), rank.memory_limit);
}

}  // namespace

double flops_of(const OpCounts& counts) {
  double total = 0;
  for (const auto& [name, count] : counts) total += count.flops;
  return total;
}

OpCounts difference(const OpCounts& after, const OpCounts& before) {
  OpCounts more = after;
  for (auto& [name, count] : more)
    if (const auto old = before.find(name); old != before.end())
      count.calls -= old->second.calls, count.flops -= old->second.flops, count.bytes -= old->second.bytes;
  std::erase_if(more, [](const auto& row) { return row.second.calls == 0; });
  return more;
}

const char* name(DeviceKind kind) { return kind == DeviceKind::cpu ? "cpu" : "cuda"; }

Ctx::Ctx(Rank& rank) : rank_(rank), stream_(rank.main.get()) {
  require(rank.pool != nullptr, "context: a rank needs a thread pool");
  if (!rank.backend)
    rank.make_pages = [grain = rank.traits.page_grain](size_t reserve) { return dry_pages(reserve, grain); };
  if (!rank.request) rank.request = make_region(rank, "request");
  if (!rank.scratch) rank.scratch = make_region(rank, "scratch");
  if (!rank.exchange) rank.exchange = make_region(rank, "exchange");
}

Region& Ctx::weights(const std::string& component) const {
  auto& region = rank_.weights[component][""];
  if (!region) region = make_region(rank_, "weights of " + component);
  return *region;
}

std::vector<Tensor> Ctx::load_weights(const std::string& component, const std::string& slice,
                                      const SharedWeights::Load& load) const {
  if (!rank_.shared) return load(weights(component));
  const auto make = [&] { return make_region(rank_, "weights of " + component); };
  const SharedWeights::Slice got = rank_.shared->get(component, slice, make, load);
  rank_.weights[component][slice] = got.region;
  return got.tensors;
}

void Ctx::drop_weights(const std::string& component) const {
  if (rank_.weights.contains(component) && rank_.segments) rank_.segments->clear();
  rank_.weights.erase(component);
}

void Ctx::rename_weights(const std::string& from, const std::string& to) const {
  if (rank_.shared) rank_.shared->rename(from, to);
  auto slices = rank_.weights.extract(from);
  slices.key() = to;
  rank_.weights.insert(std::move(slices));
}

Tensor Ctx::empty(const Shape& shape, DType type, Region& region) const {
  return {region.take(static_cast<size_t>(shape.size() * bytes_of(type))), shape, type};
}

void Ctx::count(const OpInfo& info, double seconds) const {
  OpCount& total = rank_.counts[info.name];
  ++total.calls, total.flops += info.flops, total.bytes += info.bytes, total.seconds += seconds;
}

void Ctx::upload(const void* from, const Tensor& to) {
  if (dry() || to.bytes() == 0) return;
  stream_->upload(from, to.raw(), static_cast<size_t>(to.bytes()));
}

void Ctx::download(const Tensor& from, void* to) {
  if (dry() || from.bytes() == 0) return;
  stream_->download(from.raw(), to, static_cast<size_t>(from.bytes()));
}

void Ctx::segment(std::string_view key, const std::function<void()>& body) {
  if (rank_.segments)
    rank_.segments->run(*this, key, body);
  else
    body();
}

namespace {

Stream& side_stream(Rank& rank) {
  require(rank.open_forks == 0, "fork: a side stream is already open; join it first");
  if (!rank.backend) return *rank.main;
  if (!rank.side) rank.side = rank.make_side();
  return *rank.side;
}

}  // namespace

Fork::Fork(Ctx& parent)
    : parent_(parent),
      side_(parent.rank_, side_stream(parent.rank_)),
      scratch_mark_(parent.scratch().used()),
      exceptions_(std::uncaught_exceptions()) {
  ++parent_.rank_.open_forks;
  after_parent();
}

void Fork::after_parent() { side_.stream().wait(parent_.stream().record()); }

void Fork::before_parent() { parent_.stream().wait(side_.stream().record()); }

Fork::~Fork() noexcept(false) {
  --parent_.rank_.open_forks;
  assert(parent_.scratch().used() >= scratch_mark_ && "a fork outlived the scope it was made in");
  try {
    before_parent();
    if (!side_.stream().immediate()) side_.stream().sync();  // CUDA: errors surface at the next check
  } catch (...) {
    if (std::uncaught_exceptions() == exceptions_) throw;
  }
}

}  // namespace zoetrope
