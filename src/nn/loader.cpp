#include "nn/loader.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/rounding.h"

namespace zoetrope::nn {
namespace {

// "transformer_2.blocks.0" holds the parts "transformer_2", "blocks", "0".
bool has_part(std::string_view key, std::string_view part) {
  for (size_t from = 0; from <= key.size();) {
    const size_t dot = std::min(key.find('.', from), key.size());
    if (key.substr(from, dot - from) == part) return true;
    from = dot + 1;
  }
  return false;
}

// "2 missing (a, b)"
std::string counted(const char* what, const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return cat(names.size(), ' ', what, " (", list, ')');
}

// from[o][i][k] -> to[o][k][i], where `to` has room for more i; what is not written stays.
template <class T>
void channels_last(const T* from, T* to, int64_t out, int64_t in, int64_t kernel, int64_t in_padded) {
  for (int64_t o = 0; o < out; ++o)
    for (int64_t i = 0; i < in; ++i)
      for (int64_t k = 0; k < kernel; ++k) to[(o * kernel + k) * in_padded + i] = from[(o * in + i) * kernel + k];
}

constexpr int most_readers = 16;  // of files at the same time: more gain nothing (docs/performance.md)

}  // namespace

Loader::Loader(Ctx& c, std::string component, Parameters& source, DType compute, std::vector<std::string> keep_fp32)
    : c_(c), component_(std::move(component)), source_(source), compute_(compute), keep_fp32_(std::move(keep_fp32)) {
  require(compute == DType::f32 || compute == DType::bf16, component_, ": weights as ", compute,
          " are not built; fp32 and bf16 are");
}

DType Loader::type_of(const std::string& key) const {
  const auto keeps = [&](const std::string& part) { return has_part(key, part); };
  return std::ranges::any_of(keep_fp32_, keeps) ? DType::f32 : compute_;
}

bool Loader::Item::padded() const {
  int64_t read = 0;
  for (const Part& part : parts) read += part.slice.of(part.shape).size();
  return values.empty() && read < shape.size();
}

void Loader::tensor(Tensor& into, const std::string& key, const Shape& shape, const Shape& as) {
  expect(key, shape);
  items_.push_back({&into, as, type_of(key), {{{key}, shape, {}}}});
}

void Loader::part(Tensor& into, const std::string& key, const Shape& shape, const Slice& part) {
  stacked(into, {{key, shape}}, part);
}

void Loader::stacked(Tensor& into, const std::vector<Entry>& tensors, const Slice& part) {
  const Entry& first = tensors.front();
  Item item{&into, {}, type_of(first.key), {}};
  int64_t rows = 0, at = 0;
  for (const Entry& tensor : tensors) {
    expect(tensor.key, tensor.shape);
    item.parts.push_back({{tensor.key}, tensor.shape, part, at});
    rows += part.of(tensor.shape)[0], at += part.of(tensor.shape).size();
  }
  item.shape = part.of(first.shape).with(0, rows);
  item.cut = part != Slice{};
  if (item.cut) parts_ += cat(first.key, ' ', part.axis, ':', part.from, '-', part.to, ' ');
  items_.push_back(std::move(item));
}

void Loader::permuted(Tensor& into, const std::string& key, const Shape& shape, const Shape& as, int64_t in_padded) {
  expect(key, shape);
  const int64_t kernel = shape.size() / std::max<int64_t>(shape[0] * shape[1], 1);
  items_.push_back({&into, as, type_of(key), {{{key}, shape, {}}}, ChannelsLast{shape[1], kernel, in_padded}});
}

void Loader::conv(Tensor& weight, Tensor& bias, const std::string& prefix, const Shape& shape) {
  const int64_t multiple = c_.traits().channel_multiple;
  const int64_t out = round_up(shape[0], multiple), in = round_up(shape[1], multiple);
  const int64_t frames = shape.rank() == 5 ? shape[2] : 1;
  permuted(weight, prefix + ".weight", shape, {out, frames, shape[-2], shape[-1], in}, in);
  tensor(bias, prefix + ".bias", {shape[0]}, {out});
}

void Loader::patch(Tensor& into, const std::string& key, const Shape& shape) {
  permuted(into, key, shape, {shape[0], shape.size() / shape[0]}, shape[1]);
}

void Loader::host(std::vector<float>& into, const std::string& key, const Shape& shape, const Slice& part) {
  expect(key, shape);
  into.assign(static_cast<size_t>(part.of(shape).size()), 0.0f);
  host_.push_back([=, this, &into] { read(key, shape, part, {into.data(), part.of(shape), DType::f32}); });
}

void Loader::constant(Tensor& into, const Shape& shape, std::vector<float> values) {
  items_.push_back({&into, shape, DType::f32, {}, {}, std::move(values)});
}

// ---- embedding tables -------------------------------------------------------------------------------------------

std::vector<std::string> Loader::present(const std::vector<std::string>& keys) const {
  std::vector<std::string> found;
  for (const std::string& key : keys)
    if (source_.listing() && source_.listing()->contains(key)) found.push_back(key);
  if (found.empty()) found.push_back(keys[0]);
  return found;
}

void Loader::embedding(Tensor& into, const std::vector<std::string>& keys, int64_t rows, int64_t width) {
  const std::vector<std::string> found = present(keys);
  if (const Listing* listing = source_.listing(); listing && listing->contains(found[0]))
    if (const Shape& stored = listing->at(found[0]); stored.rank() == 2) rows = stored[0];
  const Shape shape{rows, width};
  expect(found[0], shape);
  for (size_t i = 1; i < found.size(); ++i) known({found[i], shape});
  tables_.push_back(found);
  items_.push_back({&into, shape, type_of(found[0]), {{found, shape, {}}}});
}

// The first of the names that holds numbers.
std::string Loader::filled(const std::vector<std::string>& keys) const {
  const auto found = std::ranges::find_if(keys, [&](const auto& key) { return !source_.only_zeros(key); });
  if (found != keys.end()) return *found;
  std::vector<std::string> tried;
  for (const std::string& key : keys) tried.push_back(placed(key));
  fail(Code::invalid, component_, ": the embedding table holds only zeros (", counted("tried", tried),
       "); the file was saved without it, download it again");
}

// ---- check, then read -------------------------------------------------------------------------------------------

bool Loader::ignored(const std::string& key) const {
  return std::ranges::any_of(ignored_, [&](const std::string& part) { return has_part(key, part); });
}

// "blocks.0.norm.weight", or "blocks.0.norm.weight in model-00002-of-00003.safetensors" of a checkpoint in shards.
std::string Loader::placed(const std::string& key) const {
  const std::string shard = source_.shard_of(key);
  return shard.empty() ? key : cat(key, " in ", shard);
}

void Loader::check() const {
  const Listing* listing = source_.listing();
  if (!listing) return;
  std::vector<std::string> missing, unknown, misshapen;
  Listing expected;
  const auto compare = [&](const Entry& entry, bool needed) {
    expected.emplace(entry.key, entry.shape);
    const auto found = listing->find(entry.key);
    if (found == listing->end()) {
      if (needed) missing.push_back(entry.key);
    } else if (found->second != entry.shape) {
      misshapen.push_back(cat(placed(entry.key), " is ", found->second, ", should be ", entry.shape));
    }
  };
  for (const Entry& entry : used_) compare(entry, true);
  for (const Entry& entry : known_) compare(entry, false);
  for (const auto& [key, shape] : *listing)
    if (!expected.contains(key) && !ignored(key)) unknown.push_back(placed(key));

  std::string faults;
  for (const auto& [what, names] :
       {std::pair{"missing", &missing}, {"unknown", &unknown}, {"of another shape", &misshapen}})
    if (!names->empty()) faults += (faults.empty() ? "" : ", ") + counted(what, *names);
  require(faults.empty(), component_, ": ", faults);
  for (const auto& names : tables_) filled(names);
}

// ---- reading into host memory -----------------------------------------------------------------------------------

// Large ones (an embedding table holds gigabytes) come in blocks of rows.
void Loader::read(const std::string& key, const Shape& shape, const Slice& part, const Tensor& to) {
  constexpr int64_t block_bytes = 64 << 20;
  if (to.size() == 0) return;
  if (part.axis != 0 || to.bytes() <= block_bytes) return source_.read(key, shape, part, to);
  const Tensor table = to.view(part.of(shape));
  const int64_t rows = std::max<int64_t>(1, block_bytes * table.dim(0) / table.bytes());
  for (int64_t from = 0; from < table.dim(0); from += rows) {
    c_.check_stop();
    const int64_t end = std::min(table.dim(0), from + rows);
    source_.read(key, shape, {0, part.from + from, part.from + end}, table.rows(from, end));
  }
}

// check() has looked into the tables: one name alone is no question.
std::string Loader::key_of(const Part& part) const { return part.keys.size() == 1 ? part.keys[0] : filled(part.keys); }

void Loader::read(const Item& item, const Part& part, const Tensor& to) {
  const std::string key = key_of(part);
  if (!item.channels_last) {
    const Shape shape = part.slice.of(part.shape);
    return read(key, part.shape, part.slice, elements(to, part.at, shape));
  }
  const auto [in, kernel, in_padded] = *item.channels_last;
  std::vector<std::byte> stored(static_cast<size_t>(part.shape.size() * bytes_of(to.dtype())));
  const Tensor from(stored.data(), part.shape, to.dtype());
  source_.read(key, part.shape, {}, from);
  if (to.dtype() == DType::bf16)
    channels_last(from.data<bf16>(), to.data<bf16>(), part.shape[0], in, kernel, in_padded);
  else
    channels_last(from.data<float>(), to.data<float>(), part.shape[0], in, kernel, in_padded);
}

void Loader::read(const Item& item, const Tensor& to) {
  if (item.parts.empty()) return static_cast<void>(std::ranges::copy(item.values, to.data<float>()));
  if (item.padded()) std::memset(to.raw(), 0, static_cast<size_t>(to.bytes()));
  for (const Part& part : item.parts) read(item, part, to);
}

// ---- into place -------------------------------------------------------------------------------------------------

// Reads straight into place where the host can write there, else by way of a host copy.
void Loader::place(const Item& item, const Tensor& weight) {
  if (c_.traits().device == DeviceKind::cpu) return read(item, weight);
  std::vector<std::byte> staged(static_cast<size_t>(weight.bytes()));
  read(item, {staged.data(), weight.shape(), weight.dtype()});
  c_.upload(staged.data(), weight);
}

// false: the device cannot fetch it.
bool Loader::add_pieces(const Item& item, const Tensor& weight, std::vector<Piece>& pieces) {
  std::vector<Piece> its;
  const ChannelsLast* last = item.channels_last ? &*item.channels_last : nullptr;
  for (const Part& part : item.parts) {
    const Tensor to = elements(weight, part.at, {weight.size() - part.at});
    if (!nn::add_pieces(source_, {key_of(part), part.shape, part.slice, last, to}, its)) return false;
  }
  if (its.empty()) return false;
  if (item.padded()) its.front().clear = weight;
  std::ranges::move(its, std::back_inserter(pieces));
  return true;
}

void Loader::fill(const Places& places, const Event& after) {
  Rank& rank = c_.rank();
  std::vector<Piece> pieces;
  for (const auto& [item, weight] : places) {
    if (rank.make_intake && add_pieces(*item, weight, pieces)) continue;
    c_.check_stop();
    place(*item, weight);
  }
  if (pieces.empty()) return;
  if (!rank.intake) rank.intake = rank.make_intake({std::clamp(rank.pool->threads(), 1, most_readers)});
  rank.intake->run(pieces, after.stream ? after : c_.stream().record(), rank.stop);
}

void Loader::fill(size_t from, size_t to, const Event& after) {
  if (c_.dry()) return;
  Places places;
  for (size_t i = from; i < to; ++i) places.emplace_back(&items_[i], *items_[i].into);
  fill(places, after);
}

void Loader::take(Region& region) {
  for (const Item& item : items_) *item.into = c_.empty(item.shape, item.type, region);
}

// Whole tensors, or those that are parts. Ranks that share a device share the former, and the latter where they hold
// the same parts.
void Loader::load(bool cut) {
  std::vector<const Item*> items;
  for (const Item& item : items_)
    if (item.cut == cut) items.push_back(&item);
  if (items.empty()) return;
  const auto load = [&](Region& region) {
    std::vector<Tensor> tensors;
    Places places;
    size_t all = 0;
    for (const Item* item : items)
      all += static_cast<size_t>(round_up(item->shape.size() * bytes_of(item->type), int64_t{Region::alignment}));
    region.reserve(all);
    for (const Item* item : items) {
      tensors.push_back(c_.empty(item->shape, item->type, region));
      places.emplace_back(item, tensors.back());
    }
    if (!c_.dry()) fill(places, {});
    return tensors;
  };
  const auto tensors = c_.load_weights(component_, cut ? cat(std::hash<std::string>()(parts_)) : "", load);
  for (size_t i = 0; i < items.size(); ++i) {
    assert(tensors[i].shape() == items[i]->shape);
    *items[i]->into = tensors[i];
  }
}

void Loader::load() {
  check();
  load(false);
  load(true);
  if (c_.dry()) return;
  for (const auto& read : host_) read();
}

}  // namespace zoetrope::nn
