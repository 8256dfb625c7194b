// MP4 files through zoetrope-mp4, a program of its own: frames go down a pipe, FFmpeg never enters this process.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "io/child.h"
#include "io/video.h"

namespace zoetrope {

// zoetrope-mp4 beside the program, else on PATH (its value). Error(unsupported) says what to do when it is nowhere.
std::filesystem::path find_mp4_helper(const std::filesystem::path& program_folder, std::string_view path);
// Starts it once; gives its version line. Error(unsupported): it does not run here, it has not ended within `limit`, or
// its FFmpeg cannot write H.264. Ask before the denoise.
std::string check_mp4_helper(const std::filesystem::path& helper,
                             std::chrono::milliseconds limit = std::chrono::seconds(10));

struct Mp4Options {
  int width = 0, height = 0;  // even
  int frames = 0;
  int fps = 16;
  std::string comment;  // goes into the file's metadata
};

// Writes one file. The file appears under its name when finish() returns, or not at all. A thread feeds the helper, so
// add() only copies: the caller never waits for the encoder, at the price of holding frames that are not yet encoded.
class Mp4Writer {
 public:
  // Error(invalid) if the file cannot be written here.
  Mp4Writer(const std::filesystem::path& file, const std::filesystem::path& helper, const Mp4Options& options);
  ~Mp4Writer();  // kills the helper and removes what it wrote, unless finished

  void add(std::span<const uint8_t> frame);  // [H, W, 3]; Error(invalid) with the helper's words once it has failed
  void finish(std::stop_token stop = {});    // Error(cancelled) if asked to stop meanwhile

 private:
  void feed();
  [[noreturn]] void fail_with_reason();
  void drain_errors(int timeout_ms);

  std::string where_;
  Mp4Options options_;
  AtomicFile file_;
  Fd pipe_, errors_;
  std::unique_ptr<Child> child_;
  std::string said_;         // what the helper wrote to stderr
  bool errors_open_ = true;  // until the helper closed it, that is, ended
  int added_ = 0;

  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::vector<uint8_t>> queue_;  // under mutex_
  bool closed_ = false, broken_ = false;    // no more frames will come; the helper takes no more
  std::thread feeder_;
};

// Through the same helper; Error(invalid) with its words, or when it gives nothing for as long as `silence`.
Video read_mp4(const std::filesystem::path& file, const std::filesystem::path& helper,
               std::chrono::milliseconds silence = std::chrono::minutes(1));
Json probe_mp4(const std::filesystem::path& file, const std::filesystem::path& helper,  // codec, tags, comment
               std::chrono::milliseconds silence = std::chrono::minutes(1));

}  // namespace zoetrope
