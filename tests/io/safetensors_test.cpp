#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "io/temp_folder.h"
#include "support/words.h"

namespace zoetrope {
namespace {

// The bytes of a file with this header and `data` bytes after it.
std::string file_of(const std::string& header, size_t data) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[static_cast<size_t>(i)] = static_cast<char>(header.size() >> (8 * i));
  return bytes + header + std::string(data, 'x');
}

std::string refusal_of_bytes(const std::string& bytes) {
  return words([&] { parse_safetensors_header(std::as_bytes(std::span(bytes)), bytes.size(), "f"); });
}

std::string refusal(const std::string& header, size_t data) { return refusal_of_bytes(file_of(header, data)); }

const std::string two = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)";

TEST(SafetensorsHeader, IsReadWithItsMetadataInByteOrder) {
  const std::string bytes = file_of(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[4,8]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"z":{"dtype":"U8","shape":[0,3],"data_offsets":[8,8]}}  )",
      8);
  const SafetensorsHeader header = parse_safetensors_header(std::as_bytes(std::span(bytes)), bytes.size(), "f");
  ASSERT_EQ(header.entries.size(), 3u);
  EXPECT_EQ(header.entries[0].name, "a");
  EXPECT_EQ(header.entries[0].shape, Shape{});
  EXPECT_EQ(header.entries[1].name, "b");
  EXPECT_EQ(header.entries[1].dtype, DType::bf16);
  EXPECT_EQ(header.entries[1].begin, bytes.size() - 4);
  EXPECT_EQ(header.entries[1].end, bytes.size());
  EXPECT_EQ(header.entries[2].shape, (Shape{0, 3}));
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, RefusesRangesThatDoNotCoverTheData) {
  EXPECT_EQ(refusal(two + R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
            "f: tensors \"a\" and \"b\" overlap");
  EXPECT_EQ(refusal(two + R"("b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8),
            "f: tensors \"a\" and \"b\" overlap");
  EXPECT_EQ(refusal(two + R"("b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", 16),
            "f: a hole of 4 bytes before tensor \"b\"");
  EXPECT_EQ(refusal(two + R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})", 15),
            "f: 3 bytes follow the last tensor");
  EXPECT_EQ(refusal("{}", 1), "f: 1 bytes follow the last tensor");
  EXPECT_EQ(refusal("{}", 0), "no error");
}

TEST(SafetensorsHeader, RefusesATruncatedFile) {
  EXPECT_EQ(refusal(two + R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})", 9),
            "f: tensor \"b\" reaches to byte 12 of the data, but only 9 are there; the file is truncated, download it "
            "again");
  EXPECT_EQ(refusal_of_bytes(file_of(two + "}", 8).substr(0, 40)),
            "f: the header needs 55 bytes, but the file ends after 32 of them; it is truncated, download it again");
  EXPECT_EQ(refusal_of_bytes("abc"), "f: 3 bytes, too short for a safetensors file; download it again");
  EXPECT_EQ(refusal_of_bytes(""), "f: is empty; download it again");
}

TEST(SafetensorsHeader, RefusesAHeaderOverTheLimit) {
  std::string bytes = file_of("{}", 0);
  bytes[3] = 6;  // 6 << 24 = 100,663,296, and the 2 that is there
  EXPECT_EQ(refusal_of_bytes(bytes),
            "f: not a safetensors file, or damaged: its header would be 100663298 bytes, more than the 100000000 "
            "allowed");
}

TEST(SafetensorsHeader, RefusesNamesGivenTwice) {
  EXPECT_EQ(refusal(two + R"("a":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})", 12),
            "f: header: key \"a\" is given twice");
}

TEST(SafetensorsHeader, RefusesSizesThatDoNotMatchShapes) {
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
            "f: tensor \"a\" has 8 bytes, but [3] of F32 needs 12");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,8]}})", 8),
            "f: tensor \"a\" has 8 bytes, but [4611686018427387904] of F64 needs more than fit in memory");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8),
            "f: tensor \"a\": shape: too many elements");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})", 8),
            "f: tensor \"a\": extent 18446744073709551615 is too large");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4),
            "f: tensor \"a\": shape: 7 axes, at most 6 are supported");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
            "f: tensor \"a\" ends at byte 0 before it begins at 8");
}

TEST(SafetensorsHeader, RefusesDescriptionsOfAnotherForm) {
  EXPECT_EQ(refusal(R"({"a":3})", 0), "f: tensor \"a\" is not described by an object");
  EXPECT_EQ(refusal(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8), "f: tensor \"a\" has no \"dtype\"");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8), "f: tensor \"a\" has no \"shape\"");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[2]}})", 8), "f: tensor \"a\" has no \"data_offsets\"");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8),
            "f: tensor \"a\": shape holds -2, which is not a whole number");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8.5]}})", 8),
            "f: tensor \"a\": data_offsets holds 8.5, which is not a whole number");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8),
            "f: tensor \"a\": data_offsets are not two numbers");
  EXPECT_EQ(refusal(R"({"__metadata__":{"a":1}})", 0), "f: __metadata__ \"a\" is not text");
  EXPECT_EQ(refusal("[]", 0), "f: not a safetensors file: the header does not start with {");
  EXPECT_EQ(refusal("{\"a\":1e999}", 0), "f: header: holds a number that is out of range");
  EXPECT_EQ(refusal("{\"a\"", 0), "f: header: not valid JSON at byte 5");
}

TEST(SafetensorsHeader, RefusesElementTypesByName) {
  for (const char* type : {"F4", "F6_E2M3", "F6_E3M2", "C64", "F8_E8M0", "U32", "MXFP8"})
    EXPECT_EQ(refusal(cat(R"({"a":{"dtype":")", type, R"(","shape":[2],"data_offsets":[0,8]}})"), 8),
              cat("f: tensor \"a\" has dtype ", type,
                  ", which is not supported; supported are F64 F32 F16 BF16, I64 I32 I16 I8, U8, BOOL, F8_E4M3 and "
                  "F8_E5M2"));
}

TEST(SafetensorsHeader, KnowsOtherFilesByTheirFirstBytes) {
  EXPECT_EQ(refusal_of_bytes("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"),
            "f: is a git-lfs pointer, run `git lfs pull`");
  const std::string page = "f: is a web page, not weights: the download failed; download it again";
  EXPECT_EQ(refusal_of_bytes("<!DOCTYPE html><html></html>"), page);
  EXPECT_EQ(refusal_of_bytes("\n <html>not found</html>"), page);
  EXPECT_EQ(refusal_of_bytes(std::string("PK\x03\x04\0\0\x08\x08\0\0\0\0archive/data.pkl", 28)),
            "f: is a PyTorch pickle (.pth, .pt, .bin), which is not read; use the safetensors files of the -Diffusers "
            "repository");
  EXPECT_EQ(refusal_of_bytes(std::string("GGUF\x03\0\0\0\0\0\0\0", 12)),
            "f: is a GGUF file, which is not read; use safetensors files");
}

TEST(SafetensorsFile, GivesBackWhatWasWritten) {
  const TempFolder folder;
  float f[3] = {1, -2, 0.5f};
  uint8_t u[3] = {1, 2, 3};
  bf16 b[1] = {bf16(3.0f)};
  write_safetensors(folder / "x.safetensors",
                    {{"u", Tensor(u, {3}, DType::u8)},
                     {"empty", Tensor(u, {0, 4}, DType::f32)},
                     {"f", Tensor(f, {1, 3}, DType::f32)},
                     {"b", Tensor(b, {}, DType::bf16)}},
                    {{"note", "two words"}});
  const SafetensorsFile file(folder / "x.safetensors");
  EXPECT_EQ(file.metadata().at("note"), "two words");
  ASSERT_EQ(file.entries().size(), 4u);
  ASSERT_NE(file.find("f"), nullptr);
  EXPECT_EQ(file.find("f")->shape, (Shape{1, 3}));
  EXPECT_EQ(file.find("f")->begin % 8, 0u);
  EXPECT_EQ(std::memcmp(file.bytes(*file.find("f")).data(), f, sizeof f), 0);
  EXPECT_EQ(std::memcmp(file.bytes(*file.find("u")).data(), u, sizeof u), 0);
  EXPECT_EQ(file.bytes(*file.find("empty")).size(), 0u);
  EXPECT_EQ(file.find("nothing"), nullptr);
}

TEST(SafetensorsFile, IsTheSameBytesEachTime) {
  const TempFolder folder;
  float f[2] = {1, 2};
  for (const char* name : {"a", "b"})
    write_safetensors(folder / name, {{"f", Tensor(f, {2}, DType::f32)}}, {{"k", "v"}, {"a", "b"}});
  EXPECT_EQ(read_file(folder / "a", 1000), read_file(folder / "b", 1000));
}

TEST(SafetensorsWriter, KeepsOrderAndSizes) {
  const TempFolder folder;
  const std::string name = (folder / "x").string();
  const std::byte bytes[16]{};
  SafetensorsWriter out(name, {{"a", DType::u8, {2}}, {"b", DType::f32, {2}}});
  EXPECT_EQ(out.entries()[0].name, "b");
  EXPECT_EQ(words([&] { out.write("a", bytes); }), name + ": tensor \"a\" is not the next to write");
  out.write("b", std::span(bytes, 4));
  EXPECT_EQ(words([&] { out.write("b", bytes); }), name + ": tensor \"b\" gets more bytes than its 8");
  EXPECT_EQ(words([&] { out.commit(); }), name + ": 6 bytes of tensors were not written");
  EXPECT_FALSE(std::filesystem::exists(name));
  out.write("b", std::span(bytes, 4));
  out.write("a", std::span(bytes, 2));
  out.commit();
  EXPECT_EQ(SafetensorsFile(name).entries().size(), 2u);
}

TEST(SafetensorsWriter, LeavesNothingBehindWhenItIsDropped) {
  const TempFolder folder;
  { SafetensorsWriter out(folder / "x", {{"a", DType::u8, {2}}}); }
  EXPECT_EQ(folder.count(), 0u);
}

TEST(SafetensorsWriter, RefusesNamesItCannotWrite) {
  const TempFolder folder;
  const std::string name = (folder / "x").string();
  EXPECT_EQ(words([&] {
              SafetensorsWriter(name, {{"a", DType::u8, {2}}, {"a", DType::u8, {2}}});
            }),
            name + ": tensor \"a\" is declared twice");
  EXPECT_EQ(words([&] {
              SafetensorsWriter(name, {{"\xff", DType::u8, {2}}});
            }),
            name + ": a name or a metadata value is not valid UTF-8");
  EXPECT_EQ(words([&] { SafetensorsWriter("/nowhere/x", {}); }),
            "/nowhere/x: cannot be written: No such file or directory");
}

}  // namespace
}  // namespace zoetrope
