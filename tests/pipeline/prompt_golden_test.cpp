// Prompts as the Python pipeline cleans and encodes them: emoji, Arabic, Thai, full width, entities, empty, too long.
#include <gtest/gtest.h>

#include "base/file.h"
#include "io/prompt.h"
#include "io/temp_folder.h"
#include "io/tokenizer.h"
#include "support/toy.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

const fs::path goldens = ZOETROPE_BINARY_DIR "/golden/tokenizer";

// Cleaned texts and ids are equal; text decoded with a wrong charset is left as it is (io/prompt.h), its ids are those
// of the repaired text.
void expect_recorded(const Tokenizer& tokenizer, const char* model) {
  const Json all = read_json(goldens / "prompts.json"), rows = all.at(model);
  ASSERT_EQ(rows.size(), 21u);
  for (const Json& row : rows) {
    const auto name = row.at("name").get<std::string>(), prompt = row.at("prompt").get<std::string>();
    const auto cleaned = row.at("cleaned").get<std::string>();
    EXPECT_EQ(clean_prompt(prompt), name == "mojibake" ? prompt : cleaned) << name;
    EXPECT_EQ(tokenizer.encode(cleaned, 512), row.at("ids").get<std::vector<int32_t>>()) << name;
  }
}

TEST(PromptGolden, TheToysTokenizerGivesTheRecordedIds) {
  expect_recorded(*Tokenizer::open(toy_configs("tokenizer")), "toy");
}

TEST(PromptGolden, AModelWithBytePiecesGivesTheRecordedIds) {
  const TempFolder folder;
  for (const auto& file : fs::directory_iterator(toy_configs("tokenizer")))
    fs::copy_file(file, folder / file.path().filename());
  fs::copy_file(goldens / "bytes.model", folder / "spiece.model", fs::copy_options::overwrite_existing);
  expect_recorded(*Tokenizer::open(folder.path()), "bytes");
}

}  // namespace
}  // namespace zoetrope
