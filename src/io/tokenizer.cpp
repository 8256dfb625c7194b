#include "io/tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "io/recognise.h"
#include "io/tokenizer_json.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

constexpr size_t max_file = 256u << 20;

constexpr size_t longest_piece = 4096;  // bytes of a piece and its score; released models stay below 100

uint64_t take_varint(std::string_view& rest) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest[0]);
    rest.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

// The library builds its trie by recursion over the bytes of a piece: a long one exhausts the stack. Looks at the outer
// message only (protocol buffers: key, then length and bytes; field 1 is a piece); what cannot be read so is left to
// the library to refuse.
bool has_long_piece(std::string_view model) {
  while (!model.empty()) {
    const uint64_t key = take_varint(model);
    if ((key & 7) != 2) return false;
    const uint64_t length = take_varint(model);
    if (length > model.size()) return false;
    if (key >> 3 == 1 && length > longest_piece) return true;
    model.remove_prefix(length);
  }
  return false;
}

class SentencePiece : public Tokenizer {
 public:
  SentencePiece(const std::string& model, const fs::path& file) {
    const std::string known = foreign_file(std::as_bytes(std::span(model)));
    require(known.empty(), file.string(), ": ", known);
    require(!has_long_piece(model), file.string(), ": a piece of more than ", longest_piece, " bytes");
    require(processor_.LoadFromSerializedProto(model).ok(), file.string(), ": not a usable SentencePiece model");
    SpecialTokens special =
        read_special_tokens(file.parent_path(), [this](const std::string& text) { return id_of(text); });
    eos_ = id_of(special.eos);
    require(eos_ >= 0, file.string(), ": has no piece ", special.eos, ", the end token");
    special_ = std::move(special.all);
  }

  int pieces() const override { return processor_.GetPieceSize(); }

 private:
  int32_t id_of(const std::string& text) const {
    const int id = processor_.PieceToId(text);
    return processor_.IdToPiece(id) == text ? id : -1;  // PieceToId gives <unk> for what it does not know
  }

  // SentencePiece spells unknown characters in bytes where the model has them; Hugging Face joins a run of unknown
  // characters to one <unk>. Byte pieces come from nowhere else, so a run of them is such a run.
  void append(std::string_view text, std::vector<int32_t>& ids) const override {
    std::vector<int> found;
    const auto status = processor_.Encode(text, &found);
    if (!status.ok()) fail(Code::device, "tokenizer: SentencePiece refused the text: ", status.ToString());
    bool in_bytes = false;
    for (const int id : found) {
      const bool spelled = processor_.IsByte(id);
      if (!spelled || !in_bytes) ids.push_back(spelled ? processor_.unk_id() : id);
      in_bytes = spelled;
    }
  }

  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

std::vector<int32_t> Tokenizer::encode(std::string_view text, int max_tokens) const {
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

int64_t Tokenizer::ids() const {
  int64_t end = std::max<int64_t>(pieces(), int64_t{eos_} + 1);
  for (const SpecialToken& token : special_) end = std::max(end, int64_t{token.id} + 1);
  return end;
}

std::unique_ptr<Tokenizer> Tokenizer::open(const fs::path& folder) {
  const fs::path spiece = folder / "spiece.model", json = folder / "tokenizer.json";
  require(fs::is_directory(folder), folder.string(), ": no such folder");
  if (fs::exists(json)) return open_tokenizer_json(json);
  require(fs::exists(spiece), folder.string(), ": no tokenizer here; tokenizer.json or spiece.model is expected");
  return std::make_unique<SentencePiece>(read_file(spiece, max_file), spiece);
}

std::unique_ptr<Tokenizer> Tokenizer::from_model(std::string_view spiece_model) {
  return std::make_unique<SentencePiece>(std::string(spiece_model), "spiece.model");
}

}  // namespace zoetrope
