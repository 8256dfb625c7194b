#include "io/tokenizer.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "io/temp_folder.h"
#include "support/words.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

const fs::path data = ZOETROPE_SOURCE_DIR "/tests/io/data";

// A tokenizer folder of some of the recorded files.
struct Folder : TempFolder {
  explicit Folder(std::initializer_list<const char*> files) {
    for (const char* file : files) fs::copy_file(data / file, *this / file);
  }
};

// [text, ids, ids with byte fallback], by Hugging Face's own library; recorded by record_facts.py.
void expect_recorded_ids(const fs::path& folder, size_t column, const fs::path& recorded = data / "tokens.json") {
  const auto tokenizer = Tokenizer::open(folder);
  const Json facts = read_json(recorded);
  ASSERT_GE(facts["cases"].size(), 60u);
  for (const Json& item : facts["cases"])
    EXPECT_EQ(tokenizer->encode(item[0].get<std::string>(), 1000), item[column].get<std::vector<int32_t>>())
        << item[0].dump(-1, ' ', true);
}

void allow_bytes(const Folder& folder) {
  Json tokenizer = read_json(folder / "tokenizer.json");
  tokenizer["model"]["byte_fallback"] = true;
  write_file(folder / "tokenizer.json", tokenizer.dump());
}

TEST(Tokenizer, GivesHuggingFacesIdsFromSpieceModel) {
  expect_recorded_ids(Folder{"spiece.model", "tokenizer_config.json"}.path(), 1);
}

TEST(Tokenizer, GivesTheSameIdsFromTokenizerJsonAlone) { expect_recorded_ids(Folder{"tokenizer.json"}.path(), 1); }

TEST(Tokenizer, UsesBytesOnlyIfTokenizerJsonSaysSo) {
  const Folder json{"tokenizer.json"}, both{"spiece.model", "tokenizer.json", "tokenizer_config.json"};
  expect_recorded_ids(both.path(), 1);
  allow_bytes(json);
  allow_bytes(both);
  expect_recorded_ids(json.path(), 2);
  expect_recorded_ids(both.path(), 2);
}

// UMT5's own file is 17 MB; this one has its structure and 504 pieces.
TEST(Tokenizer, FollowsAFileLikeUmt5sToTheLetter) {
  expect_recorded_ids(data / "umt5", 1, data / "umt5" / "tokens.json");
  EXPECT_EQ(Tokenizer::open(data / "umt5")->pieces(), 504);
  EXPECT_EQ(Tokenizer::open(data / "umt5")->ids(), 504);
}

TEST(Tokenizer, FollowsTokenizerJsonWhereBothFilesAreThere) {
  const Folder folder{"spiece.model", "tokenizer_config.json"};
  fs::copy_file(data / "umt5/tokenizer.json", folder / "tokenizer.json");
  expect_recorded_ids(folder.path(), 1, data / "umt5" / "tokens.json");
}

TEST(Tokenizer, NormalisesAsTokenizerJsonSays) {
  Json file = read_json(data / "umt5/tokenizer.json");
  const auto ids_with = [&](const Json& normalizer, const char* text) {
    file["normalizer"] = normalizer;
    const TempFolder folder;
    folder.put("tokenizer.json", file.dump());
    return Tokenizer::open(folder.path())->encode(text, 100);
  };
  const auto plain = [&](const char* text) { return ids_with(nullptr, text); };
  const Json both{{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  const Json right{{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}};
  const Json runs{{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "\u2581"}};
  EXPECT_NE(plain(" \ta cat "), plain("a cat"));
  EXPECT_EQ(ids_with(both, " \ta cat\u3000 "), plain("a cat"));
  EXPECT_EQ(ids_with(both, " \t "), plain(""));
  EXPECT_EQ(ids_with(right, " a cat\u3000 "), plain(" a cat"));
  EXPECT_NE(plain("a   cat"), plain("a cat"));
  EXPECT_EQ(ids_with(Json{{"type", "Sequence"}, {"normalizers", {right, runs}}}, "a   cat "), plain("a cat"));
}

TEST(Tokenizer, TruncatesBeforeTheEndToken) {
  const auto tokenizer = Tokenizer::open(data);
  const auto whole = tokenizer->encode("a cat sits on a red mat", 512);
  ASSERT_GT(whole.size(), 5u);
  EXPECT_EQ(whole.back(), 1);
  std::vector<int32_t> expected(whole.begin(), whole.begin() + 4);
  expected.push_back(1);
  EXPECT_EQ(tokenizer->encode("a cat sits on a red mat", 5), expected);
  EXPECT_EQ(tokenizer->encode("a cat sits on a red mat", static_cast<int>(whole.size())), whole);
  EXPECT_EQ(tokenizer->encode("a cat", 1), (std::vector<int32_t>{1}));
  EXPECT_EQ(tokenizer->encode("", 512), (std::vector<int32_t>{1}));
  EXPECT_EQ(words([&] { tokenizer->encode("a", 0); }),
            "tokenizer: max_tokens is 0, at least 1 is needed for the end token");
}

TEST(Tokenizer, KnowsItsOwnSpecialTokensWithoutAnyConfig) {
  const Folder folder{"spiece.model"};
  const auto tokenizer = Tokenizer::open(folder.path());
  const auto ids = tokenizer->encode("cat</s>dog", 512);
  EXPECT_EQ(std::ranges::count(ids, 1), 2);
  EXPECT_GT(tokenizer->pieces(), 300);
}

TEST(Tokenizer, CountsTheIdsOfAddedTokensToo) {
  const Folder folder{"tokenizer.json"};
  EXPECT_EQ(Tokenizer::open(folder.path())->pieces(), 399);
  EXPECT_EQ(Tokenizer::open(folder.path())->ids(), 400);  // one of the recorded file's lies behind its pieces
  Json file = read_json(folder / "tokenizer.json");
  file["added_tokens"].push_back({{"id", 2147483647}, {"content", "<far>"}});
  write_file(folder / "tokenizer.json", file.dump());
  EXPECT_EQ(Tokenizer::open(folder.path())->ids(), int64_t{1} << 31);
}

std::string refusal(const fs::path& folder) {
  return words([&] { Tokenizer::open(folder); });
}

// A piece as sentencepiece_model.proto has it: its text in field 1, in field 1 of the model.
std::string model_with_piece(size_t length) {
  const auto field = [](const std::string& bytes) {
    std::string text = "\x0a";
    size_t n = bytes.size();
    for (; n > 127; n >>= 7) text.push_back(static_cast<char>((n & 0x7F) | 0x80));
    return text + static_cast<char>(n) + bytes;
  };
  return field(field(std::string(length, 'a')));
}

TEST(Tokenizer, RefusesWhatWouldExhaustTheStackOrTheDay) {
  const TempFolder folder;
  const std::string model = folder.put("spiece.model", model_with_piece(1'000'000)).string();
  EXPECT_EQ(refusal(folder.path()), model + ": a piece of more than 4096 bytes");

  Json config;
  for (int i = 0; i < 5000; ++i) config["added_tokens_decoder"][cat(i)] = {{"content", cat("token", i)}};
  fs::copy_file(data / "spiece.model", folder / "spiece.model", fs::copy_options::overwrite_existing);
  const std::string file = folder.put("tokenizer_config.json", config.dump()).string();
  EXPECT_EQ(refusal(folder.path()), file + ": more than 4096 special tokens");

  Json long_piece;
  long_piece["model"] = {{"type", "Unigram"}, {"vocab", Json::array({Json::array({std::string(300, 'a'), 0.0})})}};
  const std::string json = folder.put("tokenizer.json", long_piece.dump()).string();
  EXPECT_EQ(refusal(folder.path()), json + ": a piece of more than 256 bytes");
}

TEST(Tokenizer, NamesWhatIsWrongWithAFolder) {
  const TempFolder folder;
  EXPECT_EQ(refusal(folder / "none"), (folder / "none").string() + ": no such folder");
  EXPECT_EQ(refusal(folder.path()),
            folder.path().string() + ": no tokenizer here; tokenizer.json or spiece.model is expected");
  folder.put("spiece.model", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_EQ(refusal(folder.path()), (folder / "spiece.model").string() + ": is a git-lfs pointer, run `git lfs pull`");
  folder.put("spiece.model", "\x0a\xff\xff");
  EXPECT_EQ(refusal(folder.path()), (folder / "spiece.model").string() + ": not a usable SentencePiece model");
  fs::copy_file(data / "tokenizer_config.json", folder / "tokenizer_config.json");
  folder.put("tokenizer.json", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_EQ(refusal(folder.path()),
            (folder / "tokenizer.json").string() + ": is a git-lfs pointer, run `git lfs pull`");
}

TEST(Tokenizer, NamesWhatIsWrongWithTokenizerJson) {
  const TempFolder folder;
  const std::string file = (folder / "tokenizer.json").string();
  const Json good = read_json(data / "tokenizer.json");
  const auto with = [&](const char* pointer, const Json& value) {
    Json changed = good;
    changed[Json::json_pointer(pointer)] = value;
    folder.put("tokenizer.json", changed.dump());
    return refusal(folder.path());
  };
  EXPECT_EQ(with("/model/type", "BPE"), file + ": a tokenizer of type \"BPE\"; only Unigram is read");
  EXPECT_EQ(with("/model/unk_id", nullptr), file + ": unk_id does not name a piece");
  EXPECT_EQ(with("/model/unk_id", 100000), file + ": unk_id does not name a piece");
  EXPECT_EQ(with("/model/vocab", Json::array()), file + ": no vocabulary here");
  EXPECT_EQ(with("/model/vocab/7", "x"), file + ": the vocabulary holds \"x\", which is not a piece and its score");
  EXPECT_EQ(with("/normalizer", {{"type", "Lowercase"}}), file + ": normalizer \"Lowercase\" is not supported");
  EXPECT_EQ(with("/normalizer/precompiled_charsmap", "a*"), file + ": precompiled_charsmap is not base64");
  EXPECT_EQ(with("/pre_tokenizer", {{"type", "ByteLevel"}}),
            file + ": pre_tokenizer \"ByteLevel\" of this form is not supported");
  EXPECT_EQ(with("/normalizer/precompiled_charsmap", "AAAA"), file + ": precompiled_charsmap is not whole");
  EXPECT_EQ(with("/normalizer/precompiled_charsmap", "////fwAA"), file + ": precompiled_charsmap is not whole");
  EXPECT_EQ(with("/pre_tokenizer/pretokenizers/1/prepend_scheme", "first"),
            file + ": pre_tokenizer \"Sequence\" of this form is not supported");
  EXPECT_EQ(with("/post_processor", nullptr),
            file + ": post_processor \"null\" of this form is not supported; one that adds an end token is");
  EXPECT_EQ(with("/post_processor/special_tokens", Json::object()),
            file + ": post_processor gives no id of </s>, the end token");
  EXPECT_EQ(with("/added_tokens/1/lstrip", true), file + ": added token \"</s>\" with \"lstrip\" is not supported");
  EXPECT_EQ(with("/added_tokens/1/id", -2).substr(0, file.size() + 22), file + ": added_tokens holds {");
  EXPECT_EQ(with("/model/vocab", {{"a", 0}}), file + ": no vocabulary here");
  EXPECT_EQ(with("/model/vocab/7", {{"x", 1}}),
            file + ": the vocabulary holds {\"x\":1}, which is not a piece and its score");
  EXPECT_EQ(with("/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"add_prefix_space", true}}),
            "no error");
}

}  // namespace
}  // namespace zoetrope
