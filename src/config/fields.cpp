#include "config/fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace zoetrope {
namespace {

constexpr double any = std::numeric_limits<double>::max();

const Field table[] = {
    {"negative_prompt", &Ask::negative_prompt, 0, 0, nullptr,
     "what the video should not show; \"\" is an empty prompt, not none"},
    {"width", &Ask::width, 16, 16384, nullptr, "pixels, a multiple of 16"},
    {"height", &Ask::height, 16, 16384, nullptr, "pixels, a multiple of 16"},
    {"num_frames", &Ask::num_frames, 1, 4093, nullptr, "frames, 4k + 1 unless frames_policy says otherwise"},
    {"frames_policy", &Ask::frames_policy, 0, 0, "exact|floor|ceil", "what to do with a count that is not 4k + 1"},
    {"fps", &Ask::fps, 1, 240, nullptr, "frames a second of the file"},
    {"steps", &Ask::steps, 1, 1000, nullptr, "denoising steps"},
    {"guidance_scale", &Ask::guidance_scale, 0, 100, nullptr,
     "how strongly the prompt steers (high-noise expert); 1 or less: no guidance"},
    {"guidance_scale_2", &Ask::guidance_scale_2, 0, 100, nullptr, "the same for the low-noise expert"},
    {"flow_shift", &Ask::flow_shift, 1e-3, 1000, nullptr, "shift of the noise schedule"},
    {"schedule", &Ask::schedule, 0, 0, "diffusers|native", "grid of the noise levels"},
    {"boundary_ratio", &Ask::boundary_ratio, 0, 1, nullptr,
     "share of the timesteps below which the low-noise expert works"},
    {"recipe", &Ask::recipe, 0, 0, "original|folder",
     "defaults: original, as the model's authors run it; folder, as diffusers runs the folder (flow_shift and "
     "boundary_ratio from its files, the rest diffusers' own defaults)"},
    {"preset", &Ask::preset, 0, 0, "standard|draft", "draft: smaller and fewer steps"},
    {"seed", &Ask::seed, 0, any, nullptr,
     "of the initial noise; a random one is taken and reported where none is given"},
    {"noise", &Ask::noise, 0, 0, nullptr, "torch-cpu, or torch-cuda:132x8 (the grid of a GPU)"},
    {"latents", &Ask::latents, 0, 0, nullptr, "safetensors file with the initial latents, instead of noise"},
};

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j)
      diagonal = std::exchange(row[j + 1], std::min({row[j + 1] + 1, row[j] + 1, diagonal + (a[i] != b[j])}));
  }
  return row.back();
}

template <class T>
T parse_number(const Field& field, const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  require(error != std::errc::result_out_of_range, field.name, ": ", text, " is out of range");
  require(error == std::errc{} && stop == end, field.name, ": \"", text, "\" is not a ",
          std::is_integral_v<T> ? "whole number" : "number", std::is_unsigned_v<T> ? " of 0 or more" : "");
  return value;
}

// As many as tell it from any other number: 100.0001 is not 100.
template <class T>
std::string digits_of(T value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

template <class T>
void check(const Field& field, const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    if (!field.choices) return;
    const bool one = value.find('|') == std::string::npos;
    require(one && cat('|', field.choices, '|').find(cat('|', value, '|')) != std::string::npos, field.name, ": \"",
            value, "\" is not one of ", field.choices);
  } else {
    const auto number = static_cast<double>(value);
    require(number >= field.min && number <= field.max, field.name, ": ", digits_of(value), " is outside ", field.min,
            " to ", field.max);
  }
}

}  // namespace

std::span<const Field> request_fields() { return table; }

std::string nearest(std::string_view word, std::span<const std::string_view> known, size_t most) {
  // A name that was cut short is nearer than one with as many letters of another word.
  const auto distance = [&](std::string_view k) { return k.starts_with(word) ? 0 : edit_distance(word, k); };
  const auto best = std::ranges::min_element(known, {}, distance);
  return best == known.end() || distance(*best) > most ? std::string() : std::string(*best);
}

const Field& request_field(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Field& field : table) {
    if (field.name == name) return field;
    known.push_back(field.name);
  }
  const std::string like = nearest(name, known, name.size() / 2);
  fail(Code::invalid, "field \"", name, "\" is not known",
       like.empty() ? "" : cat("; the nearest known one is \"", like, '"'));
}

void set(Ask& ask, const Field& field, const std::string& text) {
  std::visit(
      [&]<class T>(std::optional<T> Ask::*slot) {
        T value;
        if constexpr (std::is_same_v<T, std::string>)
          value = text;
        else
          value = parse_number<T>(field, text);
        check(field, value);
        ask.*slot = std::move(value);
      },
      field.slot);
}

void set(Ask& ask, const Field& field, const Json& value) {
  const bool words = std::holds_alternative<Field::Member<std::string>>(field.slot);
  require(words ? value.is_string() : value.is_number(), field.name, ": ", value.dump(), " is a ", value.type_name(),
          ", a ", words ? "string" : "number", " is needed");
  set(ask, field, words ? value.get<std::string>() : value.dump());
}

Json to_json(const Ask& ask) {
  Json json = {{"prompt", ask.prompt}};
  for (const Field& field : table)
    std::visit(
        [&](auto slot) {
          if (ask.*slot) json[field.name] = *(ask.*slot);
        },
        field.slot);
  return json;
}

Ask ask_from_json(const Json& json) {
  Ask ask;
  for (const auto& [name, value] : json.items())
    if (name == "prompt")
      ask.prompt = value.get<std::string>();
    else
      set(ask, request_field(name), value);
  return ask;
}

std::string fields_as_markdown() {
  std::string text = "| field | option | values | meaning |\n|---|---|---|---|\n";
  for (const Field& field : table) {
    std::string option = field.name, values = field.choices ? field.choices : "";
    std::ranges::replace(option, '_', '-');
    for (size_t at = 0; (at = values.find('|', at)) != std::string::npos; at += 3) values.replace(at, 1, " / ");
    if (values.empty() && field.max != 0) values = field.max == any ? "0 or more" : cat(field.min, " to ", field.max);
    text += cat("| `", field.name, "` | `--", option, "` | ", values.empty() ? "text" : values, " | ", field.meaning,
                " |\n");
  }
  return text;
}

}  // namespace zoetrope
