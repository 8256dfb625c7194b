#include "cli/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace zoetrope::cli {
namespace {

Fd open_file(const std::filesystem::path& file) {
  Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  require(fd.get() >= 0, file.string(), ": cannot be opened: ", std::strerror(errno));
  return fd;
}

}  // namespace

void drop_cached(const std::filesystem::path& file) {
  const Fd fd = open_file(file);
  ::fdatasync(fd.get());  // what is not written yet cannot be dropped
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
}

std::optional<double> cached_share(const std::filesystem::path& file) {
  const Fd fd = open_file(file);
  const size_t size = std::filesystem::file_size(file), page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  if (size == 0) return std::nullopt;
  void* at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return std::nullopt;
  std::vector<unsigned char> pages((size + page - 1) / page);
  const bool known = ::mincore(at, size, pages.data()) == 0;
  ::munmap(at, size);
  if (!known) return std::nullopt;
  const auto in = std::ranges::count_if(pages, [](unsigned char flags) { return (flags & 1) != 0; });
  return static_cast<double>(in) / static_cast<double>(pages.size());
}

}  // namespace zoetrope::cli
