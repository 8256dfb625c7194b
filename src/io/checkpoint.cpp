#include "io/checkpoint.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "io/convert.h"
#include "io/weight_files.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

constexpr size_t block_bytes = 256u << 10;  // read, converted and looked at in one go: stays in a core's cache

using WeightMap = std::map<std::string, std::set<std::string>>;  // file -> names that the index gives it

WeightMap read_index(const fs::path& index) {
  const Json json = read_json(index);
  const std::string where = index.string();
  require(json.is_object() && json.contains("weight_map") && json["weight_map"].is_object(), where,
          ": no \"weight_map\" here");
  WeightMap files;
  for (const auto& [name, file] : json["weight_map"].items()) {
    require(file.is_string(), where, ": the file of tensor \"", name, "\" is not text");
    const std::string text = file.get<std::string>();
    require(!text.empty() && text != "." && text != ".." && text.find('/') == std::string::npos &&
                text.find('\0') == std::string::npos,
            where, ": \"", text, "\" is not the name of a file in this folder");
    files[text].insert(name);
  }
  require(!files.empty(), where, ": the weight_map is empty");
  return files;
}

// Why `file` cannot be used as it stands; empty if it can.
std::string trouble_with(const fs::path& file) {
  const fs::path partial = partial_download(file);
  const std::string name = file.filename().string();
  if (!partial.empty()) return cat(name, " (partial download ", partial.filename().string(), ")");
  if (fs::exists(file)) return {};
  return fs::is_symlink(file) ? cat(name, " (a link to ", fs::read_symlink(file).string(), ", which is not there)")
                              : name;
}

void check_names(const std::string& index, const SafetensorsFile& shard, const std::set<std::string>& named) {
  std::vector<std::string> absent, surplus;
  for (const std::string& name : named)
    if (!shard.find(name)) absent.push_back(name);
  for (const TensorEntry& entry : shard.entries())
    if (!named.contains(entry.name)) surplus.push_back(entry.name);
  require(absent.empty(), shard.path().string(), ": lacks tensors that ", index, " places in it: ", some_of(absent));
  require(surplus.empty(), shard.path().string(), ": holds tensors that ", index,
          " does not place in it: ", some_of(surplus));
}

}  // namespace

Checkpoint::Checkpoint(const fs::path& folder, std::string_view variant) : path_(folder) {
  if (fs::is_regular_file(folder)) {
    open_single(folder);
  } else {
    const WeightFiles files = find_weights(folder, variant);
    if (files.index.empty())
      open_single(files.single);
    else
      open_index(files.index);
  }
  add_entries();
}

void Checkpoint::open_single(const fs::path& file) {
  const std::string trouble = trouble_with(file);
  require(trouble.empty(), path_.string(), ": not complete: ", trouble, "; finish the download");
  shards_.emplace_back(file);
}

void Checkpoint::open_index(const fs::path& index) {
  const WeightMap files = read_index(index);
  std::vector<std::string> missing;
  for (const auto& [file, names] : files)
    if (const std::string trouble = trouble_with(path_ / file); !trouble.empty()) missing.push_back(trouble);
  require(missing.empty(), index.string(), ": ", missing.size(), " of ", files.size(),
          " shards are missing: ", some_of(missing), "; finish the download");
  shards_.reserve(files.size());
  for (const auto& [file, names] : files) {
    shards_.emplace_back(path_ / file);
    check_names(index.filename().string(), shards_.back(), names);
  }
}

void Checkpoint::add_entries() {
  for (size_t i = 0; i < shards_.size(); ++i)
    for (const TensorEntry& entry : shards_[i].entries())
      entries_.emplace(entry.name, CheckpointEntry{entry.shape, entry.dtype, i});
}

const CheckpointEntry& Checkpoint::at(const std::string& name) const {
  const auto found = entries_.find(name);
  require(found != entries_.end(), path_.string(), ": no tensor \"", name, "\" here");
  return found->second;
}

std::vector<fs::path> Checkpoint::files() const {
  std::vector<fs::path> paths;
  for (const SafetensorsFile& shard : shards_) paths.push_back(shard.path());
  return paths;
}

void Checkpoint::check_type(const std::string& name, DType to) const {
  const CheckpointEntry& entry = at(name);
  const std::string& file = shards_[entry.shard].path().string();
  if (entry.dtype == DType::f8_e4m3 || entry.dtype == DType::f8_e5m2)
    fail(Code::unsupported, file, ": tensor \"", name, "\" is ", safetensors_name(entry.dtype),
         ": quantized weights need their scales applied, which is not built; use the fp16, bf16 or fp32 files");
  if (!converts(entry.dtype, to))
    fail(Code::unsupported, file, ": tensor \"", name, "\" is ", safetensors_name(entry.dtype), " and cannot become ",
         to);
}

void Checkpoint::check(const std::string& name, const Tensor& to, int64_t elements) const {
  check_type(name, to.dtype());
  const CheckpointEntry& entry = at(name);
  const std::string& file = shards_[entry.shard].path().string();
  require(to.size() == elements, file, ": tensor \"", name, "\" is ", entry.shape, ", ", elements,
          " elements are asked for, but the destination is ", to.shape());
}

namespace {

[[noreturn]] void not_finite(const SafetensorsFile& shard, const TensorEntry& entry, DType as) {
  fail(Code::invalid, shard.path().string(), ": tensor \"", entry.name, "\" holds values that are not finite",
       entry.dtype == as ? "" : cat(" as ", as), "; the file is damaged, download it again");
}

void check_finite(const SafetensorsFile& shard, const TensorEntry& entry, const void* values, DType type,
                  size_t count) {
  if (!all_finite(values, type, count)) not_finite(shard, entry, type);
}

// `count` elements of an entry from element `from` on.
void copy(const SafetensorsFile& shard, const TensorEntry& entry, size_t from, size_t count, const Tensor& to) {
  const size_t size = static_cast<size_t>(bytes_of(entry.dtype)), step = block_bytes / size;
  const bool as_stored = entry.dtype == to.dtype();
  std::vector<std::byte> block(as_stored ? 0 : std::min(step, count) * size);
  auto* out = static_cast<std::byte*>(to.raw());
  for (size_t done = 0; done < count; done += step) {
    const size_t n = std::min(step, count - done);
    std::byte* here = out + done * static_cast<size_t>(bytes_of(to.dtype()));
    const std::span<std::byte> stored(as_stored ? here : block.data(), n * size);
    shard.read(entry, (from + done) * size, stored);
    if (!as_stored) convert(stored.data(), entry.dtype, here, to.dtype(), n);
    check_finite(shard, entry, here, to.dtype(), n);
  }
}

}  // namespace

void Checkpoint::read(const std::string& name, const Tensor& to) const {
  check(name, to, at(name).shape.size());
  const SafetensorsFile& shard = shards_[at(name).shard];
  copy(shard, *shard.find(name), 0, static_cast<size_t>(to.size()), to);
}

void Checkpoint::read_rows(const std::string& name, int64_t from, int64_t to, const Tensor& out) const {
  const Shape& shape = at(name).shape;
  require(shape.rank() >= 1 && 0 <= from && from <= to && to <= shape[0], file_of(name).string(), ": tensor \"", name,
          "\" is ", shape, ", it has no rows ", from, " to ", to);
  const int64_t row = shape.with(0, 1).size();
  check(name, out, (to - from) * row);
  const SafetensorsFile& shard = shards_[at(name).shard];
  copy(shard, *shard.find(name), static_cast<size_t>(from * row), static_cast<size_t>(out.size()), out);
}

void Checkpoint::read_columns(const std::string& name, int64_t from, int64_t to, const Tensor& out) const {
  const Shape& shape = at(name).shape;
  require(shape.rank() == 2 && 0 <= from && from <= to && to <= shape[1], file_of(name).string(), ": tensor \"", name,
          "\" is ", shape, ", it has no columns ", from, " to ", to);
  check(name, out, shape[0] * (to - from));
  const SafetensorsFile& shard = shards_[at(name).shard];
  const TensorEntry& entry = *shard.find(name);
  const size_t rows = static_cast<size_t>(shape[0]), row = static_cast<size_t>(shape[1]);
  const size_t width = static_cast<size_t>(to - from), size = static_cast<size_t>(bytes_of(entry.dtype));
  if (out.size() == 0) return;
  const Tensor table = out.view({shape[0], to - from});
  const size_t step = std::min(rows, std::max<size_t>(1, block_bytes / (row * size)));
  std::vector<std::byte> block(((step - 1) * row + width) * size);
  for (size_t r = 0; r < rows; r += step) {
    const size_t n = std::min(step, rows - r);  // rows at a time, from the first wanted element to the last
    shard.read(entry, (r * row + static_cast<size_t>(from)) * size,
               std::span(block).first(((n - 1) * row + width) * size));
    for (size_t i = 0; i < n; ++i)
      convert(block.data() + i * row * size, entry.dtype, table.row(static_cast<int64_t>(r + i)).raw(), out.dtype(),
              width);
    check_finite(shard, entry, table.row(static_cast<int64_t>(r)).raw(), out.dtype(), n * width);
  }
}

void Checkpoint::read_stored(const std::string& name, size_t from, std::span<std::byte> to) const {
  const SafetensorsFile& shard = shards_[at(name).shard];
  shard.read(*shard.find(name), from, to);
}

void Checkpoint::fail_not_finite(const std::string& name, DType as) const {
  const SafetensorsFile& shard = shards_[at(name).shard];
  not_finite(shard, *shard.find(name), as);
}

bool Checkpoint::only_zeros(const std::string& name) const {
  const SafetensorsFile& shard = shards_[at(name).shard];
  const TensorEntry& entry = *shard.find(name);
  std::vector<std::byte> block;
  for (size_t done = 0, all = entry.end - entry.begin; done < all; done += block.size()) {
    block.resize(std::min(block_bytes, all - done));
    shard.read(entry, done, block);
    const auto counts = [](std::byte b) { return (b & std::byte{0x7F}) != std::byte{0}; };  // a sign alone does not
    if (std::ranges::any_of(block, counts)) return false;
  }
  return true;
}

}  // namespace zoetrope
