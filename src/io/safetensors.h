// The safetensors format: a length, a JSON header, then the bytes of all tensors, little-endian and row-major.
// A file is hostile until its header has passed every rule: names once, ranges that cover the data exactly, sizes that
// match shapes. Elements are not promised to be aligned.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/file.h"
#include "core/dtype.h"
#include "core/tensor.h"

namespace zoetrope {

using Metadata = std::map<std::string, std::string>;

struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  size_t begin = 0, end = 0;  // bytes of the file, end exclusive
};

struct SafetensorsHeader {
  std::vector<TensorEntry> entries;  // in the order of their bytes
  Metadata metadata;                 // "__metadata__"
  size_t data_begin = 0;             // first byte after the header
};

inline constexpr uint64_t max_safetensors_header = 100'000'000;

// `file_prefix` holds the file's first bytes, at least up to the end of the header where the file has that many.
// Error(invalid) says what breaks the format, Error(unsupported) names an element type that we cannot hold.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file_prefix, uint64_t file_size,
                                           std::string_view where);

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& file);  // reads the header

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<TensorEntry>& entries() const { return header_.entries; }
  const Metadata& metadata() const { return header_.metadata; }
  const TensorEntry* find(const std::string& name) const;  // null: no such tensor
  std::vector<std::byte> bytes(const TensorEntry& entry) const;
  // Fills `to` with the entry's bytes from its byte `from` on; Error(invalid) where the file has become shorter.
  void read(const TensorEntry& entry, size_t from, std::span<std::byte> to) const;

 private:
  InputFile file_;
  SafetensorsHeader header_;
  std::unordered_map<std::string, size_t> by_name_;
};

struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

// Writes a file whose tensors are declared first and whose bytes follow piece by piece. Nothing appears under the
// target name before commit().
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& file, const std::vector<TensorSpec>& tensors,
                    const Metadata& metadata = {});

  // The order to write in: by falling element size, so that elements lie aligned, else as declared.
  const std::vector<TensorEntry>& entries() const { return entries_; }
  void write(const std::string& name, std::span<const std::byte> piece);  // the next bytes of the next tensor
  void skip(const std::string& name, size_t bytes);                       // the same as so many zeros, as a hole
  void commit();                                                          // refuses while bytes are missing

 private:
  void next(const std::string& name, size_t bytes);

  std::string where_;
  std::vector<TensorEntry> entries_;
  size_t next_ = 0, position_ = 0;  // entry being written, byte of the file
  AtomicFile out_;
};

// Host tensors in one call.
void write_safetensors(const std::filesystem::path& file, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const Metadata& metadata = {});

const char* safetensors_name(DType type);  // "F32", "BF16", ...

}  // namespace zoetrope
