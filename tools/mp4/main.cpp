// zoetrope-mp4: raw RGB frames on stdin to an MP4 file, and back. See --help.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>

extern "C" {
#include <libavutil/parseutils.h>
}

#include "video.h"

namespace {

constexpr const char* help =
    "zoetrope-mp4 --encode --size WxH --frames N --fps F --out FILE [--comment TEXT]\n"
    "    reads N frames of W*H*3 bytes (RGB, rows from the top) on stdin and writes FILE:\n"
    "    H.264 High, 4:2:0, BT.709, limited range, index in front. The same frames give the same bytes.\n"
    "zoetrope-mp4 --decode FILE    a line \"size WxH frames N fps A/B\" and the frames on stdout\n"
    "zoetrope-mp4 --probe FILE     what the file holds, as one line of JSON\n"
    "zoetrope-mp4 --version\n";

using Arguments = std::map<std::string, std::string>;  // "--size" -> "64x32"

Arguments read_arguments(int count, char** words, int from) {
  Arguments arguments;
  for (int i = from; i < count; i += 2) {
    if (std::strncmp(words[i], "--", 2) != 0 || i + 1 == count)
      throw mp4::Failure(std::string("unexpected argument ") + words[i] + ", see --help");
    arguments[words[i]] = words[i + 1];
  }
  return arguments;
}

std::string take(Arguments& arguments, const char* name) {
  const auto found = arguments.find(name);
  if (found == arguments.end()) throw mp4::Failure(std::string(name) + " is missing, see --help");
  std::string value = found->second;
  arguments.erase(found);
  return value;
}

int positive(const std::string& text, const char* name) {
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end || value < 1 || value > 1000000)
    throw mp4::Failure(std::string(name) + " " + text + ": a whole number from 1 to 1000000 is expected");
  return static_cast<int>(value);
}

mp4::EncodeOptions encode_options(Arguments arguments) {
  mp4::EncodeOptions options;
  const std::string size = take(arguments, "--size"), fps = take(arguments, "--fps");
  const size_t cross = size.find('x');
  options.width = positive(size.substr(0, cross), "--size");
  options.height = cross == size.npos ? 0 : positive(size.substr(cross + 1), "--size");
  if (options.width % 2 || options.height % 2 || options.height == 0 || options.width > 16384 || options.height > 16384)
    throw mp4::Failure("--size " + size + ": WxH with even sides up to 16384 is expected (4:2:0 has no odd ones)");
  options.frames = positive(take(arguments, "--frames"), "--frames");
  if (av_parse_video_rate(&options.fps, fps.c_str()) < 0)
    throw mp4::Failure("--fps " + fps + ": a rate like 16 or 24000/1001 is expected");
  options.out = take(arguments, "--out");
  if (arguments.contains("--comment")) options.comment = take(arguments, "--comment");
  if (!arguments.empty()) throw mp4::Failure("unknown argument " + arguments.begin()->first + ", see --help");
  return options;
}

void require_encoder() {
  if (!mp4::can_encode())
    throw mp4::Failure("this FFmpeg has no H.264 encoder (libx264); install one that has, or write PNG frames");
}

void run(int count, char** words) {
  const std::string mode = count > 1 ? words[1] : "--help";
  if (mode == "--version") {
    require_encoder();
    const unsigned v = avcodec_version();
    std::printf("zoetrope-mp4 %s (libavcodec %u.%u.%u, libx264)\n", ZOETROPE_VERSION, v >> 16, v >> 8 & 255, v & 255);
  } else if (mode == "--encode") {
    require_encoder();
    mp4::encode(encode_options(read_arguments(count, words, 2)));
  } else if ((mode == "--decode" || mode == "--probe") && count == 3) {
    (mode == "--decode" ? mp4::decode : mp4::probe)(words[2]);
  } else if (mode == "--help") {
    std::fputs(help, stdout);
  } else {
    throw mp4::Failure("unknown argument " + mode + ", see --help");
  }
}

}  // namespace

int main(int count, char** words) {
  std::signal(SIGXFSZ, SIG_IGN);   // a file that grows too large is an error of its write
  av_log_set_level(AV_LOG_QUIET);  // one line of our own says what went wrong
  try {
    run(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
