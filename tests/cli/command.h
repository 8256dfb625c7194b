// The built program, a toy for it, and what a refusal must look like: one line on stderr, nothing on stdout, no file.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/toy.h"
#include "io/temp_folder.h"
#include "support/run_program.h"

namespace zoetrope {

using Words = std::vector<std::string>;

inline const std::string program_file = ZOETROPE_BINARY_DIR "/bin/zoetrope";

inline Ran zoetrope(const Words& arguments, const Program::Setting& setting = {}) {
  return run_program(program_file, arguments, setting);
}

// Made once a process.
inline std::filesystem::path toy(const std::string& kind = "wan") {
  static const TempFolder folder;
  if (!std::filesystem::exists(folder / kind)) write_toy(kind, folder / kind, 0);
  return folder / kind;
}

inline Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A request that takes a second; more options may follow.
inline Words generate(const std::string& model, const std::string& out) {
  return {"generate", "--model", model, "--out",        out, "--prompt", "a cat", "--size",
          "64x48",    "--steps", "2",   "--num-frames", "5", "--seed",   "7"};
}

inline void expect_refusal(const Ran& ran, const std::string& words, int status = 2) {
  EXPECT_EQ(ran.status, status);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(ran.err, "zoetrope: " + words + "\n");
}

// A refusal, and nothing left in a folder that was empty.
struct Refused : testing::Test {
  TempFolder folder;
  std::string out = (folder / "x.mp4").string();

  void expect(const Words& arguments, const std::string& words, const Program::Setting& setting = {}) {
    const size_t before = folder.count();
    expect_refusal(zoetrope(arguments, setting), words);
    EXPECT_EQ(folder.count(), before);
  }
};

}  // namespace zoetrope
