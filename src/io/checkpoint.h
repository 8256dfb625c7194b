// The weights of one component folder (`transformer/`, `vae/`, ...): one safetensors file or an index of shards, with
// or without a variant word (".fp16."). Headers are read at once, tensors on demand, block by block, and converted
// straight into the caller's tensor. Reads are const and may run in several threads.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "io/safetensors.h"

namespace zoetrope {

struct CheckpointEntry {
  Shape shape;
  DType dtype = DType::f32;
  size_t shard = 0;  // into files()
};

class Checkpoint {
 public:
  // A folder, or one .safetensors file. `variant` picks "fp16" of "model.fp16.safetensors"; empty takes the plain
  // weights, or the only variant where there are no plain ones. Everything that is wrong is named by file: missing
  // shards, names that index and shards do not share, partial downloads, pickles, git-lfs pointers.
  explicit Checkpoint(const std::filesystem::path& folder, std::string_view variant = {});

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, CheckpointEntry>& entries() const { return entries_; }
  bool has(const std::string& name) const { return entries_.contains(name); }
  const CheckpointEntry& at(const std::string& name) const;  // Error(invalid) names the tensor and the folder
  const std::filesystem::path& file_of(const std::string& name) const { return shards_[at(name).shard].path(); }
  std::vector<std::filesystem::path> files() const;
  const Metadata& metadata(size_t shard = 0) const { return shards_[shard].metadata(); }

  // The whole tensor into host memory with as many elements, of any shape: F64, F32, F16, BF16 become fp32 or bf16
  // (round to nearest even), other types only themselves. F8 is Error(unsupported). Error(invalid), naming file and
  // tensor: values that are not finite, which no weights are; a file that has become shorter.
  void read(const std::string& name, const Tensor& to) const;
  void check_type(const std::string& name, DType to) const;  // what read() says of a type, before there is memory
  // Rows [from, to) of the outermost axis.
  void read_rows(const std::string& name, int64_t from, int64_t to, const Tensor& out) const;
  // Columns [from, to) of a matrix [R, C], as [R, to - from].
  void read_columns(const std::string& name, int64_t from, int64_t to, const Tensor& out) const;
  // For who converts himself: bytes of a tensor as they are stored, from its byte `from` on; and what read() says of
  // values that are not finite as `as`.
  void read_stored(const std::string& name, size_t from, std::span<std::byte> to) const;
  [[noreturn]] void fail_not_finite(const std::string& name, DType as) const;
  // Reads no further than the first number that is there.
  bool only_zeros(const std::string& name) const;

 private:
  void open_single(const std::filesystem::path& file);
  void open_index(const std::filesystem::path& index);
  void add_entries();
  void check(const std::string& name, const Tensor& to, int64_t elements) const;

  std::filesystem::path path_;
  std::vector<SafetensorsFile> shards_;
  std::map<std::string, CheckpointEntry> entries_;
};

}  // namespace zoetrope
