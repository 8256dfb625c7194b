#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "io/safetensors.h"

namespace zoetrope {
namespace {

// Entries with offsets that count from the end of the header.
std::vector<TensorEntry> layout(const std::vector<TensorSpec>& tensors) {
  std::vector<TensorEntry> entries;
  for (const TensorSpec& spec : tensors) entries.push_back({spec.name, spec.dtype, spec.shape, 0, 0});
  std::ranges::stable_sort(entries, std::greater<>{}, [](const TensorEntry& e) { return bytes_of(e.dtype); });
  size_t at = 0;
  for (TensorEntry& entry : entries) {
    entry.begin = at;
    at += static_cast<size_t>(entry.shape.size() * bytes_of(entry.dtype));
    entry.end = at;
  }
  return entries;
}

std::string header_text(const std::vector<TensorEntry>& entries, const Metadata& metadata, const std::string& where) {
  OrderedJson json = OrderedJson::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  for (const TensorEntry& entry : entries) {
    require(entry.name != "__metadata__" && !json.contains(entry.name), where, ": tensor \"", entry.name,
            "\" is declared twice");
    const auto dims = entry.shape.dims();
    json[entry.name] = {{"dtype", safetensors_name(entry.dtype)},
                        {"shape", std::vector<int64_t>(dims.begin(), dims.end())},
                        {"data_offsets", {entry.begin, entry.end}}};
  }
  try {
    std::string text = json.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
  } catch (const Json::exception&) {
    fail(Code::invalid, where, ": a name or a metadata value is not valid UTF-8");
  }
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& file, const std::vector<TensorSpec>& tensors,
                                     const Metadata& metadata)
    : where_(file.string()), entries_(layout(tensors)), out_(file) {
  const std::string header = header_text(entries_, metadata, where_);
  require(header.size() <= max_safetensors_header, where_, ": the header would be ", header.size(), " bytes");
  char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  out_.write(std::string_view(length, 8));
  out_.write(header);
  position_ = 8 + header.size();
  for (TensorEntry& entry : entries_) {
    entry.begin += position_;
    entry.end += position_;
  }
}

// `bytes` more of tensor `name`.
void SafetensorsWriter::next(const std::string& name, size_t bytes) {
  while (next_ < entries_.size() && position_ == entries_[next_].end && entries_[next_].name != name) ++next_;
  require(next_ < entries_.size() && entries_[next_].name == name, where_, ": tensor \"", name,
          "\" is not the next to write");
  require(bytes <= entries_[next_].end - position_, where_, ": tensor \"", name, "\" gets more bytes than its ",
          entries_[next_].end - entries_[next_].begin);
  position_ += bytes;
}

void SafetensorsWriter::write(const std::string& name, std::span<const std::byte> piece) {
  next(name, piece.size());
  out_.write(piece);
}

void SafetensorsWriter::skip(const std::string& name, size_t bytes) {
  next(name, bytes);
  out_.hole(bytes);
}

void SafetensorsWriter::commit() {
  require(entries_.empty() || position_ == entries_.back().end, where_, ": ",
          entries_.empty() ? 0 : entries_.back().end - position_, " bytes of tensors were not written");
  out_.commit();
}

void write_safetensors(const std::filesystem::path& file, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const Metadata& metadata) {
  std::vector<TensorSpec> specs;
  std::unordered_map<std::string, Tensor> by_name;
  for (const auto& [name, tensor] : tensors) {
    specs.push_back({name, tensor.dtype(), tensor.shape()});
    by_name.emplace(name, tensor);
  }
  SafetensorsWriter out(file, specs, metadata);
  for (const TensorEntry& entry : out.entries()) {
    const Tensor& tensor = by_name.at(entry.name);
    out.write(entry.name, {static_cast<const std::byte*>(tensor.raw()), static_cast<size_t>(tensor.bytes())});
  }
  out.commit();
}

}  // namespace zoetrope
