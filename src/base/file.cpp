#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

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

// The same file, whatever has its name by now; none where the system does not say what a descriptor stands for.
Fd opened_again(const Fd& fd) { return Fd(::open(cat("/proc/self/fd/", fd.get()).c_str(), O_RDONLY | O_CLOEXEC)); }

}  // namespace

std::string read_file(const std::filesystem::path& file, size_t max_bytes) {
  const InputFile opened(file);
  require(opened.size() <= max_bytes, file.string(), ": ", opened.size(), " bytes, more than the ", max_bytes,
          " allowed here");
  std::string text(opened.size(), '\0');
  opened.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

InputFile::InputFile(std::filesystem::path file)
    : path_(std::move(file)), fd_(open_to_read(path_)), size_(regular_size(fd_.get(), path_)) {}

// The system reads ahead of a descriptor, further the longer it is read in order. So a large read goes on with the
// descriptor that stands where it begins, or has a new one.
Fd InputFile::take_cursor(size_t offset) const {
  const std::lock_guard lock(cursors_->mutex);
  auto node = cursors_->at.extract(offset);
  return node ? std::move(node.mapped()) : opened_again(fd_);
}

void InputFile::keep_cursor(size_t offset, Fd fd) const {
  constexpr size_t most = 64;
  const std::lock_guard lock(cursors_->mutex);
  if (cursors_->at.size() == most) cursors_->at.erase(cursors_->at.begin());
  cursors_->at.emplace(offset, std::move(fd));
}

void InputFile::read(size_t offset, std::span<std::byte> to) const {
  constexpr size_t large = size_t{1} << 20;
  Fd own = to.size() >= large ? take_cursor(offset) : Fd();
  const int fd = own ? own.get() : fd_.get();
  while (!to.empty()) {
    const ssize_t got = ::pread(fd, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    require(got >= 0, path_.string(), ": read failed: ", std::strerror(errno));
    require(got > 0, path_.string(), ": ends at byte ", offset, ", it was ", size_,
            " bytes when it was opened; it is truncated, download it again");
    offset += static_cast<size_t>(got);
    to = to.subspan(static_cast<size_t>(got));
  }
  if (own && offset < size_) keep_cursor(offset, std::move(own));
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

void AtomicFile::hole(size_t bytes) {
  const off_t end = ::lseek(fd_, static_cast<off_t>(bytes), SEEK_CUR);
  const bool made = end >= 0 && ::ftruncate(fd_, end) == 0;
  require(made, shown_.string(), ": write failed: ", std::strerror(errno));
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
