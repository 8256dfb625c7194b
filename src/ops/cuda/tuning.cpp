#include "ops/cuda/tuning.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "base/json.h"
#include "base/sha256.h"

namespace zoetrope::cuda {
namespace {

constexpr int format = 1;
constexpr double same_plan_for = 1.5;  // times more rows, or less

std::string hex(const std::array<uint64_t, 8>& words) {
  std::string text;
  for (const uint64_t word : words) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(word));
    text += digits;
  }
  return text;
}

std::array<uint64_t, 8> words_of(const std::string& text) {
  const bool digits = std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c); });
  require(text.size() == 128 && digits, "\"code\" is not 128 hexadecimal digits");
  std::array<uint64_t, 8> words{};
  for (size_t i = 0; i < words.size(); ++i) words[i] = std::stoull(text.substr(16 * i, 16), nullptr, 16);
  return words;
}

const Json& member(const Json& object, const char* key) {
  const auto found = object.find(key);
  require(found != object.end(), "\"", key, "\" is missing");
  return *found;
}

std::string word(const Json& object, const char* key) {
  const Json& value = member(object, key);
  require(value.is_string(), "\"", key, "\" is not text");
  return value.get<std::string>();
}

int64_t count(const Json& object, const char* key) {
  const Json& value = member(object, key);
  require(value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t{1} << 40, "\"", key, "\" is not a size");
  return value.get<int64_t>();
}

double time_in(const Json& object, const char* key) {
  const Json& value = member(object, key);
  require(value.is_number(), "\"", key, "\" is not a number");
  return value.get<double>();
}

Json json_of(const ProductPlan& p) {
  return {{"m", p.m},
          {"n", p.n},
          {"k", p.k},
          {"in", name(p.in)},
          {"out", name(p.out)},
          {"epilogue", p.epilogue},
          {"alignment", p.alignment},
          {"code", hex(p.code)},
          {"plan", p.plan},
          {"us", p.us},
          {"first_us", p.first_us}};
}

Json json_of(const ConvolutionPlan& p) {
  return {{"kind", p.kind}, {"frames", p.frames}, {"rows", p.rows},        {"columns", p.columns},
          {"plan", p.plan}, {"us", p.us},         {"first_us", p.first_us}};
}

ProductPlan product_of(const Json& j) {
  return {count(j, "m"),
          count(j, "n"),
          count(j, "k"),
          parse_dtype(word(j, "in")),
          parse_dtype(word(j, "out")),
          word(j, "epilogue"),
          count(j, "alignment"),
          words_of(word(j, "code")),
          word(j, "plan"),
          time_in(j, "us"),
          time_in(j, "first_us")};
}

ConvolutionPlan convolution_of(const Json& j) {
  return {word(j, "kind"), count(j, "frames"), count(j, "rows"),      count(j, "columns"),
          word(j, "plan"), time_in(j, "us"),   time_in(j, "first_us")};
}

Json content(const TuningTable& table) {
  Json products = Json::array(), convolutions = Json::array();
  for (const ProductPlan& p : table.products) products.push_back(json_of(p));
  for (const ConvolutionPlan& p : table.convolutions) convolutions.push_back(json_of(p));
  return {{"format", format},     {"device", table.device}, {"cublas", table.cublas},
          {"cudnn", table.cudnn}, {"products", products},   {"convolutions", convolutions}};
}

template <class F>
void each(const Json& json, const char* key, F f) {
  const Json& list = member(json, key);
  require(list.is_array(), "\"", key, "\" is not a list");
  for (size_t i = 0; i < list.size(); ++i) {
    require(list[i].is_object(), key, ' ', i, " is not an object");
    try {
      f(list[i]);
    } catch (const Error& error) {
      fail(error.code(), key, ' ', i, ": ", error.what());
    }
  }
}

double apart(double a, double b) { return std::abs(std::log(std::max(a, 1.0) / std::max(b, 1.0))); }

}  // namespace

TuningTable TuningTable::parse(std::string_view text, std::string_view where) {
  const Json json = parse_json(text, where);
  return about(where, [&] {
    require(json.is_object() && json.contains("format"), "not a table of `zoetrope tune`");
    require(json["format"] == format, "a table of format ", json["format"].dump(), "; this version reads ", format,
            ", write it again with `zoetrope tune`");
    TuningTable table{word(json, "device"), word(json, "cublas"), word(json, "cudnn"), {}, {}};
    each(json, "products", [&](const Json& one) { table.products.push_back(product_of(one)); });
    each(json, "convolutions", [&](const Json& one) { table.convolutions.push_back(convolution_of(one)); });
    require(word(json, "sha256") == table.hash(),
            "damaged, or changed by hand: its sha256 is that of another table; write it again with `zoetrope tune`");
    return table;
  });
}

std::string TuningTable::hash() const {
  const std::string text = content(*this).dump();
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.hex();
}

std::string TuningTable::text() const {
  Json json = content(*this);
  json["sha256"] = hash();
  return json.dump(1) + "\n";
}

const ProductPlan* TuningTable::find(const ProductPlan& like) const {
  const ProductPlan* best = nullptr;
  const auto off = [&](const ProductPlan& p) { return apart(static_cast<double>(p.m), static_cast<double>(like.m)); };
  for (const ProductPlan& p : products) {
    const bool fits = p.n == like.n && p.k == like.k && p.in == like.in && p.out == like.out &&
                      p.epilogue == like.epilogue && p.alignment <= like.alignment;
    if (fits && off(p) <= std::log(same_plan_for) && (!best || off(p) < off(*best))) best = &p;
  }
  return best;
}

std::vector<const ConvolutionPlan*> TuningTable::all(const ConvolutionPlan& like) const {
  const auto pixels = [](const ConvolutionPlan& p) {  // a table's sizes may be too large to multiply as integers
    return static_cast<double>(p.frames) * static_cast<double>(p.rows) * static_cast<double>(p.columns);
  };
  std::vector<const ConvolutionPlan*> rows;
  for (const ConvolutionPlan& p : convolutions)
    if (like.kind.starts_with(p.kind)) rows.push_back(&p);
  std::ranges::stable_sort(rows, {}, [&](const ConvolutionPlan* p) { return apart(pixels(*p), pixels(like)); });
  return rows;
}

// The fastest on an H200 among plans of equal bits (docs/decisions/0106), in any picture.
const TuningTable& untuned() {
  static const TuningTable table{"",
                                 "",
                                 "",
                                 {},
                                 {{"96 to 96 kernel 3x3x3", 0, 0, 0, "k2=0_k13=0_k18=0_k25=0_k27=8_k28=1", 0, 0},
                                  {"96 to 96 kernel 3x3x3", 0, 0, 0, "k2=3_k13=0_k18=0_k25=0_k27=4_k28=1", 0, 0},
                                  {"96 to 8 kernel 3x3x3", 0, 0, 0, "eng10_k2=16_k13=0_k14=3_k18=0_k23=0", 0, 0},
                                  {"96 to 8 kernel 3x3x3", 0, 0, 0, "k2=4_k13=0_k18=0_k25=1_k27=8_k28=1", 0, 0},
                                  {"192 to 192 kernel 3x3x3", 0, 0, 0, "k2=3_k13=1_k18=0_k25=0_k27=1_k28=2", 0, 0},
                                  {"192 to 192 kernel 3x3x3", 0, 0, 0, "k2=3_k13=1_k18=0_k25=1_k27=1_k28=2", 0, 0},
                                  {"192 to 384 kernel 3x3x3", 0, 0, 0, "k2=0_k13=1_k18=0_k25=1_k27=2_k28=1", 0, 0},
                                  {"192 to 384 kernel 3x3x3", 0, 0, 0, "k2=0_k13=1_k18=0_k25=1_k27=8_k28=1", 0, 0},
                                  {"384 to 384 kernel 3x3x3", 0, 0, 0, "k2=0_k13=1_k18=0_k25=1_k27=2_k28=1", 0, 0},
                                  {"384 to 384 kernel 3x3x3", 0, 0, 0, "k2=0_k13=1_k18=0_k25=1_k27=8_k28=1", 0, 0}}};
  return table;
}

std::string tuning_name(std::string_view device, std::string_view cublas, std::string_view cudnn) {
  std::string name = cat(device, "-cublas", cublas, "-cudnn", cudnn);
  for (char& c : name)
    c = std::isalnum(static_cast<unsigned char>(c)) || c == '.' ? static_cast<char>(std::tolower(c)) : '-';
  return name;
}

}  // namespace zoetrope::cuda
