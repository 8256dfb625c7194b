#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/fd.h"

namespace zoetrope {
namespace {

size_t regular_size(int fd, const std::filesystem::path& file) {
  struct stat info {};
  const bool known = ::fstat(fd, &info) == 0;  // before the message: arguments have no order, and errno must not age
  require(known, file.string(), ": cannot be read: ", std::strerror(errno));
  require(S_ISREG(info.st_mode), file.string(), ": not a regular file");
  return static_cast<size_t>(info.st_size);
}

int open_to_read(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not block us
  require(fd >= 0, file.string(), ": cannot be opened: ", std::strerror(errno));
  return fd;
}

}  // namespace

std::string read_file(const std::filesystem::path& file, size_t max_bytes) {
  const Fd opened(open_to_read(file));
  const size_t size = regular_size(opened.get(), file);
  require(size <= max_bytes, file.string(), ": ", size, " bytes, more than the ", max_bytes, " allowed here");
  std::string text(size, '\0');
  for (size_t done = 0; done < size;) {
    const ssize_t got = ::read(opened.get(), text.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    require(got > 0, file.string(), ": read failed: ", got < 0 ? std::strerror(errno) : "the file became shorter");
    done += static_cast<size_t>(got);
  }
  return text;
}

MappedFile::MappedFile(const std::filesystem::path& file) {
  const Fd opened(open_to_read(file));
  size_ = regular_size(opened.get(), file);
  if (size_ == 0) return;
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, opened.get(), 0);
  require(mapped != MAP_FAILED, file.string(), ": cannot be mapped: ", std::strerror(errno));
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::forget(size_t offset, size_t count) const {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t from = (offset + page - 1) / page * page;  // whole pages inside the range only
  const size_t to = (offset + count) / page * page;
  if (data_ && from < to) ::madvise(const_cast<std::byte*>(data_) + from, to - from, MADV_DONTNEED);
}

std::filesystem::path followed(const std::filesystem::path& name) {
  std::error_code error;
  const auto whole = std::filesystem::is_symlink(name, error) ? std::filesystem::canonical(name, error) : name;
  return error ? name : whole;
}

std::filesystem::path part_of(const std::filesystem::path& target) {
  std::filesystem::path part = followed(target);
  part += cat(".part-", ::getpid());
  return part;
}

AtomicFile::AtomicFile(std::filesystem::path target, std::filesystem::path shown)
    : target_(std::move(target)), part_(part_of(target_)), shown_(shown.empty() ? target_ : std::move(shown)) {
  struct stat info {};
  const bool there = ::stat(target_.c_str(), &info) == 0;
  require(!there || S_ISREG(info.st_mode), shown_.string(), ": ",
          there && S_ISDIR(info.st_mode) ? "is a folder" : "is no regular file, such as a device or a pipe",
          "; name a file");  // a rename would put a file in the place of /dev/null
  fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  require(fd_ >= 0, shown_.string(), ": cannot be written: ", std::strerror(errno));
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!committed_) ::unlink(part_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    require(put > 0, shown_.string(), ": write failed: ", std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
}

void AtomicFile::commit() {
  const bool whole = ::fsync(fd_) == 0 && ::close(std::exchange(fd_, -1)) == 0;
  require(whole, shown_.string(), ": write failed: ", std::strerror(errno));
  const bool named = ::rename(part_.c_str(), followed(target_).c_str()) == 0;
  require(named, shown_.string(), ": cannot be written: ", std::strerror(errno));
  committed_ = true;
}

void write_file(const std::filesystem::path& file, std::string_view text, const std::filesystem::path& shown) {
  AtomicFile out(file, shown);
  out.write(text);
  out.commit();
}

}  // namespace zoetrope
