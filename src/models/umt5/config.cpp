#include <algorithm>
#include <cstdlib>

#include "models/config.h"
#include "models/umt5/umt5.h"

namespace zoetrope {
namespace {

constexpr int buckets = 32, max_distance = 128;
// On each side buckets 8 to 15 begin at these distances (eight steps of a logarithm from 8 to 128, as fp32 gives them).
constexpr int64_t begins[] = {8, 12, 16, 23, 32, 46, 64, 91};

}  // namespace

int umt5_bucket(int64_t distance) {
  const int64_t away = std::abs(distance);
  const int side = distance > 0 ? buckets / 2 : 0;
  if (away < begins[0]) return side + static_cast<int>(away);
  return side + 7 + static_cast<int>(std::upper_bound(std::begin(begins), std::end(begins), away) - std::begin(begins));
}

Umt5Config umt5_config(const Json& json) {
  require(json.is_object(), "text_encoder: config.json is not an object");
  Umt5Config config;
  const Numbers number{json, "text_encoder", 1 << 24};
  number("num_layers", config.layers, 1024);
  number("num_heads", config.heads, 1024);
  number("d_kv", config.width, 1024);
  number("d_model", config.dim);
  number("d_ff", config.ffn_dim);
  number("vocab_size", config.vocabulary);
  read_epsilon(json, "text_encoder", "layer_norm_epsilon", config.eps);
  const auto projection = value_or<std::string>(json, "feed_forward_proj", "gated-gelu");
  if (projection != "gated-gelu")
    fail(Code::unsupported, "text_encoder: feed_forward_proj \"", projection, "\" is not built; gated-gelu is");
  const int given_buckets = value_or(json, "relative_attention_num_buckets", buckets);
  const int given_distance = value_or(json, "relative_attention_max_distance", max_distance);
  if (given_buckets != buckets || given_distance != max_distance)
    fail(Code::unsupported, "text_encoder: ", given_buckets, " position buckets up to ", given_distance,
         " are not built; 32 up to 128 are");
  return config;
}

}  // namespace zoetrope
