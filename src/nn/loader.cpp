#include "nn/loader.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace zoetrope::nn {
namespace {

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

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

void Loader::later(Tensor& into, const Shape& shape, DType type, Fill fill, bool cut) {
  items_.push_back({&into, shape, type, std::move(fill), cut});
}

void Loader::tensor(Tensor& into, const std::string& key, const Shape& shape, const Shape& as) {
  expect(key, shape);
  later(into, as, type_of(key), [=, this](const Tensor& to) { read(key, shape, {}, to); });
}

void Loader::part(Tensor& into, const std::string& key, const Shape& shape, const Slice& part) {
  stacked(into, {{key, shape}}, part);
}

void Loader::stacked(Tensor& into, const std::vector<Entry>& tensors, const Slice& part) {
  int64_t rows = 0;
  for (const Entry& tensor : tensors) expect(tensor.key, tensor.shape), rows += part.of(tensor.shape)[0];
  const Entry& first = tensors.front();
  const bool cut = part != Slice{};
  if (cut) parts_ += cat(first.key, ' ', part.axis, ':', part.from, '-', part.to, ' ');
  later(
      into, part.of(first.shape).with(0, rows), type_of(first.key),
      [=, this](const Tensor& to) {
        int64_t from = 0;
        for (const Entry& tensor : tensors) {
          const int64_t end = from + part.of(tensor.shape)[0];
          read(tensor.key, tensor.shape, part, to.rows(from, end));
          from = end;
        }
      },
      cut);
}

void Loader::permuted(Tensor& into, const std::string& key, const Shape& shape, const Shape& as, int64_t in_padded) {
  expect(key, shape);
  later(into, as, type_of(key), [=, this](const Tensor& to) {
    const int64_t out = shape[0], in = shape[1], kernel = shape.size() / std::max<int64_t>(out * in, 1);
    std::vector<std::byte> stored(static_cast<size_t>(shape.size() * bytes_of(to.dtype())));
    const Tensor from(stored.data(), shape, to.dtype());
    source_.read(key, shape, {}, from);
    std::memset(to.raw(), 0, static_cast<size_t>(to.bytes()));
    if (to.dtype() == DType::bf16)
      channels_last(from.data<bf16>(), to.data<bf16>(), out, in, kernel, in_padded);
    else
      channels_last(from.data<float>(), to.data<float>(), out, in, kernel, in_padded);
  });
}

void Loader::conv(Tensor& weight, Tensor& bias, const std::string& prefix, const Shape& shape) {
  const int64_t multiple = c_.traits().channel_multiple;
  const int64_t out = round_up(shape[0], multiple), in = round_up(shape[1], multiple);
  const int64_t frames = shape.rank() == 5 ? shape[2] : 1;
  permuted(weight, prefix + ".weight", shape, {out, frames, shape[-2], shape[-1], in}, in);
  expect(prefix + ".bias", {shape[0]});
  later(bias, {out}, type_of(prefix + ".bias"), [=, this](const Tensor& to) {
    std::memset(to.raw(), 0, static_cast<size_t>(to.bytes()));
    source_.read(prefix + ".bias", {shape[0]}, {}, to.rows(0, shape[0]));
  });
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
  later(into, shape, DType::f32,
        [values = std::move(values)](const Tensor& to) { std::copy(values.begin(), values.end(), to.data<float>()); });
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
  later(into, shape, type_of(found[0]), [=, this](const Tensor& to) { read(filled(found), shape, {}, to); });
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

// Reads straight into place where the host can write there, else by way of a host copy.
void Loader::place(const Tensor& weight, const Fill& fill) {
  if (c_.traits().device == DeviceKind::cpu) return fill(weight);
  std::vector<std::byte> staged(static_cast<size_t>(weight.bytes()));
  fill({staged.data(), weight.shape(), weight.dtype()});
  c_.upload(staged.data(), weight);
}

// Whole tensors, or those that are parts. Ranks that share a device share the former, and the latter where they hold
// the same parts.
void Loader::load(bool cut) {
  std::vector<const Item*> items;
  for (const Item& item : items_)
    if (item.cut == cut) items.push_back(&item);
  if (items.empty()) return;
  const auto fill = [&](Region& region) {
    std::vector<Tensor> tensors;
    for (const Item* item : items) tensors.push_back(c_.empty(item->shape, item->type, region));
    for (size_t i = 0; i < items.size() && !c_.dry(); ++i) {
      c_.check_stop();
      place(tensors[i], items[i]->fill);
    }
    return tensors;
  };
  const auto tensors = c_.load_weights(component_, cut ? cat(std::hash<std::string>()(parts_)) : "", fill);
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
