#include "io/mp4.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include <cmath>
#include <fstream>

#include "io/temp_folder.h"
#include "support/words.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

const fs::path helper = ZOETROPE_BINARY_DIR "/bin/zoetrope-mp4";

struct Mp4 : ::testing::Test {
  TempFolder folder;
  void SetUp() override {
    if (!fs::exists(helper)) GTEST_SKIP() << "built without zoetrope-mp4";
  }
};

constexpr int width = 256, height = 64;
constexpr size_t frame_bytes = 3 * width * height;

Mp4Options options(int frames, const std::string& comment = {}) { return {width, height, frames, 16, comment}; }

std::vector<uint8_t> flat(uint8_t r, uint8_t g, uint8_t b) {
  std::vector<uint8_t> frame(frame_bytes);
  for (size_t i = 0; i < frame_bytes; i += 3) frame[i] = r, frame[i + 1] = g, frame[i + 2] = b;
  return frame;
}

std::vector<uint8_t> ramp() {
  std::vector<uint8_t> frame(frame_bytes);
  for (size_t i = 0; i < frame_bytes; ++i) frame[i] = static_cast<uint8_t>(i / 3 % width);
  return frame;
}

int largest_difference(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  int largest = a.size() == b.size() ? 0 : 256;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

void write_clip(const fs::path& file, const std::vector<std::vector<uint8_t>>& frames,
                const std::string& comment = {}) {
  Mp4Writer writer(file, helper, options(static_cast<int>(frames.size()), comment));
  for (const auto& frame : frames) writer.add(frame);
  writer.finish();
}

std::string noisy_frame(unsigned seed) {
  std::string frame(frame_bytes, '\0');
  for (char& c : frame) c = static_cast<char>((seed = seed * 1664525u + 1013904223u) >> 24);
  return frame;
}

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST_F(Mp4, KeepsFlatColoursAndRamps) {
  const std::vector<std::vector<uint8_t>> frames{
      flat(255, 0, 0),     flat(0, 255, 0),    flat(0, 0, 255), flat(128, 128, 128),
      flat(255, 255, 255), flat(200, 120, 40), flat(0, 0, 0),   ramp()};
  write_clip(folder / "x.mp4", frames);
  const Video video = read_mp4(folder / "x.mp4", helper);
  ASSERT_EQ(video.frames, 8);
  EXPECT_EQ(video.width, width);
  EXPECT_EQ(video.height, height);
  EXPECT_EQ(video.fps, 16);
  for (size_t i = 0; i < frames.size(); ++i)
    EXPECT_LE(largest_difference(frames[i], std::span(video.rgb).subspan(i * frame_bytes, frame_bytes)), 3) << i;
}

TEST_F(Mp4, IsTaggedForEveryPlayer) {
  const std::string comment = R"({"seed":7,"prompt":"caf\u00e9 \"x\""})";
  write_clip(folder / "x.mp4", {flat(1, 2, 3), flat(4, 5, 6)}, comment);
  EXPECT_EQ(probe_mp4(folder / "x.mp4", helper), Json({{"codec", "h264"},
                                                       {"profile", "High"},
                                                       {"pix_fmt", "yuv420p"},
                                                       {"width", width},
                                                       {"height", height},
                                                       {"frames", 2},
                                                       {"fps", "16/1"},
                                                       {"primaries", "bt709"},
                                                       {"transfer", "bt709"},
                                                       {"matrix", "bt709"},
                                                       {"range", "tv"},
                                                       {"faststart", true},
                                                       {"comment", comment}}));
}

TEST_F(Mp4, IsTheSameBytesEachTime) {
  for (const char* name : {"a.mp4", "b.mp4"}) {
    Mp4Writer writer(folder / name, helper, options(12));
    for (unsigned i = 0; i < 12; ++i) writer.add(bytes_of(noisy_frame(i)));
    writer.finish();
  }
  EXPECT_EQ(read_file(folder / "a.mp4", 10u << 20), read_file(folder / "b.mp4", 10u << 20));
}

TEST_F(Mp4, TakesNamesThatLookLikeAddresses) {
  write_clip(folder / "http:x.mp4", {flat(9, 9, 9)});
  EXPECT_EQ(read_mp4(folder / "http:x.mp4", helper).frames, 1);
}

TEST_F(Mp4, LeavesNothingWhenItIsDropped) {
  {
    Mp4Writer writer(folder / "x.mp4", helper, options(100));
    for (unsigned i = 0; i < 50; ++i) writer.add(bytes_of(noisy_frame(i)));
  }
  EXPECT_EQ(folder.count(), 0u);
}

TEST_F(Mp4, StopsWhenAsked) {
  std::stop_source stop;
  stop.request_stop();
  {
    Mp4Writer writer(folder / "x.mp4", helper, options(2));
    for (int i = 0; i < 2; ++i) writer.add(ramp());
    EXPECT_EQ(words([&] { writer.finish(stop.get_token()); }),
              (folder / "x.mp4").string() + ": cancelled while it was encoded");
  }
  EXPECT_EQ(folder.count(), 0u);
}

TEST_F(Mp4, RefusesWrongFramesAndSizes) {
  const std::string name = (folder / "x.mp4").string();
  EXPECT_EQ(words([&] {
              Mp4Writer(name, helper, {15, 16, 1, 16, ""});
            }),
            name + ": a video of 15x16; H.264 needs even sides");
  EXPECT_EQ(words([&] { Mp4Writer(name, helper, {16, 16, 0, 16, ""}); }), name + ": a video of 0 frames");
  Mp4Writer writer(name, helper, options(1));
  EXPECT_EQ(words([&] { writer.add(std::vector<uint8_t>(5)); }), name + ": a frame of 5 bytes for 256x64");
  EXPECT_EQ(words([&] { writer.finish(); }), name + ": 0 of 1 frames were given");
  writer.add(ramp());
  EXPECT_EQ(words([&] { writer.add(ramp()); }), name + ": more than the 1 frames announced");
}

TEST_F(Mp4, RefusesAPlaceThatCannotBeWritten) {
  EXPECT_EQ(words([] { Mp4Writer("/nowhere/x.mp4", helper, options(1)); }),
            "/nowhere/x.mp4: cannot be written: No such file or directory");
  EXPECT_EQ(words([] { Mp4Writer("/proc/x.mp4", helper, options(1)); }),
            "/proc/x.mp4: cannot be written: No such file or directory");
}

// A file system of 256 KiB, if this user may mount one.
struct TinyDisk {
  explicit TinyDisk(fs::path at) : path(std::move(at)) {
    fs::create_directory(path);
    mounted = ::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=256k") == 0;
  }
  ~TinyDisk() {
    if (mounted) ::umount(path.c_str());
  }
  fs::path path;
  bool mounted = false;
};

TEST_F(Mp4, NamesAFullDisk) {
  const TinyDisk disk(folder / "disk");
  if (!disk.mounted) GTEST_SKIP() << "this user may not mount a small file system";
  const fs::path target = disk.path / "x.mp4";
  const std::string said = words([&] {
    Mp4Writer writer(target, helper, options(60));
    for (unsigned i = 0; i < 60; ++i) writer.add(bytes_of(noisy_frame(i)));
    writer.finish();
  });
  EXPECT_EQ(said, target.string() + ": the encoder zoetrope-mp4 failed: No space left on device");
  EXPECT_TRUE(fs::is_empty(disk.path));
}

// A program that stands in for the helper.
fs::path script(const TempFolder& folder, const std::string& body) {
  const fs::path file = folder.put("zoetrope-mp4", "#!/bin/sh\n" + body + "\n");
  fs::permissions(file, fs::perms::owner_all);
  return file;
}

std::string write_with(const fs::path& program, const fs::path& file) {
  return words([&] {
    Mp4Writer writer(file, program, options(400));
    for (unsigned i = 0; i < 400; ++i) writer.add(ramp());
    writer.finish();
  });
}

TEST_F(Mp4, SaysHowTheHelperEnded) {
  const std::string name = (folder / "x.mp4").string();
  const TempFolder bin;
  EXPECT_EQ(write_with(script(bin, "kill -9 $$"), name), name + ": the encoder zoetrope-mp4 was killed (signal 9)");
  EXPECT_EQ(write_with(script(bin, "echo no more of this >&2; exit 3"), name),
            name + ": the encoder zoetrope-mp4 failed: no more of this");
  EXPECT_EQ(write_with(script(bin, "cat > /dev/null; exit 3"), name),
            name + ": the encoder zoetrope-mp4 ended with status 3");
  EXPECT_EQ(folder.count(), 0u);
}

TEST_F(Mp4, DoesNotRaiseSigpipe) {
  struct sigaction before {};
  sigaction(SIGPIPE, nullptr, &before);
  EXPECT_EQ(before.sa_handler, SIG_DFL);
  const TempFolder bin;
  write_with(script(bin, "exit 1"), folder / "x.mp4");  // a raised SIGPIPE would end this process
}

TEST_F(Mp4, IsLookedForBesideTheProgramThenOnPath) {
  const TempFolder bin;
  const fs::path there = script(bin, "exit 0");
  EXPECT_EQ(find_mp4_helper(bin.path(), ""), there);
  EXPECT_EQ(find_mp4_helper(folder.path(), "/nowhere::" + bin.path().string()), there);
  EXPECT_EQ(words([&] { find_mp4_helper(folder.path(), "/nowhere:"); }),
            "mp4: zoetrope-mp4 is neither in " + folder.path().string() +
                " nor on PATH; build it (CMake option ZOETROPE_MP4, needs FFmpeg's libraries) or write a folder of PNG "
                "frames");
}

TEST_F(Mp4, IsAskedForItsVersionFirst) {
  EXPECT_TRUE(check_mp4_helper(helper).ends_with("libx264)"));
  const TempFolder bin;
  const fs::path other = script(bin, "echo hello");
  EXPECT_EQ(words([&] { check_mp4_helper(other); }),
            "mp4: " + other.string() + " is not zoetrope-mp4; it says \"hello\"");
  script(bin, "echo this FFmpeg has no H.264 encoder >&2; exit 1");
  EXPECT_EQ(words([&] { check_mp4_helper(other); }),
            "mp4: " + other.string() + " does not work here: this FFmpeg has no H.264 encoder");
  EXPECT_EQ(words([&] { check_mp4_helper(folder / "none"); }),
            "mp4: " + (folder / "none").string() + " does not work here: " + (folder / "none").string() +
                ": cannot be started: No such file or directory");
}

// Silent; with its output closed; and with a child of its own that holds the output open.
TEST_F(Mp4, AHelperThatNeverEndsIsStopped) {
  const TempFolder bin;
  for (const char* body : {"exec sleep 60", "exec sleep 60 >&- 2>&-", "echo zoetrope-mp4 1; sleep 60 & exit 0"}) {
    const fs::path other = script(bin, body);
    const Stopwatch watch;
    EXPECT_EQ(words([&] { check_mp4_helper(other, std::chrono::milliseconds(300)); }),
              "mp4: " + other.string() + " does not work here: it did not end within 0.3 s and was stopped");
    EXPECT_GE(watch.seconds(), 0.3);
    EXPECT_LT(watch.seconds(), 10);
  }
}

// Reading: the same, but a helper that goes on giving may take as long as it likes.
TEST_F(Mp4, AHelperThatFallsSilentIsStopped) {
  const TempFolder bin;
  const fs::path file = folder / "x.mp4";
  for (const char* body :
       {"exec sleep 60", "exec sleep 60 >&- 2>&-", "echo size 2x2 frames 2 fps 16/1; sleep 60 & exit 0"}) {
    const fs::path other = script(bin, body);
    const Stopwatch watch;
    const std::string said = file.string() + ": zoetrope-mp4 gave nothing for 0.3 s and was stopped";
    EXPECT_EQ(words([&] { read_mp4(file, other, std::chrono::milliseconds(300)); }), said);
    EXPECT_EQ(words([&] { probe_mp4(file, other, std::chrono::milliseconds(300)); }), said);
    EXPECT_LT(watch.seconds(), 20);
  }
  const std::string frame = "sleep 0.4; printf 012345678901; ";
  script(bin, "echo size 2x2 frames 6 fps 16/1; " + frame + frame + frame + frame + frame + frame);
  EXPECT_EQ(read_mp4(file, bin / "zoetrope-mp4", std::chrono::seconds(2)).frames, 6);
}

TEST_F(Mp4, AHelperMayComplainAtLength) {  // more than a pipe holds, before it says anything else
  const TempFolder bin;
  const fs::path other = script(bin, "head -c 200000 /dev/zero >&2; echo zoetrope-mp4 1");
  EXPECT_EQ(check_mp4_helper(other), "zoetrope-mp4 1");
}

TEST_F(Mp4, ReadingNamesAFileThatIsNoVideo) {
  folder.put("x.mp4", "not a video");
  const std::string name = (folder / "x.mp4").string();
  EXPECT_EQ(words([&] { read_mp4(name, helper); }), name + ": Invalid data found when processing input");
  EXPECT_EQ(words([&] { read_mp4(folder / "none.mp4", helper); }),
            (folder / "none.mp4").string() + ": No such file or directory");
}

// The helper by hand: `frames` of 256x64 announced, `given` bytes on its input.
std::string run_helper(std::vector<std::string> arguments, size_t given) {
  FdPair in = make_socket_pair(), errors = make_pipe();
  Child child(helper, arguments, in.theirs.get(), -1, errors.theirs.get());
  in.theirs.reset();
  errors.theirs.reset();
  const std::string zeros(given, '\0');
  for (size_t sent = 0; sent < given;) {
    const ssize_t n = ::send(in.ours.get(), zeros.data() + sent, given - sent, MSG_NOSIGNAL);
    if (n <= 0) break;
    sent += static_cast<size_t>(n);
  }
  in.ours.reset();
  std::string said;
  char buffer[512];
  for (ssize_t n; (n = ::read(errors.ours.get(), buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<size_t>(n));
  return said + child.wait();
}

TEST_F(Mp4, HelperRemovesItsFileWhenFramesAreMissing) {  // its parent died, say
  const std::string out = (folder / "x.mp4").string();
  EXPECT_EQ(
      run_helper({"--encode", "--size", "256x64", "--frames", "3", "--fps", "16", "--out", out}, 2 * frame_bytes + 5),
      "the input ended after 2 of 3 frames\nended with status 1");
  EXPECT_EQ(folder.count(), 0u);
}

TEST_F(Mp4, HelperRefusesArgumentsByTheirNames) {
  const auto encode = [&](const std::string& size, const std::string& fps) {
    return run_helper({"--encode", "--size", size, "--frames", "1", "--fps", fps, "--out", (folder / "x").string()}, 0);
  };
  const std::string status = "\nended with status 1";
  EXPECT_EQ(encode("15x16", "16"),
            "--size 15x16: WxH with even sides up to 16384 is expected (4:2:0 has no odd ones)" + status);
  EXPECT_EQ(encode("ax16", "16"), "--size a: a whole number from 1 to 1000000 is expected" + status);
  EXPECT_EQ(encode("16x16", "often"), "--fps often: a rate like 16 or 24000/1001 is expected" + status);
  EXPECT_EQ(run_helper({"--encode", "--fps", "16"}, 0), "--size is missing, see --help" + status);
  EXPECT_EQ(run_helper({"--play"}, 0), "unknown argument --play, see --help" + status);
}

}  // namespace
}  // namespace zoetrope
