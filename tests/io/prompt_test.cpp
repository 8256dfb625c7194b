#include "io/prompt.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/words.h"

namespace zoetrope {
namespace {

// [prompt, what ftfy and html.unescape make of it]; recorded by record_facts.py.
TEST(Prompt, IsCleanedAsDiffusersDoes) {
  const Json facts = read_json(ZOETROPE_SOURCE_DIR "/tests/io/data/prompts.json");
  ASSERT_GE(facts["cases"].size(), 50u);
  for (const Json& item : facts["cases"]) {
    const auto prompt = item[0].get<std::string>(), expected = item[1].get<std::string>();
    EXPECT_EQ(clean_prompt(prompt), expected) << item[0].dump(-1, ' ', true);
  }
}

TEST(Prompt, OfPlainTextIsLeftAlone) {
  std::string ascii;
  for (char c = '!'; c < 127; ++c)
    if (c != '&') ascii.push_back(c);
  EXPECT_EQ(clean_prompt(ascii), ascii);
}

TEST(Prompt, LeavesMojibakeAsItIs) { EXPECT_EQ(clean_prompt("s\u00c3\u00b3"), "s\u00c3\u00b3"); }

// Each round takes one level off: without a bound 64 KiB of it keep a processor busy for minutes.
TEST(Prompt, RefusesEntitiesWithinEntitiesWithoutEnd) {
  const auto nested = [](int levels) {
    std::string text = "&";
    for (int i = 0; i < levels; ++i) text += "amp;";
    return text + "lt;";
  };
  EXPECT_EQ(clean_prompt(nested(90)), "<");
  EXPECT_EQ(words([&] { clean_prompt(nested(16'000)); }),
            "prompt: one part of it stands for another more than 100 levels deep; write the text itself");
}

TEST(Prompt, RefusesNulAndInvalidUtf8ByPosition) {
  using namespace std::string_view_literals;
  EXPECT_EQ(words([] { clean_prompt("a\0b"sv); }), "prompt: byte 1 is NUL; a prompt is text");
  EXPECT_EQ(words([] { clean_prompt("caf\xe9"); }), "prompt: byte 3 (0xe9) is not valid UTF-8");
  EXPECT_EQ(words([] { clean_prompt("\xc3\xa9\xed\xa0\x80"); }), "prompt: byte 2 (0xed) is not valid UTF-8");
  EXPECT_EQ(words([] { clean_prompt("\xc0\x80"); }), "prompt: byte 0 (0xc0) is not valid UTF-8");
  EXPECT_EQ(words([] { clean_prompt("ab\xf0\x9f\x98"); }), "prompt: byte 2 (0xf0) is not valid UTF-8");
}

TEST(Prompt, RefusesAMegabyte) {
  EXPECT_EQ(words([] { clean_prompt(std::string(1u << 20, 'a')); }),
            "prompt: 1048576 bytes, more than the 65536 allowed; the model reads about 500 words of it at most");
  EXPECT_EQ(clean_prompt(std::string(max_prompt_bytes, 'a')).size(), max_prompt_bytes);
}

TEST(Prompt, OfTheWorstKindIsStillQuick) {  // many references that end nowhere, each tried at every length
  std::string ampersands;
  while (ampersands.size() + 33 < max_prompt_bytes) ampersands += "&" + std::string(32, 'z');
  EXPECT_EQ(clean_prompt(ampersands), ampersands);
}

}  // namespace
}  // namespace zoetrope
