#include "io/tokenizer.h"

#include <sentencepiece_processor.h>

#include "base/error.h"
#include "base/file.h"
#include "io/recognise.h"
#include "io/special_tokens.h"
#include "io/unigram_json.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;
using sentencepiece::SentencePieceProcessor;

constexpr size_t max_file = 256u << 20;

class Unigram : public Tokenizer {
 public:
  Unigram(const std::string& model, const fs::path& file, bool byte_fallback, const Json& added_tokens = {}) {
    const std::string known = foreign_file(std::as_bytes(std::span(model)));
    require(known.empty(), file.string(), ": ", known);
    require(processor_.LoadFromSerializedProto(model).ok(), file.string(), ": not a usable SentencePiece model");
    special_ =
        read_special_tokens(file.parent_path(), added_tokens, [this](const std::string& text) { return id_of(text); });
    eos_ = id_of(special_.eos);
    require(eos_ >= 0, file.string(), ": has no piece ", special_.eos, ", the end token");
    bytes_to_unk_ = !byte_fallback;
  }

  std::vector<int32_t> encode(std::string_view text, int max_tokens) const override {
    require(max_tokens >= 1, "tokenizer: max_tokens is ", max_tokens, ", at least 1 is needed for the end token");
    std::vector<int32_t> ids;
    for (const TextPart& part : cut(text, special_)) {
      if (part.special >= 0)
        ids.push_back(part.special);
      else
        append(part.text, ids);
    }
    if (ids.size() >= static_cast<size_t>(max_tokens)) ids.resize(static_cast<size_t>(max_tokens) - 1);
    ids.push_back(eos_);
    return ids;
  }

  int pieces() const override { return processor_.GetPieceSize(); }

 private:
  int32_t id_of(const std::string& text) const {
    const int id = processor_.PieceToId(text);
    return processor_.IdToPiece(id) == text ? id : -1;  // PieceToId gives <unk> for what it does not know
  }

  // SentencePiece spells unknown characters in bytes where the model has them; Hugging Face joins a run of unknown
  // characters to one <unk>. Byte pieces come from nowhere else, so a run of them is such a run.
  void append(std::string_view text, std::vector<int32_t>& ids) const {
    std::vector<int> found;
    const auto status = processor_.Encode(text, &found);
    if (!status.ok()) fail(Code::device, "tokenizer: SentencePiece refused the text: ", status.ToString());
    bool in_bytes = false;
    for (const int id : found) {
      const bool spelled = bytes_to_unk_ && processor_.IsByte(id);
      if (!spelled || !in_bytes) ids.push_back(spelled ? processor_.unk_id() : id);
      in_bytes = spelled;
    }
  }

  SentencePieceProcessor processor_;
  SpecialTokens special_;
  int32_t eos_ = 1;
  bool bytes_to_unk_ = true;
};

bool has_byte_pieces(const std::string& model) { return model.find("<0x00>") != std::string::npos; }

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::open(const fs::path& folder) {
  const fs::path spiece = folder / "spiece.model", json = folder / "tokenizer.json";
  require(fs::is_directory(folder), folder.string(), ": no such folder");
  if (fs::exists(spiece)) {
    const std::string model = read_file(spiece, max_file);
    // tokenizer.json is large; its one say about a model that is here already is whether bytes may be used.
    const bool bytes = has_byte_pieces(model) && fs::exists(json) && asks_for_byte_fallback(read_json(json, max_file));
    return std::make_unique<Unigram>(model, spiece, bytes);
  }
  require(fs::exists(json), folder.string(), ": no tokenizer here; spiece.model or tokenizer.json is expected");
  const Json tokenizer = read_json(json, max_file);
  const std::string model = unigram_model(tokenizer, json.string());
  return std::make_unique<Unigram>(model, json, asks_for_byte_fallback(tokenizer),
                                   tokenizer.value("added_tokens", Json()));
}

std::unique_ptr<Tokenizer> Tokenizer::from_model(std::string_view spiece_model) {
  return std::make_unique<Unigram>(std::string(spiece_model), "spiece.model", false);
}

}  // namespace zoetrope
