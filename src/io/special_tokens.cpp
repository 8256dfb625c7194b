#include "io/special_tokens.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/json.h"

namespace zoetrope {
namespace {

Json object_in(const std::filesystem::path& file) {
  if (!std::filesystem::exists(std::filesystem::symlink_status(file))) return Json::object();
  Json json = read_json(file);
  require(json.is_object(), file.string(), ": not a JSON object");
  return json;
}

// A token is written as its text or as {"content": text, ...}.
std::string text_of(const Json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object()) return value_or(token, "content", std::string());
  return {};
}

class Reader {
 public:
  Reader(const std::function<int32_t(const std::string&)>& id_of, std::string where)
      : where_(std::move(where)), id_of_(id_of) {}

  void add(const std::string& text, int32_t id) {
    require(tokens.all.size() < max_special_tokens, where_, ": more than ", max_special_tokens, " special tokens");
    const auto known = std::ranges::find(tokens.all, text, &SpecialToken::text);
    if (!text.empty() && id >= 0 && known == tokens.all.end()) tokens.all.push_back({text, id});
  }

  void add_with_ids(const Json& decoder) {
    for (const auto& [key, token] : decoder.items()) {
      int32_t id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      require(error == std::errc{} && end == key.data() + key.size() && id >= 0, where_,
              ": added_tokens_decoder has \"", key, "\", which is not a token id");
      add(text_of(token), id);
    }
  }

  void add_named(const Json& map) {
    for (const char* key : {"pad_token", "eos_token", "unk_token", "bos_token"})
      if (map.contains(key)) add(text_of(map[key]), id_of_(text_of(map[key])));
    if (map.contains("additional_special_tokens") && map["additional_special_tokens"].is_array())
      for (const Json& token : map["additional_special_tokens"]) add(text_of(token), id_of_(text_of(token)));
    if (map.contains("eos_token") && !text_of(map["eos_token"]).empty()) tokens.eos = text_of(map["eos_token"]);
  }

  SpecialTokens tokens;

 private:
  std::string where_;
  const std::function<int32_t(const std::string&)>& id_of_;
};

}  // namespace

SpecialTokens read_special_tokens(const std::filesystem::path& folder,
                                  const std::function<int32_t(const std::string&)>& id_of) {
  const auto file = folder / "tokenizer_config.json";
  const Json config = object_in(file);
  Reader reader(id_of, file.string());
  about(file.string(), [&] {
    if (config.contains("added_tokens_decoder")) reader.add_with_ids(config["added_tokens_decoder"]);
    reader.add_named(config);
  });
  const auto map = folder / "special_tokens_map.json";
  about(map.string(), [&] { reader.add_named(object_in(map)); });
  for (const char* text : {"<pad>", "</s>", "<unk>"}) reader.add(text, id_of(text));
  std::ranges::stable_sort(reader.tokens.all, std::greater<>{}, [](const SpecialToken& t) { return t.text.size(); });
  return std::move(reader.tokens);
}

std::vector<TextPart> cut(std::string_view text, const std::vector<SpecialToken>& tokens) {
  std::vector<TextPart> parts;
  size_t plain = 0;  // start of the plain text before `at`
  const auto take_plain = [&](size_t end) {
    if (end > plain) parts.push_back({text.substr(plain, end - plain)});
  };
  for (size_t at = 0; at < text.size();) {
    const auto here = std::ranges::find_if(
        tokens, [&](const SpecialToken& token) { return text.substr(at).starts_with(token.text); });
    if (here == tokens.end()) {
      ++at;
      continue;
    }
    take_plain(at);
    parts.push_back({text.substr(at, here->text.size()), here->id});
    plain = at += here->text.size();
  }
  take_plain(text.size());
  return parts;
}

}  // namespace zoetrope
