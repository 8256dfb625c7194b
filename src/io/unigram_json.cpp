#include "io/unigram_json.h"

#include <array>
#include <bit>
#include <cstdint>

#include "base/error.h"

namespace zoetrope {
namespace {

enum PieceType { normal = 1, unknown = 2, control = 3, byte = 6 };

// Just enough of the protobuf wire format to write one message.
class Message {
 public:
  void number(int field, uint64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(value);
  }
  void real(int field, float value) {
    varint(static_cast<uint64_t>(field) << 3 | 5);
    for (int i = 0; i < 4; ++i) bytes_.push_back(static_cast<char>(std::bit_cast<uint32_t>(value) >> (8 * i)));
  }
  void text(int field, std::string_view value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes_ += value;
  }
  std::string& bytes() { return bytes_; }

 private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

std::string type_of(const Json& part) {
  return part.is_object() ? value_or(part, "type", std::string()) : std::string("null");
}

const Json& at_or_null(const Json& object, const char* key) {
  static const Json null;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : null;
}

std::string from_base64(std::string_view text, const std::string& where) {
  std::string out;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    if (c == '=') break;
    constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t value = alphabet.find(c);
    require(value != alphabet.npos, where, ": precompiled_charsmap is not base64");
    bits = bits << 6 | static_cast<uint32_t>(value);
    if ((held += 6) >= 8) out.push_back(static_cast<char>(bits >> (held -= 8)));
  }
  return out;
}

// The character map that a normalizer carries; steps that only handle white space are done by SentencePiece itself.
std::string charsmap_of(const Json& normalizer, const std::string& where) {
  const std::string type = type_of(normalizer);
  if (type == "null" || type == "Strip" || type == "Replace") return {};
  if (type == "Precompiled") return from_base64(value_or(normalizer, "precompiled_charsmap", std::string()), where);
  if (type != "Sequence") fail(Code::unsupported, where, ": normalizer \"", type, "\" is not supported");
  std::string map;
  for (const Json& part : at_or_null(normalizer, "normalizers"))
    if (std::string found = charsmap_of(part, where); !found.empty()) map = std::move(found);
  return map;
}

void check_replacement(const Json& normalizer, const std::string& where) {
  if (type_of(normalizer) == "Sequence")
    for (const Json& part : at_or_null(normalizer, "normalizers")) check_replacement(part, where);
  if (type_of(normalizer) != "Replace") return;
  const Json& pattern = at_or_null(at_or_null(normalizer, "pattern"), "Regex");
  if (pattern != Json(" {2,}"))
    fail(Code::unsupported, where, ": normalizer \"Replace\" of ", normalizer.dump(-1, ' ', true).substr(0, 80),
         " is not supported");
}

bool is_metaspace(const Json& part) {
  return type_of(part) == "Metaspace" && at_or_null(part, "replacement") == Json("\u2581") &&
         at_or_null(part, "prepend_scheme") != Json("never") && at_or_null(part, "add_prefix_space") != Json(false);
}

void check_pre_tokenizer(const Json& part, const std::string& where) {
  if (is_metaspace(part)) return;
  const Json& steps = at_or_null(part, "pretokenizers");
  const bool usual = type_of(part) == "Sequence" && steps.is_array() && steps.size() == 2 &&
                     type_of(steps[0]) == "WhitespaceSplit" && is_metaspace(steps[1]);
  if (!usual) fail(Code::unsupported, where, ": pre_tokenizer \"", type_of(part), "\" of this form is not supported");
}

bool is_byte_piece(std::string_view piece) { return piece.size() == 6 && piece.starts_with("<0x") && piece[5] == '>'; }

std::string piece_message(const Json& item, PieceType type, const std::string& where) {
  require(item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_number(), where,
          ": the vocabulary holds ", item.dump(-1, ' ', true).substr(0, 80), ", which is not a piece and its score");
  Message piece;
  piece.text(1, item[0].get_ref<const std::string&>());
  piece.real(2, item[1].get<float>());
  piece.number(3, type);
  return std::move(piece.bytes());
}

}  // namespace

bool asks_for_byte_fallback(const Json& tokenizer) {
  return at_or_null(at_or_null(tokenizer, "model"), "byte_fallback") == Json(true);
}

std::string unigram_model(const Json& tokenizer, const std::string& where) {
  const Json& model = at_or_null(tokenizer, "model");
  const std::string type = type_of(model);
  if (type != "Unigram") fail(Code::unsupported, where, ": a tokenizer of type \"", type, "\"; only Unigram is read");
  check_pre_tokenizer(at_or_null(tokenizer, "pre_tokenizer"), where);
  check_replacement(at_or_null(tokenizer, "normalizer"), where);
  const Json &vocab = at_or_null(model, "vocab"), &unk = at_or_null(model, "unk_id");
  require(vocab.is_array() && !vocab.empty(), where, ": no vocabulary here");
  require(unk.is_number_unsigned() && unk.get<uint64_t>() < vocab.size(), where, ": unk_id does not name a piece");
  const bool bytes = asks_for_byte_fallback(tokenizer);

  Message proto, trainer, normalizer;
  for (size_t id = 0; id < vocab.size(); ++id) {
    const bool is_byte = bytes && vocab[id].is_array() && !vocab[id].empty() && vocab[id][0].is_string() &&
                         is_byte_piece(vocab[id][0].get_ref<const std::string&>());
    proto.text(1, piece_message(vocab[id], id == unk ? unknown : is_byte ? byte : normal, where));
  }
  trainer.number(3, 1);  // unigram
  trainer.number(35, bytes);
  proto.text(2, trainer.bytes());
  normalizer.text(2, charsmap_of(at_or_null(tokenizer, "normalizer"), where));
  for (const int field : {3, 4, 5}) normalizer.number(field, 1);  // leading space, single spaces, spaces as U+2581
  proto.text(3, normalizer.bytes());
  return std::move(proto.bytes());
}

}  // namespace zoetrope
