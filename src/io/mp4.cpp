#include "io/mp4.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>

#include "base/error.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> encode_arguments(const fs::path& file, const Mp4Options& options) {
  return {"--encode",
          "--size",
          cat(options.width, "x", options.height),
          "--frames",
          cat(options.frames),
          "--fps",
          cat(options.fps),
          "--out",
          file.string(),
          "--comment",
          options.comment};
}

// False once the other side is gone.
bool send_all(int socket, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return true;
}

// False at the end of the stream.
bool read_some(int fd, std::string& text) {
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
    return got > 0;
  }
}

std::string first_line(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

}  // namespace

Mp4Writer::Mp4Writer(const fs::path& file, const fs::path& helper, const Mp4Options& options)
    : where_(file.string()), options_(options), file_(file) {
  require(options.width > 0 && options.height > 0 && options.width % 2 == 0 && options.height % 2 == 0, where_,
          ": a video of ", options.width, "x", options.height, "; H.264 needs even sides");
  require(options.frames > 0, where_, ": a video of ", options.frames, " frames");
  FdPair frames = make_socket_pair(), errors = make_pipe();
  child_ = std::make_unique<Child>(helper, encode_arguments(fs::absolute(file_.part()), options), frames.theirs.get(),
                                   -1, errors.theirs.get());
  pipe_ = std::move(frames.ours);
  errors_ = std::move(errors.ours);
  feeder_ = std::thread([this] { feed(); });
}

Mp4Writer::~Mp4Writer() {
  child_->kill();
  {
    const std::lock_guard lock(mutex_);
    closed_ = broken_ = true;
  }
  more_.notify_one();
  if (feeder_.joinable()) feeder_.join();
}

void Mp4Writer::feed() {
  for (;;) {
    std::vector<uint8_t> frame;
    {
      std::unique_lock lock(mutex_);
      more_.wait(lock, [this] { return closed_ || !queue_.empty(); });
      if (broken_ || queue_.empty()) break;
      frame = std::move(queue_.front());
      queue_.pop_front();
    }
    if (send_all(pipe_.get(), frame)) continue;
    const std::lock_guard lock(mutex_);
    broken_ = true;
    queue_.clear();
    break;
  }
  ::shutdown(pipe_.get(), SHUT_WR);
}

void Mp4Writer::add(std::span<const uint8_t> frame) {
  require(frame.size() == 3 * static_cast<size_t>(options_.width) * static_cast<size_t>(options_.height), where_,
          ": a frame of ", frame.size(), " bytes for ", options_.width, "x", options_.height);
  require(added_ < options_.frames, where_, ": more than the ", options_.frames, " frames announced");
  ++added_;
  {
    const std::lock_guard lock(mutex_);
    if (!broken_) queue_.emplace_back(frame.begin(), frame.end());
  }
  more_.notify_one();
  const std::unique_lock lock(mutex_);
  if (broken_) fail_with_reason();
}

void Mp4Writer::drain_errors(int timeout_ms) {
  pollfd waits{errors_.get(), POLLIN, 0};
  if (errors_open_ && ::poll(&waits, 1, timeout_ms) > 0) errors_open_ = read_some(errors_.get(), said_);
}

void Mp4Writer::fail_with_reason() {
  for (int seconds = 0; errors_open_; ++seconds) {
    if (seconds == 5) child_->kill();  // it takes no frames and does not end
    drain_errors(1000);
  }
  const std::string ending = child_->wait(), said = first_line(said_);
  std::string reason = said.empty() ? ending : said;
  const std::string part = file_.part().string(), whole = fs::absolute(part).string();
  if (reason.starts_with(whole + ": ")) reason.erase(0, whole.size() + 2);  // our own temporary name says nothing
  fail(Code::invalid, where_, ": the encoder zoetrope-mp4 ", said.empty() ? "" : "failed: ", reason);
}

void Mp4Writer::finish(std::stop_token stop) {
  require(added_ == options_.frames, where_, ": ", added_, " of ", options_.frames, " frames were given");
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  more_.notify_one();
  while (errors_open_) {
    if (stop.stop_requested()) fail(Code::cancelled, where_, ": cancelled while it was encoded");
    drain_errors(50);
  }
  feeder_.join();
  if (!child_->wait().empty()) fail_with_reason();
  file_.commit();
}

namespace {

bool runnable(const fs::path& file) { return fs::is_regular_file(file) && ::access(file.c_str(), X_OK) == 0; }

int poll_time(Deadline deadline) {
  using namespace std::chrono;
  return static_cast<int>(std::min<int64_t>(ceil<milliseconds>(deadline.left()).count(), INT_MAX));
}

// How long the helper may take: for all that it says, or from one piece to the next (a long video takes as long as it
// takes).
struct Patience {
  std::chrono::milliseconds time;
  bool each_piece;

  std::string worn_out() const {
    const double seconds = static_cast<double>(time.count()) / 1000;
    return each_piece ? cat("gave nothing for ", seconds, " s and was stopped")
                      : cat("did not end within ", seconds, " s and was stopped");
  }
};

// Both to their ends, as they come; false if the deadline passes first.
bool read_both(int out, std::string& text, int errors, std::string& complaint, const Patience& patience,
               Deadline& deadline) {
  pollfd waits[] = {{out, POLLIN, 0}, {errors, POLLIN, 0}};  // a negative one is closed
  while (waits[0].fd >= 0 || waits[1].fd >= 0) {
    if (::poll(waits, 2, poll_time(deadline)) <= 0) {
      if (deadline.passed()) return false;
      continue;
    }
    if (patience.each_piece) deadline = Deadline::in(patience.time);
    if (waits[0].fd >= 0 && waits[0].revents && !read_some(out, text)) waits[0].fd = -1;
    if (waits[1].fd >= 0 && waits[1].revents && !read_some(errors, complaint)) waits[1].fd = -1;
  }
  return true;
}

// What the helper prints. Error(invalid): its complaint if it ends badly, or how it wore out our patience; `where`
// begins the latter.
std::string output_of(const fs::path& helper, const std::vector<std::string>& arguments, const Patience& patience,
                      const std::string& where) {
  Deadline deadline = Deadline::in(patience.time);
  FdPair out = make_pipe(), errors = make_pipe();
  Child child(helper, arguments, -1, out.theirs.get(), errors.theirs.get());
  out.theirs.reset();
  errors.theirs.reset();
  std::string text, complaint;
  const bool read = read_both(out.ours.get(), text, errors.ours.get(), complaint, patience, deadline);
  if (!read || !child.ends_by(deadline)) fail(Code::invalid, where, ' ', patience.worn_out());
  const std::string ending = child.wait();
  require(ending.empty(), complaint.empty() ? ending : first_line(complaint));
  return text;
}

std::string ask(const fs::path& helper, const char* what, const fs::path& file, std::chrono::milliseconds silence) {
  return output_of(helper, {what, fs::absolute(file).string()}, {silence, true}, file.string() + ": zoetrope-mp4");
}

}  // namespace

fs::path find_mp4_helper(const fs::path& program_folder, std::string_view path) {
  constexpr const char* name = "zoetrope-mp4";
  if (runnable(program_folder / name)) return program_folder / name;
  while (!path.empty()) {
    const std::string_view folder = path.substr(0, path.find(':'));
    path.remove_prefix(std::min(folder.size() + 1, path.size()));
    if (!folder.empty() && runnable(fs::path(folder) / name)) return fs::path(folder) / name;
  }
  fail(Code::unsupported, "mp4: ", name, " is neither in ", program_folder.string(),
       " nor on PATH; build it (CMake option ZOETROPE_MP4, needs FFmpeg's libraries) or write a folder of PNG frames");
}

std::string check_mp4_helper(const fs::path& helper, std::chrono::milliseconds limit) {
  std::string said;
  try {
    said = output_of(helper, {"--version"}, {limit, false}, "it");
  } catch (const Error& error) {
    fail(Code::unsupported, "mp4: ", helper.string(), " does not work here: ", error.what());
  }
  if (!said.starts_with("zoetrope-mp4 "))
    fail(Code::unsupported, "mp4: ", helper.string(), " is not zoetrope-mp4; it says \"",
         first_line(said).substr(0, 80), "\"");
  return first_line(said);
}

Video read_mp4(const fs::path& file, const fs::path& helper, std::chrono::milliseconds silence) {
  const std::string bytes = ask(helper, "--decode", file, silence);
  const size_t line = bytes.find('\n');
  Video video;
  long long frames = 0;
  int rate = 0, base = 1;
  require(line != bytes.npos && std::sscanf(bytes.c_str(), "size %dx%d frames %lld fps %d/%d", &video.width,
                                            &video.height, &frames, &rate, &base) == 5,
          file.string(), ": the decoder gave no header");
  const size_t frame = 3 * static_cast<size_t>(video.width) * static_cast<size_t>(video.height);
  require(frame > 0 && (bytes.size() - line - 1) % frame == 0, file.string(), ": the decoder gave part of a frame");
  video.frames = static_cast<int>((bytes.size() - line - 1) / frame);
  video.fps = base == 0 ? 0 : static_cast<double>(rate) / base;
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  video.rgb.assign(data + line + 1, data + bytes.size());
  return video;
}

Json probe_mp4(const fs::path& file, const fs::path& helper, std::chrono::milliseconds silence) {
  return parse_json(ask(helper, "--probe", file, silence), file.string());
}

}  // namespace zoetrope
