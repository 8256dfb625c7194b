#include "config/settings.h"

#include <algorithm>
#include <functional>
#include <ranges>

#include "base/error.h"
#include "config/fields.h"
#include "core/most_ranks.h"

namespace zoetrope {
namespace {

// A row: the key, what it takes, and how a value gets into Settings. `at` is the dotted key, for messages.
struct Key {
  const char* name;
  const char* values;
  const char* meaning;
  std::function<void(Settings&, const Json&, const std::string& at)> set;
};

int whole(const Json& value, int min, int max, const std::string& at) {
  require(value.is_number_integer(), at, ": ", value.dump(), " is not a whole number");
  const auto number = value.get<int64_t>();
  require(number >= min && number <= max, at, ": ", number, " is outside ", min, " to ", max);
  return static_cast<int>(number);
}

bool truth(const Json& value, const std::string& at) {
  require(value.is_boolean(), at, ": ", value.dump(), " is not true or false");
  return value.get<bool>();
}

std::string word(const Json& value, std::string_view choices, const std::string& at) {
  require(
      value.is_string() && cat('|', choices, '|').find(cat('|', value.get<std::string>(), '|')) != std::string::npos,
      at, ": ", value.dump(), " is not one of ", choices);
  return value.get<std::string>();
}

const Json& list(const Json& value, const std::string& at) {
  require(value.is_array(), at, ": ", value.dump(), " is not a list");
  return value;
}

auto size_into(int Settings::*member) {
  return [member](Settings& s, const Json& v, const std::string& at) { s.*member = whole(v, 1, most_ranks, at); };
}

auto truth_into(bool Settings::*member) {
  return [member](Settings& s, const Json& v, const std::string& at) { s.*member = truth(v, at); };
}

auto word_into(std::string Settings::*member, const char* choices) {
  return [member, choices](Settings& s, const Json& v, const std::string& at) { s.*member = word(v, choices, at); };
}

void set_attn2d(Settings& s, const Json& value, const std::string& at) {
  require(list(value, at).size() == 2, at, ": ", value.dump(), " is not [rows, columns]");
  for (size_t i = 0; i < 2; ++i) s.attn2d_size[i] = whole(value[i], 1, most_ranks, at);
}

void set_vae_size(Settings& s, const Json& value, const std::string& at) {
  if (value == "auto")
    s.parallel_vae_size.reset();
  else
    s.parallel_vae_size = whole(value, 1, most_ranks, at);
}

void set_resolutions(Settings& s, const Json& value, const std::string& at) {
  s.resolutions.clear();
  for (const Json& pair : list(value, at)) {
    require(pair.is_array() && pair.size() == 2, at, ": ", pair.dump(), " is not [height, width]");
    s.resolutions.push_back({whole(pair[0], 16, 16384, at), whole(pair[1], 16, 16384, at)});
  }
}

void set_num_frames(Settings& s, const Json& value, const std::string& at) {
  s.num_frames.clear();
  for (const Json& count : list(value, at)) s.num_frames.push_back(whole(count, 1, 4093, at));
}

void check_graph_scope(Settings&, const Json& value, const std::string& at) {
  if (word(value, "segment|step", at) == "step")
    fail(Code::unsupported, at,
         ": step: a recording of a whole step is not built, since the host looks at each step's ",
         "end for progress, cancelling and values that are not finite; segment records the parts of one");
}

void unsupported(Settings&, const Json& value, const std::string& at) {
  if (!value.is_null() && !value.empty()) fail(Code::unsupported, at, ": not built in this version; leave it out");
}

const Key keys[] = {
    {"attention_config.backend", "AUTO, CUDNN, FA4, VANILLA", "attention kernel; each maps to what this build has",
     word_into(&Settings::attention_backend, "AUTO|CUDNN|FA4|VANILLA")},
    {"parallel_config.cfg_size", "1 to 1024", "ranks over the guidance branches", size_into(&Settings::cfg_size)},
    {"parallel_config.tp_size", "1 to 1024", "tensor parallel ranks", size_into(&Settings::tp_size)},
    {"parallel_config.ulysses_size", "1 to 1024", "ranks over heads", size_into(&Settings::ulysses_size)},
    {"parallel_config.ring_size", "1 to 1024", "ranks over tokens, keys rotating", size_into(&Settings::ring_size)},
    {"parallel_config.attn2d_size", "[rows, columns]", "ranks over tokens in a grid", set_attn2d},
    {"parallel_config.async_ulysses", "true, false", "exchange while the next projection runs",
     truth_into(&Settings::async_ulysses)},
    {"parallel_config.parallel_vae_size", "auto, 1 to 1024", "ranks that decode together", set_vae_size},
    {"parallel_config.parallel_vae_split_dim", "width, height", "what of a frame they share out",
     word_into(&Settings::parallel_vae_split_dim, "width|height")},
    {"compilation_config.resolutions", "[[height, width], ...]", "sizes made ready before the first request, see below",
     set_resolutions},
    {"compilation_config.num_frames", "[n, ...]", "lengths made ready before the first request", set_num_frames},
    {"compilation_config.skip_warmup", "true, false", "make nothing ready", truth_into(&Settings::skip_warmup)},
    {"cuda_graph_config.enable", "true, false",
     "record and replay segments on CUDA; the report's `cuda_graph` says whether they were",
     truth_into(&Settings::cuda_graph)},
    {"cuda_graph_config.scope", "segment", "how much one recording holds; a whole step is not built",
     check_graph_scope},
    {"memory_config.limit_gib", "1 to 1048576", "most memory that the ranks of a GPU, or of a host, may take together",
     [](Settings& s, const Json& v, const std::string& at) { s.memory_limit_gib = whole(v, 1, 1 << 20, at); }},
    {"quant_config", "", "not built", unsupported},
    {"cache_config", "", "not built", unsupported},
};

[[noreturn]] void unknown(const std::string& at, std::string_view where) {
  std::vector<std::string_view> known;  // groups for a group, keys for a key
  for (const std::string_view name : std::views::transform(keys, &Key::name))
    known.push_back(at.find('.') == std::string::npos ? name.substr(0, name.find('.')) : name);
  const std::string like = nearest(at, known, at.size() / 2);
  fail(Code::invalid, where, ": key \"", at, "\" is not known; ",
       like.empty() ? "docs/settings.md has them all" : cat("the nearest known one is \"", like, '"'));
}

// Degrees are at most `most_ranks` each, so that six of them fit.
void check_world(const Settings& s) {
  int64_t ranks = 1;
  for (const int degree : {s.cfg_size, s.tp_size, s.ring_size, s.attn2d_size[0], s.attn2d_size[1], s.ulysses_size})
    ranks *= degree;
  require(ranks <= most_ranks, "parallel_config: its sizes multiply to ", ranks, " ranks; at most ", most_ranks,
          " make sense");
}

const Key* find(const std::string& at) {
  const auto found = std::ranges::find(keys, at, &Key::name);
  return found == std::end(keys) ? nullptr : &*found;
}

bool is_group(const std::string& at) {
  return std::ranges::any_of(keys, [&](const Key& key) { return std::string_view(key.name).starts_with(at + "."); });
}

}  // namespace

Settings parse_settings(const Json& tree, std::string_view where) {
  Settings settings;
  if (tree.is_null()) return settings;  // an empty file
  require(tree.is_object(), where, ": not a table of settings, as `parallel_config: {cfg_size: 2}` is one");
  for (const auto& [name, value] : tree.items()) {
    if (const Key* key = find(name)) {
      key->set(settings, value, name);
      continue;
    }
    if (!is_group(name)) unknown(name, where);
    require(value.is_object(), where, ": ", name, " is not a table");
    for (const auto& [inner, inner_value] : value.items()) {
      const std::string at = cat(name, '.', inner);
      const Key* key = find(at);
      if (!key) unknown(at, where);
      key->set(settings, inner_value, at);
    }
  }
  check_world(settings);
  return settings;
}

Settings read_settings(const std::filesystem::path& file) { return parse_settings(read_yaml(file), file.string()); }

std::string settings_as_markdown() {
  std::string text = "| key | values | meaning |\n|---|---|---|\n";
  for (const Key& key : keys) text += cat("| `", key.name, "` | ", key.values, " | ", key.meaning, " |\n");
  return text;
}

}  // namespace zoetrope
