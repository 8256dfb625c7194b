// Meshes on trained weights: the demo model's video, shared out over ranks, against one rank's.
#include <gtest/gtest.h>

#include "demo/shapes.h"
#include "eval/parity.h"
#include "pipeline/facts.h"

namespace zoetrope::demo {
namespace {

class ShapesOnMesh : public testing::Test {
 protected:
  ParityRow check(const Layout& layout) const { return one_.check(layout); }

 private:
  Request request() const {
    Ask ask = shapes_ask("a big red circle moves right on a white background", 5);
    ask.num_frames = 9, ask.steps = 3;
    return resolve(ask, model_info(source_), 0);
  }

  ModelSource source_ = open_model_folder(model_folder);
  Parity one_{source_, request(), DType::f32, DType::f32};
};

TEST_F(ShapesOnMesh, DrawTheSamePixelsWhereNothingIsMerged) {
  for (const MeshShape& shape : {MeshShape{.cfg = 2, .vae = 1},
                                 {.ulysses = 2, .vae = 1},
                                 {.ulysses = 3, .vae = 3},
                                 {.cfg = 2, .ulysses = 2, .vae = 4, .vae_split = VaeSplit::height}}) {
    SCOPED_TRACE(text_of(shape));
    const ParityRow row = check({shape, {}});
    EXPECT_TRUE(row.velocity.same_bits);
    EXPECT_TRUE(row.latents.same_bits);
    EXPECT_EQ(row.worst_psnr, std::numeric_limits<double>::infinity());
  }
}

TEST_F(ShapesOnMesh, DrawEveryFrameWithin60Decibels) {
  const attn::Forms pipelined{.pipelined = true};
  for (const Layout& layout : {Layout{{.ring = 3, .vae = 1}, {}},
                               {{.rows = 2, .cols = 2, .vae = 1}, {}},
                               {{.cfg = 2, .rows = 1, .cols = 2, .vae = 2}, pipelined},
                               {{.tp = 2, .vae = 1}, {}},
                               {{.tp = 2, .ulysses = 2, .vae = 2}, {}}}) {
    const ParityRow row = check(layout);
    EXPECT_TRUE(row.latents.finite);
    EXPECT_GE(row.worst_psnr, 60) << layout.text();
    std::printf("%s: forward %.1e, latents %.1e, worst frame %.1f dB\n", layout.text().c_str(), row.velocity.relative(),
                row.latents.relative(), row.worst_psnr);
  }
}

}  // namespace
}  // namespace zoetrope::demo
