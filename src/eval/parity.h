// Is a mesh's video that of one rank? Runs the pipeline once on one rank and once on each mesh, ranks as threads on the
// CPU or all of them on one GPU, with the same weights, prompt and seed, and compares the first guided prediction, the
// last latents and every frame.
//
// Bounds (docs/numerics.md): cfg, Ulysses, layout padding and the parallel VAE give the bits of one rank. Ring,
// Attention2D and tensor parallelism sum in another order: in fp32 at most 1e-5 of max |reference| for a prediction and
// 1e-4 for the last latents, every frame at least 60 dB; in bf16 rel-L2(mesh, one) <= 1.5 rel-L2(one, fp32) and
// max |difference| <= 0.05 max |reference|. A prediction whose rms lies outside [0.2, 5] proves nothing and is refused.
#pragma once
#include <stop_token>
#include <string>
#include <vector>

#include "config/request.h"
#include "eval/compare.h"
#include "models/source.h"
#include "pipeline/collectives.h"
#include "pipeline/layout.h"

namespace zoetrope {

struct ParityRow {
  Layout layout;
  Difference velocity, latents;
  double velocity_bound = 0, latents_bound = 0;  // of Difference::relative(); 0: the same bits
  double worst_psnr = 0;                         // of the frames, dB; infinite: the same pixels
  double psnr_bound = 0;                         // what the worst frame must have; 0: nothing is promised
  Collectives forward;                           // of rank 0, one prediction
  std::string failure;                           // empty: within every bound
};

struct ParityOptions {
  DeviceKind device = DeviceKind::cpu;
  size_t memory_limit = SIZE_MAX;  // of a memory region of a rank, bytes
  std::stop_token stop{};          // Error(cancelled) once asked
};

class Parity {
 public:
  // Runs one rank; for bf16 also in fp32. `source` is borrowed.
  Parity(const ModelSource& source, const Request& request, DType dtype, DType vae_dtype,
         const ParityOptions& options = {});

  ParityRow check(const Layout& layout) const;

 private:
  struct Video {
    std::vector<float> velocity, latents;
    std::vector<std::vector<uint8_t>> frames;
    Collectives forward;
  };
  class Recorder;
  Video run(const Layout& layout, DType dtype, DType vae_dtype) const;
  void judge(ParityRow& row, const Video& video) const;

  const ModelSource& source_;
  Request request_;
  DType dtype_, vae_dtype_;
  ParityOptions options_;
  Video one_;
  Difference rounding_;  // of the prediction: one rank in bf16 against fp32
};

}  // namespace zoetrope
