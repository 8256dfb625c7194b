#include "io/tokenizer_json.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "io/charsmap.h"
#include "io/recognise.h"
#include "io/unicode.h"
#include "io/unigram.h"

namespace zoetrope {
namespace {

constexpr size_t max_file = 256u << 20;
constexpr size_t longest_piece =
    256;  // all lengths up to it are tried at each character; released models stay below 100
constexpr std::string_view space_mark = "\u2581";

const Json& at_or_null(const Json& object, const char* key) {
  static const Json null;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : null;
}

std::string type_of(const Json& part) {
  return part.is_object() ? value_or(part, "type", std::string()) : std::string("null");
}

// ---- the file -----------------------------------------------------------------------------------------------------

Unigram::Piece piece_of(Json& item, const std::string& where) {
  require(item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_number(), where,
          ": the vocabulary holds ", short_dump(item), ", which is not a piece and its score");
  auto& text = item[0].get_ref<std::string&>();
  require(text.size() <= longest_piece, where, ": a piece of more than ", longest_piece, " bytes");
  return {std::move(text), item[1].get<double>()};
}

// Takes the pieces out of a file while it is parsed, so that they never are a tree of values: five times the memory.
class Vocabulary {
 public:
  explicit Vocabulary(std::string where) : where_(std::move(where)) {}

  // False: the value does not go into the tree.
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    using enum Json::parse_event_t;
    if (event == key && depth == 1) in_model_ = parsed == "model";
    if (event == key && depth == 2) here_ = in_model_ && parsed == "vocab";
    if (event == key && depth <= 2) inside_ = false;
    if (event == array_start && depth == 2 && here_) inside_ = true;
    if (event == array_end && depth == 2) inside_ = false;
    if (!inside_ || depth != 3 || (event != value && event != array_end && event != object_end)) return true;
    pieces.push_back(piece_of(parsed, where_));
    return false;
  }

  std::vector<Unigram::Piece> pieces;

 private:
  std::string where_;
  bool in_model_ = false, here_ = false, inside_ = false;
};

// ---- before the model ---------------------------------------------------------------------------------------------

using Step = std::function<std::string(std::string_view)>;

bool white(std::string_view character) {
  const std::u32string points = code_points(character, "tokenizer");
  return is_white_space(points[0]);
}

std::string stripped(std::string_view text, bool left, bool right) {
  std::vector<std::string_view> parts = characters(text);
  const auto other = [](std::string_view c) { return !white(c); };
  const auto begin = left ? std::ranges::find_if(parts, other) : parts.begin();
  const auto end = right ? std::find_if(parts.rbegin(), std::make_reverse_iterator(begin), other).base() : parts.end();
  std::string out;
  std::for_each(begin, end, [&](std::string_view c) { out += c; });
  return out;
}

std::string with_runs_of_spaces_as(std::string_view text, std::string_view content) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t run = std::min(text.find_first_not_of(' ', at), text.size()) - at;
    if (run >= 2)
      out += content;
    else
      out += text[at];
    at += run >= 2 ? run : 1;
  }
  return out;
}

void add_steps(const Json& normalizer, const std::string& where, std::vector<Step>& steps) {
  const std::string type = type_of(normalizer);
  if (type == "null") return;
  if (type == "Sequence") {
    for (const Json& part : at_or_null(normalizer, "normalizers")) add_steps(part, where, steps);
  } else if (type == "Precompiled") {
    const CharsMap map(value_or(normalizer, "precompiled_charsmap", std::string()), where);
    steps.push_back([map](std::string_view text) { return map.apply(text); });
  } else if (type == "Strip") {
    const bool left = value_or(normalizer, "strip_left", true), right = value_or(normalizer, "strip_right", true);
    steps.push_back([=](std::string_view text) { return stripped(text, left, right); });
  } else if (type == "Replace") {
    if (at_or_null(at_or_null(normalizer, "pattern"), "Regex") != Json(" {2,}"))
      fail(Code::unsupported, where, ": normalizer \"Replace\" of ", short_dump(normalizer), " is not supported");
    const std::string content = value_or(normalizer, "content", std::string());
    steps.push_back([=](std::string_view text) { return with_runs_of_spaces_as(text, content); });
  } else {
    fail(Code::unsupported, where, ": normalizer \"", type, "\" is not supported");
  }
}

bool is_metaspace(const Json& part) {
  return type_of(part) == "Metaspace" && at_or_null(part, "replacement") == Json(space_mark) &&
         value_or(part, "prepend_scheme", std::string("always")) == "always" &&
         value_or(part, "add_prefix_space", true) && value_or(part, "split", true);
}

// Whether words are first split at white space of any kind; that they are split at spaces is sure.
bool splits_at_white_space(const Json& part, const std::string& where) {
  if (is_metaspace(part)) return false;
  const Json& steps = at_or_null(part, "pretokenizers");
  const bool usual = type_of(part) == "Sequence" && steps.is_array() && steps.size() == 2 &&
                     type_of(steps[0]) == "WhitespaceSplit" && is_metaspace(steps[1]);
  if (!usual) fail(Code::unsupported, where, ": pre_tokenizer \"", type_of(part), "\" of this form is not supported");
  return true;
}

// ---- special tokens -----------------------------------------------------------------------------------------------

SpecialToken added_token(const Json& token, const std::string& where) {
  const SpecialToken added{value_or(token, "content", std::string()), value_or(token, "id", int32_t{-1})};
  require(!added.text.empty() && added.id >= 0, where, ": added_tokens holds ", short_dump(token),
          ", which has no content or id");
  for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"})
    if (value_or(token, flag, false))
      fail(Code::unsupported, where, ": added token \"", added.text, "\" with \"", flag, "\" is not supported");
  return added;
}

// The one token that "$A </s>" puts behind the text.
int32_t end_token(const Json& processor, const std::string& where) {
  const Json& single = at_or_null(processor, "single");
  const bool usual = type_of(processor) == "TemplateProcessing" && single.is_array() && single.size() == 2 &&
                     at_or_null(single[0], "Sequence").is_object() && at_or_null(single[1], "SpecialToken").is_object();
  if (!usual)
    fail(Code::unsupported, where, ": post_processor \"", type_of(processor),
         "\" of this form is not supported; one that adds an end token is");
  const std::string name = value_or(single[1]["SpecialToken"], "id", std::string());
  const Json& ids = at_or_null(at_or_null(at_or_null(processor, "special_tokens"), name.c_str()), "ids");
  require(ids.is_array() && ids.size() == 1 && ids[0].is_number_unsigned() && ids[0].get<uint64_t>() <= INT32_MAX,
          where, ": post_processor gives no id of ", name, ", the end token");
  return ids[0].get<int32_t>();
}

// ---- all of it ----------------------------------------------------------------------------------------------------

Unigram model_of(const Json& model, std::vector<Unigram::Piece> pieces, const std::string& where) {
  const std::string type = type_of(model);
  if (type != "Unigram") fail(Code::unsupported, where, ": a tokenizer of type \"", type, "\"; only Unigram is read");
  require(!pieces.empty(), where, ": no vocabulary here");
  const Json& unk = at_or_null(model, "unk_id");
  require(unk.is_number_unsigned() && unk.get<uint64_t>() < pieces.size(), where, ": unk_id does not name a piece");
  return Unigram(std::move(pieces), unk.get<int32_t>(), value_or(model, "byte_fallback", false));
}

class TokenizerJson : public Tokenizer {
 public:
  TokenizerJson(const Json& file, std::vector<Unigram::Piece> pieces, const std::string& where)
      : unigram_(model_of(at_or_null(file, "model"), std::move(pieces), where)),
        at_white_space_(splits_at_white_space(at_or_null(file, "pre_tokenizer"), where)) {
    add_steps(at_or_null(file, "normalizer"), where, steps_);
    eos_ = end_token(at_or_null(file, "post_processor"), where);
    for (const Json& token : at_or_null(file, "added_tokens")) special_.push_back(added_token(token, where));
    require(special_.size() <= max_special_tokens, where, ": more than ", max_special_tokens, " special tokens");
    std::ranges::stable_sort(special_, std::greater<>{}, [](const SpecialToken& t) { return t.text.size(); });
  }

  int pieces() const override { return unigram_.size(); }

 private:
  void append(std::string_view plain, std::vector<int32_t>& ids) const override {
    std::string text(plain);
    for (const Step& step : steps_) text = step(text);
    if (!at_white_space_) return append_words(text, ids);
    std::string chunk;
    for (const std::string_view c : characters(text)) {
      if (!white(c))
        chunk += c;
      else
        append_words(std::exchange(chunk, {}), ids);
    }
    append_words(chunk, ids);
  }

  // "Metaspace": spaces become marks, one is put in front, and a word is a mark and what follows it.
  void append_words(std::string_view text, std::vector<int32_t>& ids) const {
    if (text.empty()) return;
    std::string word(text.starts_with(space_mark) || text[0] == ' ' ? "" : space_mark);
    for (const std::string_view c : characters(text)) {
      const std::string_view seen = c == " " ? space_mark : c;
      if (seen == space_mark && !word.empty()) unigram_.encode(std::exchange(word, {}), ids);
      word += seen;
    }
    unigram_.encode(word, ids);
  }

  Unigram unigram_;
  bool at_white_space_;
  std::vector<Step> steps_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& path) {
  const std::string where = path.string();
  const std::string text = read_file(path, max_file);
  const std::string known = foreign_file(std::as_bytes(std::span(text)));
  require(known.empty(), where, ": ", known);
  Vocabulary vocabulary(where);
  const Json json = parse_json(text, where, std::ref(vocabulary));
  return about(where, [&] { return std::make_unique<TokenizerJson>(json, std::move(vocabulary.pieces), where); });
}

}  // namespace zoetrope
