// Files: bounded reads, and writes that either appear whole under their name or not at all.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"

namespace zoetrope {

// The whole file; refused with one line when it is missing, not a regular file, or larger than `max_bytes`.
std::string read_file(const std::filesystem::path& file, size_t max_bytes);

// A regular file that is opened once and read at any place, also by several threads at a time. Symbolic links are
// followed (hub caches are made of them). It is not mapped: what another program cuts off while we read is an error
// here, and would be the end of the process there (SIGBUS).
class InputFile {
 public:
  explicit InputFile(std::filesystem::path file);

  const std::filesystem::path& path() const { return path_; }
  size_t size() const { return size_; }  // when it was opened
  // Fills `to` with the bytes from `offset` on; Error(invalid) where they are not there, or no longer.
  // By any number of threads at once.
  void read(size_t offset, std::span<std::byte> to) const;

 private:
  // Descriptors of large reads, by where they have come to.
  struct Cursors {
    std::mutex mutex;
    std::multimap<size_t, Fd> at;
  };

  Fd take_cursor(size_t offset) const;
  void keep_cursor(size_t offset, Fd fd) const;

  std::filesystem::path path_;
  Fd fd_;
  size_t size_ = 0;
  std::unique_ptr<Cursors> cursors_ = std::make_unique<Cursors>();
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
  void hole(size_t bytes);  // zeros that take no room on disk, where the file system can
  void commit();  // flush to disk, rename; Error(invalid) names the file and the system's reason (a full disk, say)

 private:
  std::filesystem::path target_, part_, shown_;
  int fd_ = -1;
  bool committed_ = false;
};

// Atomic; `shown` as in AtomicFile.
void write_file(const std::filesystem::path& file, std::string_view text, const std::filesystem::path& shown = {});

}  // namespace zoetrope
