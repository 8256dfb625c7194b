// Surroundings that are not the usual: closed or full streams, low limits, names that mean one file.
#include <algorithm>

#include "cli/command.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

// The program under a shell, which prepares something and redirects.
Ran in_shell(const std::string& before, const Words& arguments, const std::string& after) {
  return run_program("/bin/sh", Words{"-c", before + " \"$0\" \"$@\" " + after, program_file} + arguments);
}

std::string bytes_of_file(const fs::path& file) { return read_file(file, 64u << 20); }

// A closed descriptor is the next that the system gives out: progress must not land in the video.
TEST(Streams, ThatAreClosedMeetNoFile) {
  const TempFolder folder;
  for (const auto& [name, closed] : {std::pair{"open", ""}, {"err", "2>&-"}, {"all", "<&- >&- 2>&-"}}) {
    const fs::path out = folder / (std::string(name) + ".safetensors");
    EXPECT_EQ(in_shell("exec", generate(toy().string(), out.string()), closed).status, 0) << name;
    EXPECT_EQ(bytes_of_file(out), bytes_of_file(folder / "open.safetensors")) << name;
  }
}

TEST(Streams, ThatAreFullOrCannotBeReadAreNamed) {
  const TempFolder folder;
  const Ran full = in_shell("exec", {"inspect", toy().string()}, ">/dev/full");
  expect_refusal(full, "standard output: cannot be written: No space left on device");
  const Words words{"generate", "--model", toy().string(), "--prompt-file", "-", "--out", (folder / "x.mp4").string()};
  expect_refusal(in_shell("exec", words, "<&-"), "prompt: standard input cannot be read: Bad file descriptor");
  expect_refusal(in_shell("exec", words, "</"), "prompt: standard input cannot be read: Is a directory");
  EXPECT_EQ(folder.count(), 0u);
}

TEST(Streams, WhoseReaderGoesAwayEndNoJob) {
  const TempFolder folder;
  const std::string out = (folder / "x.safetensors").string();
  in_shell("", generate(toy().string(), out), "2>&1 >/dev/null | head -n 1");
  EXPECT_TRUE(fs::exists(out));
}

TEST(Limits, OnTheSizeOfAFileLeaveNothing) {
  const TempFolder folder;
  for (const auto& [name, words] : {std::pair{"x.safetensors", "/x.safetensors: write failed: File too large"},
                                    {"x.mp4", "/x.mp4: the encoder zoetrope-mp4 failed: File too large"}}) {
    const std::string out = (folder / name).string();
    const Ran ran = in_shell("ulimit -f 4; exec", generate(toy().string(), out) + Words{"--quiet"}, "");
    expect_refusal(ran, folder.path().string() + words);
    EXPECT_EQ(folder.count(), 0u) << name;
  }
  const Words load{"bench",    "load", "--model",  toy().string(),
                   "--stored", "bf16", "--folder", (folder / "a/b").string()};
  expect_refusal(
      in_shell("ulimit -f 100; exec", load, ""),
      (folder / "a/b/transformer/diffusion_pytorch_model.safetensors").string() + ": write failed: File too large");
  EXPECT_EQ(folder.count(), 0u);
}

// Address ranges are reserved by the half terabyte: under a limit that must not count.
TEST(Limits, OnAddressesLeaveAToyItsRoomAndAreNamedWhereTheyDoNot) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory takes more addresses than any limit leaves";
#endif
  const TempFolder folder;
  const std::string out = (folder / "x.safetensors").string();
  const Words words = generate(toy().string(), out) + Words{"--quiet", "--threads", "2"};
  EXPECT_EQ(in_shell("ulimit -v 2097152; exec", words, "").status, 0);  // 2 GiB
  fs::remove(out);
  Words larger = words;
  *std::ranges::find(larger, "64x48") = "1024x1024";
  const Ran ran = in_shell("ulimit -v 524288; exec", larger, "");
  EXPECT_EQ(ran.status, 3);
  EXPECT_TRUE(ran.err.starts_with("zoetrope: memory: this request needs ")) << ran.err;
  EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << ran.err;
  EXPECT_EQ(folder.count(), 0u);
}

struct Names : Refused {
  void expect_bad(const Words& more, const std::string& words) { expect(generate(toy().string(), out) + more, words); }
};

TEST_F(Names, ThatMeanTheVideoAreRefused) {
  const std::string other = folder.path().string() + "/./x.mp4", png = (folder / "s.png").string();
  expect_bad({"--report", other}, "report: " + other + " is the name of the video, too; give another");
  expect_bad({"--report", png, "--contact-sheet", png},
             "report: " + png + " is the name of the contact sheet, too; give another");
  out = (folder / "frames").string() + "/";
  expect_bad({"--contact-sheet", out + "s.png"},
             "contact-sheet: " + out + "s.png would lie among the frames, where nothing else may; give a name outside");
}

TEST_F(Names, ThatCannotBeWrittenAreFoundBeforeTheVideo) {
  const std::string here = folder.path().string(), none = (folder / "none/s.png").string();
  expect_bad({"--report", here}, "report: " + here + ": is a folder; name a file");
  expect_bad({"--report", "/dev/null"},
             "report: /dev/null: is no regular file, such as a device or a pipe; name a file");
  expect_bad({"--contact-sheet", none}, "contact-sheet: " + none + ": cannot be written: No such file or directory");
}

TEST_F(Names, ThatAreEmptyAreRefused) {
  for (const std::string option : {"--report", "--latents", "--contact-sheet", "--threads", "--config"})
    expect_bad({option, ""}, "option " + option + ": its value is empty; give one, or leave the option out");
  EXPECT_EQ(zoetrope(generate(toy().string(), out) + Words{"--negative-prompt", ""}).status, 0);
}

TEST_F(Refused, MoreThreadsThanMakeSense) {
  expect(generate(toy().string(), out) + Words{"--threads", "1000000000"},
         "threads: 1000000000 asked for, 1 to 4096 make sense");
}

TEST(Toys, LeaveNothingWhenStopped) {
  const TempFolder folder;
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(write_toy("wan", folder / "toy", 0, stop.get_token()), Error);
  EXPECT_EQ(folder.count(), 0u);
}

}  // namespace
}  // namespace zoetrope
