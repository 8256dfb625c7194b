#include "io/safetensors.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"
#include "base/json.h"
#include "io/recognise.h"

namespace zoetrope {
namespace {

constexpr std::pair<std::string_view, DType> dtypes[] = {
    {"F64", DType::f64}, {"F32", DType::f32},      {"F16", DType::f16},         {"BF16", DType::bf16},
    {"I64", DType::i64}, {"I32", DType::i32},      {"I16", DType::i16},         {"I8", DType::i8},
    {"U8", DType::u8},   {"BOOL", DType::boolean}, {"F8_E4M3", DType::f8_e4m3}, {"F8_E5M2", DType::f8_e5m2},
};

DType dtype_named(const std::string& text, const std::string& place) {
  for (const auto& [name, type] : dtypes)
    if (name == text) return type;
  fail(Code::unsupported, place, " has dtype ", text, ", which is not supported; supported are F64 F32 F16 BF16, ",
       "I64 I32 I16 I8, U8, BOOL, F8_E4M3 and F8_E5M2");
}

const Json& member(const Json& object, const char* key, const std::string& place) {
  const auto found = object.find(key);
  require(found != object.end(), place, " has no \"", key, "\"");
  return *found;
}

uint64_t unsigned_value(const Json& value, const char* what, const std::string& place) {
  require(value.is_number_unsigned(), place, ": ", what, " holds ", value.dump(-1, ' ', true).substr(0, 40),
          ", which is not a whole number");
  return value.get<uint64_t>();
}

Shape shape_of(const Json& list, const std::string& place) {
  require(list.is_array(), place, ": shape is not a list");
  std::vector<int64_t> dims;
  for (const Json& item : list) {
    const uint64_t extent = unsigned_value(item, "shape", place);
    require(extent <= INT64_MAX, place, ": extent ", extent, " is too large");
    dims.push_back(static_cast<int64_t>(extent));
  }
  return about(place, [&] { return Shape(dims); });
}

// Offsets in JSON count from the end of the header; `data` bytes follow it.
TensorEntry entry_of(const std::string& name, const Json& object, uint64_t data_begin, uint64_t data,
                     std::string_view where) {
  const std::string place = cat(where, ": tensor \"", name.substr(0, 200), "\"");
  require(object.is_object(), place, " is not described by an object");
  const Json& type = member(object, "dtype", place);
  require(type.is_string(), place, ": dtype is not text");
  TensorEntry entry{name, dtype_named(type.get<std::string>().substr(0, 40), place),
                    shape_of(member(object, "shape", place), place)};

  const Json& offsets = member(object, "data_offsets", place);
  require(offsets.is_array() && offsets.size() == 2, place, ": data_offsets are not two numbers");
  const uint64_t begin = unsigned_value(offsets[0], "data_offsets", place);
  const uint64_t end = unsigned_value(offsets[1], "data_offsets", place);
  require(begin <= end, place, " ends at byte ", end, " before it begins at ", begin);
  require(end <= data, place, " reaches to byte ", end, " of the data, but only ", data,
          " are there; the file is truncated, download it again");
  int64_t bytes = 0;
  const bool fits = !__builtin_mul_overflow(entry.shape.size(), bytes_of(entry.dtype), &bytes);
  require(fits && static_cast<uint64_t>(bytes) == end - begin, place, " has ", end - begin, " bytes, but ", entry.shape,
          " of ", safetensors_name(entry.dtype), " needs ", fits ? cat(bytes) : "more than fit in memory");
  entry.begin = data_begin + begin;
  entry.end = data_begin + end;
  return entry;
}

Metadata metadata_of(const Json& object, std::string_view where) {
  require(object.is_object(), where, ": __metadata__ is not an object");
  Metadata metadata;
  for (const auto& [key, value] : object.items()) {
    require(value.is_string(), where, ": __metadata__ \"", key.substr(0, 200), "\" is not text");
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

void check_cover(std::vector<TensorEntry>& entries, uint64_t data_begin, uint64_t file_size, std::string_view where) {
  std::ranges::sort(entries, [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  size_t at = data_begin;
  const TensorEntry* before = nullptr;
  for (const TensorEntry& entry : entries) {
    require(entry.begin >= at, where, ": tensors \"", before ? before->name.substr(0, 200) : "", "\" and \"",
            entry.name.substr(0, 200), "\" overlap");
    require(entry.begin == at, where, ": a hole of ", entry.begin - at, " bytes before tensor \"",
            entry.name.substr(0, 200), "\"");
    at = entry.end;
    before = &entry;
  }
  require(at == file_size, where, ": ", file_size - at, " bytes follow the last tensor");
}

uint64_t header_length(std::span<const std::byte> prefix, uint64_t file_size, std::string_view where) {
  if (prefix.size() < 9 || prefix[8] != std::byte{'{'}) {
    const std::string known = foreign_file(prefix);
    require(known.empty(), where, ": ", known);
  }
  require(file_size >= 8, where, ": ", file_size, " bytes, too short for a safetensors file; download it again");
  uint64_t length = 0;
  for (int i = 0; i < 8; ++i) length |= static_cast<uint64_t>(prefix[i]) << (8 * i);
  require(length <= max_safetensors_header, where, ": not a safetensors file, or damaged: its header would be ", length,
          " bytes, more than the ", max_safetensors_header, " allowed");
  require(length <= file_size - 8, where, ": the header needs ", length, " bytes, but the file ends after ",
          file_size - 8, " of them; it is truncated, download it again");
  return length;
}

Json parsed_header(std::span<const std::byte> text, std::string_view where) {
  require(!text.empty() && text[0] == std::byte{'{'}, where,
          ": not a safetensors file: the header does not start with {");
  try {
    return parse_json({reinterpret_cast<const char*>(text.data()), text.size()}, cat(where, ": header"));
  } catch (const Json::exception&) {  // a number beyond double
    fail(Code::invalid, where, ": header: not valid JSON");
  }
}

SafetensorsHeader read_header(const InputFile& file) {
  const std::string where = file.path().string();
  std::vector<std::byte> prefix(std::min<size_t>(file.size(), 4096));
  file.read(0, prefix);
  prefix.resize(std::max<size_t>(prefix.size(), 8 + header_length(prefix, file.size(), where)));
  file.read(0, prefix);
  return parse_safetensors_header(prefix, file.size(), where);
}

}  // namespace

const char* safetensors_name(DType type) {
  for (const auto& [name, known] : dtypes)
    if (known == type) return name.data();
  return "unknown";
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file_prefix, uint64_t file_size,
                                           std::string_view where) {
  const uint64_t length = header_length(file_prefix, file_size, where);
  assert(file_prefix.size() >= 8 + length);
  const Json json = parsed_header(file_prefix.subspan(8, length), where);
  SafetensorsHeader header;
  header.data_begin = 8 + length;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__")
      header.metadata = metadata_of(value, where);
    else
      header.entries.push_back(entry_of(name, value, header.data_begin, file_size - header.data_begin, where));
  }
  check_cover(header.entries, header.data_begin, file_size, where);
  return header;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& file) : file_(file), header_(read_header(file_)) {
  for (size_t i = 0; i < header_.entries.size(); ++i) by_name_.emplace(header_.entries[i].name, i);
}

const TensorEntry* SafetensorsFile::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &header_.entries[found->second];
}

std::vector<std::byte> SafetensorsFile::bytes(const TensorEntry& entry) const {
  std::vector<std::byte> all(entry.end - entry.begin);
  read(entry, 0, all);
  return all;
}

void SafetensorsFile::read(const TensorEntry& entry, size_t from, std::span<std::byte> to) const {
  assert(from <= entry.end - entry.begin && to.size() <= entry.end - entry.begin - from);
  file_.read(entry.begin + from, to);
}

}  // namespace zoetrope
