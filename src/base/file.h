// Files: bounded reads, memory maps, and writes that either appear whole under their name or not at all.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace zoetrope {

// The whole file; refused with one line when it is missing, not a regular file, or larger than `max_bytes`.
std::string read_file(const std::filesystem::path& file, size_t max_bytes);

// A read-only memory map of a regular file. Symbolic links are followed (hub caches are made of them).
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& file);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Tells the system that these bytes will not be read again soon, so that they leave our resident set.
  void forget(size_t offset, size_t count) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// What a symbolic link leads to in the end; any other name, and a link to nowhere, as it is.
std::filesystem::path followed(const std::filesystem::path& name);

// `<name>.part-<pid>`: what is not whole yet stands beside its target, links followed, under this name.
std::filesystem::path part_of(const std::filesystem::path& target);

// Write to part_of(target), then `commit()` renames; without it the destructor removes the part. What stands under the
// name already is replaced if it is a regular file, and refused if it is a folder, a device or a pipe.
class AtomicFile {
 public:
  // Messages call it `shown`, if given: the name that a user knows where `target` itself lies in a temporary folder.
  explicit AtomicFile(std::filesystem::path target, std::filesystem::path shown = {});
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  const std::filesystem::path& part() const { return part_; }  // for writers that want a path
  void write(std::span<const std::byte> bytes);                // for writers that want a stream
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  void commit();  // flush to disk, rename; Error(invalid) names the file and the system's reason (a full disk, say)

 private:
  std::filesystem::path target_, part_, shown_;
  int fd_ = -1;
  bool committed_ = false;
};

// Atomic; `shown` as in AtomicFile.
void write_file(const std::filesystem::path& file, std::string_view text, const std::filesystem::path& shown = {});

}  // namespace zoetrope
