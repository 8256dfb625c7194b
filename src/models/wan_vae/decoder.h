// Decoder of the Wan 2.1 VAE: latents to frames, causal in time, 4x in time and 8x in space.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "mesh/mesh.h"
#include "models/wan_vae/config.h"
#include "models/wan_vae/layers.h"

namespace zoetrope {

// How ranks come by what they read beyond their part of a frame. The results are bit-equal.
enum class VaeForm : uint8_t {
  exchange,  // each convolution fetches a row or column from the neighbours, the attention gathers its keys and values
  overlap,   // each rank does all of the middle, then its part and a margin; nothing is sent before gather
};

// The ranks that share a decode, each a part of the rows or columns of every frame; null: one rank.
struct VaeRanks {
  Comm* comm = nullptr;  // Mesh::vae()
  VaeSplit split = VaeSplit::width;
  VaeForm form = VaeForm::exchange;
};

class WanVaeDecoder {
 public:
  // Takes memory in c.weights(component). The encoder's tensors may be in the source; they are not read. Several ranks
  // take slots of c.exchange() as they decode, for the largest chunk of a clip: the largest clip should be the first.
  WanVaeDecoder(Ctx& c, const WanVaeConfig& config, nn::Parameters& parameters, DType compute,
                const std::string& component = "vae", const VaeRanks& ranks = {});

  const WanVaeConfig& config() const { return config_; }
  const std::vector<nn::Entry>& entries() const { return entries_; }  // of the decoder

  // One clip on its way through: the last frames that each causal convolution saw, in the request region. Latent frames
  // come one at a time, so the result cannot depend on how a caller cuts the clip; and behind the doubling of frames
  // each goes through the finer stages alone, so that scratch holds one frame of the finest.
  class Stream {
   public:
    explicit Stream(const WanVaeDecoder& decoder) : decoder_(decoder) {}

    // latent [1, H, W, z] fp32, as the denoiser leaves it -> this rank's part of [t, 8H, 8W, 3] of the compute type in
    // scratch, before the clamp to [-1, 1]; t = 1 for the first latent frame, 4 for each later one. All ranks pass
    // the whole latent; of more ranks than latent rows or columns the last get a part without any.
    Tensor decode_next(Ctx& c, const Tensor& latent);

    // Parts of decode_next, as they are or as pixels -> whole frames [t, 8H, 8W, 3] in scratch on the first of the
    // ranks, undefined on the others.
    Tensor gather(Ctx& c, const Tensor& part) const;

   private:
    const WanVaeDecoder& decoder_;
    nn::Slab slab_;               // whole or this rank's part, at the latent's resolution
    std::deque<nn::Past> slots_;  // references to them outlive growth
    Shape latent_;
    bool first_ = true;
  };

 private:
  void load(nn::Loader& from);
  void take_apart(Ctx& c);
  bool split() const { return ranks_.comm && ranks_.comm->size() > 1; }
  nn::Slab cut(const Shape& latent) const;
  int64_t longest_line(int64_t across) const;
  std::vector<int64_t> margins() const;
  void decode(Ctx& c, const Tensor& latent, const nn::Slab& slab, wan_vae::Walk walk, const Tensor& frames) const;
  wan_vae::Frames enter(Ctx& c, const Tensor& latent, wan_vae::Walk& walk) const;
  void rise(Ctx& c, size_t stage, wan_vae::Frames some, wan_vae::Walk walk, const Tensor& frames) const;
  void leave(Ctx& c, wan_vae::Frames& some, const Tensor& frames, wan_vae::Walk& walk) const;

  WanVaeConfig config_;
  DType compute_;
  std::string component_;
  VaeRanks ranks_;
  Tensor mean_, std_;  // [z] fp32
  nn::Linear post_quant_;
  nn::CausalConv conv_in_, conv_out_;
  wan_vae::ResBlock mid_[2];
  wan_vae::FrameAttention mid_attention_;
  std::vector<wan_vae::Stage> stages_;
  Tensor norm_out_;
  std::vector<nn::Entry> entries_;
  mutable Slot lines_, frames_;  // on their way between ranks: what convolutions and attention need, and gather's
};

}  // namespace zoetrope
