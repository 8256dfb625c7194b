#include "pipeline/latents.h"

#include <cmath>
#include <span>
#include <vector>

#include "base/error.h"
#include "io/safetensors.h"
#include "sched/noise.h"

namespace zoetrope {
namespace {

std::vector<float> noise(const Request& request, const Shape& shape) {
  const int64_t positions = shape[0] * shape[1] * shape[2], channels = shape[3];
  std::vector<float> drawn(static_cast<size_t>(shape.size())), laid_out(drawn.size());
  fill_normal(drawn, request.seed, parse_noise(request.noise));
  for (int64_t ch = 0; ch < channels; ++ch)
    for (int64_t p = 0; p < positions; ++p) laid_out[p * channels + ch] = drawn[ch * positions + p];
  return laid_out;
}

const TensorEntry& latents_of(const SafetensorsFile& file, const Shape& shape) {
  const std::string path = file.path().string();
  const TensorEntry* entry = file.find("latents");
  require(entry != nullptr, path, ": holds no tensor \"latents\"");
  require(entry->shape == shape && entry->dtype == DType::f32, path, ": latents are ", entry->shape, " ", entry->dtype,
          ", this request needs ", shape, " fp32 (frames, rows, columns, channels)");
  return *entry;
}

std::vector<float> from_file(const std::string& path, const Shape& shape) {
  const SafetensorsFile file(path);
  std::vector<float> values(static_cast<size_t>(shape.size()));
  file.read(latents_of(file, shape), 0, std::as_writable_bytes(std::span(values)));
  for (const float value : values) require(std::isfinite(value), path, ": latents hold a value that is not finite");
  return values;
}

}  // namespace

void check_latents(const Request& request, const ModelInfo& model) {
  if (request.latents.empty()) return;
  latents_of(SafetensorsFile(request.latents), {request.latent_frames(), request.height / model.spatial_scale,
                                                request.width / model.spatial_scale, model.in_channels});
}

Tensor initial_latents(Ctx& c, const Request& request, const Shape& shape) {
  const Tensor latents = c.empty(shape, DType::f32);
  if (c.dry()) return latents;
  const auto values = request.latents.empty() ? noise(request, shape) : from_file(request.latents, shape);
  c.upload(values.data(), latents);
  return latents;
}

}  // namespace zoetrope
