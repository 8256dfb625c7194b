#include "eval/parity.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/error.h"
#include "comm/local/world.h"
#include "ops/cpu/backend.h"
#include "ops/cuda/backend.h"
#include "pipeline/facts.h"
#include "pipeline/text_to_video.h"

namespace zoetrope {
namespace {

constexpr double velocity_fp32 = 1e-5, latents_fp32 = 1e-4, frames_db = 60;
constexpr double bf16_growth = 1.5, bf16_max = 0.05;
constexpr double least_rms = 0.2, most_rms = 5;

// "" where the difference is within the bound (of relative(); 0: the same bits).
std::string beyond(const char* what, const Difference& d, double bound) {
  if (!d.finite) return cat(what, " not finite");
  if (bound == 0 ? d.same_bits : d.relative() <= bound) return "";
  return bound == 0 ? cat(what, " not the same bits") : cat(what, " beyond its bound");
}

}  // namespace

// Keeps what rank 0 makes: the first guided prediction, the last latents, the frames.
class Parity::Recorder final : public FrameSink {
 public:
  explicit Recorder(Video& video) : video_(video) {}

  void tap(Ctx& c, std::string_view name, const Tensor& value) {
    if (name == "velocity.0") video_.velocity = c.fetch<float>(value, 0.0f);
    if (name.starts_with("latents.")) video_.latents = c.fetch<float>(value, 0.0f);
  }
  void begin(int, int, int, int) override {}
  void frame(std::span<const uint8_t> rgb) override { video_.frames.emplace_back(rgb.begin(), rgb.end()); }
  void finish(const std::stop_token&) override {}

 private:
  Video& video_;
};

Parity::Parity(const ModelSource& source, const Request& request, DType dtype, DType vae_dtype,
               const ParityOptions& options)
    : source_(source), request_(request), dtype_(dtype), vae_dtype_(vae_dtype), options_(options) {
  one_ = run({}, dtype, vae_dtype);
  if (dtype == DType::f32) return;
  const Video exact = run({}, DType::f32, DType::f32);
  rounding_ = compare(one_.velocity, exact.velocity);
}

Parity::Video Parity::run(const Layout& layout, DType dtype, DType vae_dtype) const {
  const int ranks = layout.shape.world();
  const bool on_cuda = options_.device == DeviceKind::cuda;
  std::vector<std::unique_ptr<Backend>> backends;
  for (int i = 0; i < ranks; ++i) backends.push_back(on_cuda ? make_cuda_backend(0) : make_cpu_backend());
  Pool pool(1);  // the ranks are threads themselves
  Video video;
  Recorder recorder(video);
  const auto prepare = [&](Rank& rank, int number) {
    prepare_rank(rank, *backends[static_cast<size_t>(number)]);
    rank.pool = &pool;
    rank.memory_limit = options_.memory_limit;
    rank.stop = options_.stop;
    if (number == 0) rank.tap = std::bind_front(&Recorder::tap, &recorder);
  };
  const PromptIds ids = encode_prompts(*open_tokenizer(source_), request_);
  run_ranks(ranks, prepare, [&](Ctx& c, Comm& world) {
    const Mesh mesh(world, layout.shape, mesh_heads(source_));
    TextToVideo pipeline(c, source_, dtype, vae_dtype, {}, &mesh, layout.forms);
    const RunFacts facts =
        pipeline.run(c, request_, scheduler_config(source_, request_), ids, {options_.stop, {}}, recorder);
    if (world.rank() == 0) video.forward = facts.forward;
  });
  return video;
}

void Parity::judge(ParityRow& row, const Video& video) const {
  const bool half = dtype_ == DType::bf16;
  row.psnr_bound = row.layout.exact() ? std::numeric_limits<double>::infinity() : half ? 0 : frames_db;
  if (!row.layout.exact()) {
    row.velocity_bound = half ? bf16_max : velocity_fp32;
    row.latents_bound = half ? bf16_max : latents_fp32;
  }
  std::vector<std::string> misses{beyond("prediction", row.velocity, row.velocity_bound),
                                  beyond("latents", row.latents, row.latents_bound)};
  if (half && row.velocity.rel_l2 > bf16_growth * rounding_.rel_l2)
    misses.push_back("prediction further from one rank than 1.5 x bf16 from fp32");
  if (row.velocity.rms < least_rms || row.velocity.rms > most_rms)
    misses.push_back(cat("reference of rms ", row.velocity.rms, ", which proves nothing outside 0.2 to 5"));
  if (video.frames.size() != one_.frames.size())
    misses.push_back(cat(video.frames.size(), " frames, one rank made ", one_.frames.size()));
  if (row.worst_psnr < row.psnr_bound)
    misses.push_back(row.layout.exact() ? "frames not the same pixels" : "frames beyond their bound");
  for (const std::string& miss : misses)
    if (!miss.empty()) row.failure += (row.failure.empty() ? "" : "; ") + miss;
}

ParityRow Parity::check(const Layout& layout) const {
  const Video video = run(layout, dtype_, vae_dtype_);
  ParityRow row;
  row.layout = layout;
  row.velocity = compare(video.velocity, one_.velocity);
  row.latents = compare(video.latents, one_.latents);
  row.worst_psnr = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < std::min(video.frames.size(), one_.frames.size()); ++i)
    row.worst_psnr = std::min(row.worst_psnr, psnr(video.frames[i], one_.frames[i]));
  row.forward = video.forward;
  judge(row, video);
  return row;
}

}  // namespace zoetrope
