#include "pipeline/hooks.h"

namespace zoetrope {

const char* name(Stage stage) {
  switch (stage) {
    case Stage::load:
      return "load";
    case Stage::text_encode:
      return "text_encode";
    case Stage::denoise:
      return "denoise";
    case Stage::vae_decode:
      return "vae_decode";
    case Stage::encode:
      return "encode";
  }
  return "unknown";
}

}  // namespace zoetrope
