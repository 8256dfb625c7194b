// Requests that cannot be granted, by the words the user reads; one line, nothing left behind.
#include <sys/mount.h>

#include "cli/command.h"
#include "io/safetensors.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

struct BadRequest : Refused {
  void expect_bad(const Words& more, const std::string& words, const Program::Setting& setting = {}) {
    expect(without_repeats(generate(toy().string(), out), more) + more, words, setting);
  }

  // An option given in `more` replaces the one of the usual request.
  static Words without_repeats(const Words& usual, const Words& more) {
    Words kept{usual[0]};
    for (size_t i = 1; i + 1 < usual.size(); i += 2)
      if (std::ranges::find(more, usual[i]) == more.end()) kept = kept + Words{usual[i], usual[i + 1]};
    return kept;
  }
};

TEST_F(BadRequest, WithNumbersOutOfRange) {
  expect_bad({"--steps", "0"}, "steps: 0 is outside 1 to 1000");
  expect_bad({"--steps", "1001"}, "steps: 1001 is outside 1 to 1000");
  expect_bad({"--steps", "1\n2"}, "steps: \"1?2\" is not a whole number");  // still one line
  expect_bad({"--guidance-scale", "-1"}, "guidance_scale: -1 is outside 0 to 100");
  expect_bad({"--guidance-scale", "nan"}, "guidance_scale: nan is outside 0 to 100");
  expect_bad({"--seed", "-1"}, "seed: \"-1\" is not a whole number of 0 or more");
  expect_bad({"--seed", "18446744073709551616"}, "seed: 18446744073709551616 is out of range");
  expect_bad({"--seed", "0x7"}, "seed: \"0x7\" is not a whole number of 0 or more");
  expect_bad({"--size", "1281x720"}, "size: width 1281 is not a multiple of 16; use 1280 or 1296");
  expect_bad({"--size", "64x7z"}, "size: height: \"7z\" is not a whole number");
  expect_bad({"--width", "64"}, "size: --size excludes --width and --height; give one or the other");
  expect_bad({"--size", "720p"}, "size: \"720p\" is not WIDTHxHEIGHT, as in 832x480");
  expect_bad({"--num-frames", "80"}, "num_frames: 80 is not 4k + 1; use 77 or 81, or a frames policy (floor, ceil)");
  expect_bad({"--flow-shift", "0"}, "flow_shift: 0 is outside 0.001 to 1000");
  expect_bad({"--fps", "0"}, "fps: 0 is outside 1 to 240");
}

TEST_F(BadRequest, WithWordsThatAreNotKnown) {
  expect_bad({"--device", "tpu"}, "device \"tpu\" is not known; use cpu or cuda");
  expect_bad({"--device", "cuda"}, "device cuda: this build has no CUDA back end; use --device cpu");
  expect_bad({"--dtype", "fp16"}, "dtype \"fp16\" is not known; use fp32 or bf16");
  expect_bad({"--schedule", "karras"}, "schedule: \"karras\" is not one of diffusers|native");
  expect_bad({"--noise", "pink"},
             "noise: 'pink' is not one of the forms torch-cpu, torch-cuda:132x8 (multiprocessors x blocks of 256 "
             "threads on each; 132x8 is an H200)");
  expect_bad({"--lora", "x.safetensors"}, "option --lora is not known (zoetrope generate --help lists all)");
  expect_bad({"--guidance-scale-2", "3"},
             "guidance_scale_2: the model has one expert; this belongs to models with two");
}

TEST_F(BadRequest, WithAPromptThatIsNotText) {
  expect_bad({"--prompt", "a\xff"}, "prompt: byte 1 (0xff) is not valid UTF-8");
  expect_bad({"--negative-prompt", "a\xff", "--guidance-scale", "1"},
             "negative prompt: byte 1 (0xff) is not valid UTF-8");
  expect_bad({"--prompt", std::string(100'000, 'a')},
             "prompt: 100000 bytes, more than the 65536 allowed; the model reads about 500 words of it at most");
}

TEST_F(BadRequest, WithAPromptFileThatIsNotText) {
  Words arguments = generate(toy().string(), out);
  arguments.erase(arguments.begin() + 5, arguments.begin() + 7);  // --prompt "a cat"
  Program::Setting nul, large;
  nul.input = std::string("a\0b", 3);
  large.input = std::string(1 << 20, 'a');
  expect(arguments + Words{"--prompt-file", "-"}, "prompt: byte 1 is NUL; a prompt is text", nul);
  expect(arguments + Words{"--prompt-file", "-"},
         "prompt: standard input holds more than the 65536 bytes allowed; the model reads about 500 words at most",
         large);
  const TempFolder files;
  const std::string file = files.put("large.txt", large.input).string(), none = (files / "none.txt").string();
  expect(arguments + Words{"--prompt-file", file}, file + ": 1048576 bytes, more than the 65536 allowed here");
  expect(arguments + Words{"--prompt-file", none}, none + ": cannot be opened: No such file or directory");
  expect(arguments, "prompt: none given; use --prompt TEXT or --prompt-file FILE");
  expect_bad({"--prompt-file", file}, "prompt: --prompt and --prompt-file exclude each other");
}

TEST_F(BadRequest, WithAnOutputThatCannotBeWritten) {
  const std::string none = (folder / "none").string();
  expect_bad({"--out", none + "/x.mp4"}, "out: " + none + " is not a folder; make it first");
  expect_bad({"--out", "/proc/x.mp4"}, "out: /proc/x.mp4: cannot be written: No such file or directory");
  expect_bad({"--out", (folder / "x.avi").string()},
             "out: " + (folder / "x.avi").string() +
                 ": files of kind .avi are not written; use .mp4, .safetensors, or a folder for PNG files (end its "
                 "name with a slash)");
  expect_bad({"--report", none + "/r.json"},
             "report: " + none + "/r.json: cannot be written: No such file or directory");
  expect_bad({"--report", out}, "report: " + out + " is the name of the video, too; give another");
}

TEST_F(BadRequest, WithoutTheEncoder) {
  const TempFolder bin;
  fs::copy_file(program_file, bin / "zoetrope");
  Program::Setting setting;
  setting.environment = {{"PATH", "/nowhere"}};
  expect_refusal(run_program((bin / "zoetrope").string(), generate(toy().string(), out), setting),
                 "mp4: zoetrope-mp4 is neither in " + bin.path().string() +
                     " nor on PATH; build it (CMake option ZOETROPE_MP4, needs FFmpeg's libraries) or write a folder "
                     "of PNG frames");
  EXPECT_EQ(folder.count(), 0u);
}

TEST_F(BadRequest, WithTooLittleMemory) {
  const Ran ran = zoetrope(without_repeats(generate(toy().string(), out), {"--size", "--num-frames"}) +
                           Words{"--size", "8192x8192", "--num-frames", "1001"});
  EXPECT_EQ(ran.status, 3);
  EXPECT_TRUE(ran.err.starts_with("zoetrope: ")) << ran.err;
  EXPECT_NE(ran.err.find("memory: "), std::string::npos) << ran.err;
  EXPECT_TRUE(ran.err.ends_with(" would fit\n")) << ran.err;
  EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1);
  EXPECT_EQ(folder.count(), 0u);
}

TEST_F(BadRequest, WithLatentsOfAnotherShape) {
  const TempFolder files;
  const std::string file = (files / "l.safetensors").string();
  std::vector<float> values(2 * 6 * 8 * 16, 0.5f);
  const auto put = [&](const char* name, const Shape& shape) {
    write_safetensors(file, {{name, Tensor(values.data(), shape, DType::f32)}});
  };
  expect_bad({"--latents", file}, file + ": cannot be opened: No such file or directory");
  put("x", {2, 6, 8, 16});
  expect_bad({"--latents", file}, file + ": holds no tensor \"latents\"");
  put("latents", {2, 8, 6, 16});
  expect_bad({"--latents", file}, file +
                                      ": latents are [2, 8, 6, 16] fp32, this request needs [2, 6, 8, 16] fp32 "
                                      "(frames, rows, columns, channels)");
}

// A file system of 16 KiB, if this user may mount one.
struct TinyDisk {
  explicit TinyDisk(fs::path at) : path(std::move(at)) {
    fs::create_directory(path);
    mounted = ::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=16k") == 0;
  }
  ~TinyDisk() {
    if (mounted) ::umount(path.c_str());
  }
  fs::path path;
  bool mounted = false;
};

TEST_F(BadRequest, WithAFullDisk) {
  const TinyDisk disk(folder / "disk");
  if (!disk.mounted) GTEST_SKIP() << "this user may not mount a small file system";
  const std::string here = disk.path.string();
  for (const auto& [name, words] :
       {std::pair{"x.mp4", "/x.mp4: the encoder zoetrope-mp4 failed: No space left on device"},
        {"x.safetensors", "/x.safetensors: write failed: No space left on device"}}) {
    const Ran ran =
        zoetrope(BadRequest::without_repeats(generate(toy().string(), here + "/" + name), {"--num-frames"}) +
                 Words{"--num-frames", "17", "--quiet"});
    expect_refusal(ran, here + words);
    EXPECT_TRUE(fs::is_empty(disk.path)) << name;
  }
  const Ran images = zoetrope(generate(toy().string(), here + "/frames") + Words{"--quiet"});
  expect_refusal(images, here + "/frames/frame_0002.png: write failed: No space left on device");
  EXPECT_TRUE(fs::is_empty(disk.path));
}

}  // namespace
}  // namespace zoetrope
