#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/units.h"
#include "support/words.h"

namespace zoetrope {
namespace {

std::string sha(std::string_view text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text.data(), text.size())));
  return hash.hex();
}

TEST(Sha256, GivesTheStandardsExamples) {
  EXPECT_EQ(sha(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Json, RefusesDuplicateKeysAndDeepNesting) {
  EXPECT_EQ(words([] { parse_json(R"({"a":1,"a":2})", "f.json"); }), "f.json: key \"a\" is given twice");
  EXPECT_EQ(words([] { parse_json(std::string(100, '[') + std::string(100, ']'), "f.json"); }),
            "f.json: nested deeper than 64 levels");
  EXPECT_EQ(words([] { parse_json("{\"a\":", "f.json"); }), "f.json: not valid JSON at byte 6");
}

TEST(Json, RefusesANumberThatNoTypeHolds) {
  EXPECT_EQ(words([] { parse_json("[1e999]", "f.json"); }), "f.json: holds a number that is out of range");
}

TEST(Json, NamesAValueOfTheWrongType) {
  const Json object = parse_json(R"({"n":"x"})", "f.json");
  EXPECT_EQ(words([&] { value_or(object, "n", 1); }), "\"n\" is \"x\", which is a string");
  EXPECT_EQ(value_or(object, "absent", 7), 7);
}

TEST(Json, ConvertsNoValueToOneItIsNot) {
  const Json object = parse_json(R"({"yes":true,"half":1.5,"whole":16.0,"wraps":4294967297,"most":18446744073709551615,
                                     "far":1e300,"list":[1,2.5],"text":"1"})",
                                 "f.json");
  EXPECT_EQ(value_or(object, "whole", 1), 16);
  EXPECT_EQ(value_or(object, "wraps", int64_t{1}), 4294967297);
  EXPECT_EQ(words([&] { value_or(object, "yes", 1); }), "\"yes\" is true, which is a boolean");
  EXPECT_EQ(words([&] { value_or(object, "yes", 1.0f); }), "\"yes\" is true, which is a boolean");
  EXPECT_EQ(words([&] { value_or(object, "half", 1); }), "\"half\" is 1.5, which is not a whole number");
  EXPECT_EQ(words([&] { value_or(object, "wraps", 1); }), "\"wraps\" is 4294967297, which is out of range");
  EXPECT_EQ(words([&] { value_or(object, "most", int64_t{1}); }),
            "\"most\" is 18446744073709551615, which is out of range");
  EXPECT_EQ(words([&] { value_or(object, "far", 1.0f); }), "\"far\" is 1e+300, which is out of range");
  EXPECT_EQ(words([&] { value_or(object, "list", std::vector<int>{}); }),
            "\"list\" is [1,2.5], in which something is wrong: 2.5, which is not a whole number");
  EXPECT_EQ(words([&] { value_or(object, "text", std::vector<float>{}); }), "\"text\" is \"1\", which is a string");
  const Json large = {{"n", std::string(1000, 'x')}};
  EXPECT_EQ(words([&] { value_or(large, "n", 1); }), "\"n\" is \"" + std::string(79, 'x') + "..., which is a string");
}

TEST(Json, ReadsManyMembersInLinearTime) {
  std::string text = "{\"0\":{}";
  for (int i = 1; i < 200'000; ++i) text += cat(",\"", i, "\":{}");
  EXPECT_EQ(parse_json(text + "}", "f.json").size(), 200'000u);
  const auto all = [](int, Json::parse_event_t, Json&) { return true; };
  EXPECT_EQ(words([&] { parse_json(text + "}", "f.json", all); }), "f.json: holds more than 16384 objects");
}

TEST(Yaml, ReadsScalarsByTheCoreRules) {
  const Json tree = parse_yaml("a: 3\nb: [1.5, true, ~, x]\nc: '3'\nd: {e: -1}\n", "f.yml");
  EXPECT_EQ(tree, Json::parse(R"({"a":3,"b":[1.5,true,null,"x"],"c":"3","d":{"e":-1}})"));
}

TEST(Yaml, RefusesAKeyGivenTwice) {
  EXPECT_EQ(words([] { parse_yaml("a: 1\na: 2\n", "f.yml"); }), "f.yml: line 2: key \"a\" is given twice");
}

TEST(Files, AppearWholeOrNotAtAll) {
  const auto target = std::filesystem::temp_directory_path() / cat("zoetrope-base-", ::getpid());
  {
    AtomicFile out(target);
    out.write("half");
    EXPECT_TRUE(std::filesystem::exists(out.part()));
  }
  EXPECT_FALSE(std::filesystem::exists(target));
  write_file(target, "whole");
  EXPECT_EQ(read_file(target, 10), "whole");
  EXPECT_EQ(words([&] { read_file(target, 2); }), target.string() + ": 5 bytes, more than the 2 allowed here");
  std::filesystem::remove(target);
  EXPECT_EQ(words([&] { read_file(target, 2); }), target.string() + ": cannot be opened: No such file or directory");
}

TEST(Files, ReplaceWhatALinkLeadsToAndNoDevice) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / cat("zoetrope-base-links-", ::getpid());
  fs::create_directory(folder);
  write_file(folder / "file", "old");
  fs::create_symlink("file", folder / "link");
  write_file(folder / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "file", 10), "new");
  fs::create_symlink("nowhere", folder / "broken");
  write_file(folder / "broken", "whole");
  EXPECT_EQ(read_file(folder / "broken", 10), "whole");

  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink("pipe", folder / "to_pipe");
  for (const fs::path& name : {pipe, folder / "to_pipe"})
    EXPECT_EQ(words([&] { write_file(name, "x"); }),
              name.string() + ": is no regular file, such as a device or a pipe; name a file");
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(words([&] { write_file(folder, "x"); }), folder.string() + ": is a folder; name a file");
  fs::remove_all(folder);
}

// Small reads, and large ones that go on with the descriptor of the one before or have their own.
TEST(Files, AreReadAsTheyWereOpenedWhateverHasTheirNameByNow) {
  const auto file = std::filesystem::temp_directory_path() / cat("zoetrope-base-opened-", ::getpid());
  std::string text(3 << 20, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i / 1000);
  write_file(file, text);
  const InputFile opened(file);
  write_file(file, std::string(text.size(), 'x'));
  const size_t mib = size_t{1} << 20;
  for (const auto& [from, bytes] : {std::pair{size_t{999'999}, 2 * mib},
                                    {size_t{5}, size_t{7}},
                                    {size_t{3}, mib},
                                    {mib + 3, mib},
                                    {mib + 3, mib},
                                    {2 * mib, mib}}) {
    std::string read(bytes, 'y');
    opened.read(from, std::as_writable_bytes(std::span(read)));
    EXPECT_TRUE(read == text.substr(from, bytes)) << from;
  }
  std::string more(size_t{2} << 20, 'y');
  EXPECT_NE(words([&] {
              opened.read(size_t{2} << 20, std::as_writable_bytes(std::span(more)));
            }).find("ends at byte 3145728, it was 3145728"),
            std::string::npos);
  std::filesystem::remove(file);
}

TEST(Units, AreForPeople) {
  EXPECT_EQ(plural(1, "frame") + ", " + plural(5, "frame"), "1 frame, 5 frames");
  EXPECT_EQ(grouped(14'288'491'584) + " " + grouped(-999) + " " + grouped(-1000), "14,288,491,584 -999 -1,000");
  EXPECT_EQ(human_bytes(0) + ", " + human_bytes(1023) + ", " + human_bytes(1024), "0 bytes, 1023 bytes, 1.00 KiB");
  EXPECT_EQ(human_bytes((1 << 20) - 1) + ", " + human_bytes(57'150'000'000), "1.00 MiB, 53.2 GiB");
  EXPECT_EQ(human_flops(6.5221e15) + ", " + human_flops(999.6e9) + ", " + human_flops(129e9),
            "6.52 PFLOP, 1.00 TFLOP, 129 GFLOP");
}

TEST(Deadline, NeverPassesWhenEndless) {
  EXPECT_FALSE(Deadline::never().passed());
  EXPECT_TRUE(Deadline::in(std::chrono::seconds(-1)).passed());
  EXPECT_EQ(Deadline::in(std::chrono::seconds(-1)).left(), Deadline::Clock::duration::zero());
}

}  // namespace
}  // namespace zoetrope
