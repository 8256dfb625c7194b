#include "video.h"

namespace mp4 {
namespace {

constexpr int exact = SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP | SWS_BITEXACT;

Scaler scaler(int width, int height, AVPixelFormat from, AVPixelFormat to, int matrix, bool from_full, bool to_full) {
  Scaler made(sws_getContext(width, height, from, width, height, to, exact, nullptr, nullptr, nullptr));
  if (!made) throw Failure("no colour conversion for this size");
  const int* coefficients = sws_getCoefficients(matrix);
  check(sws_setColorspaceDetails(made.get(), coefficients, from_full, coefficients, to_full, 0, 1 << 16, 1 << 16),
        "colour conversion");
  return made;
}

}  // namespace

int check(int code, const std::string& what) {
  if (code >= 0) return code;
  char reason[AV_ERROR_MAX_STRING_SIZE];
  throw Failure(what + ": " + av_make_error_string(reason, sizeof reason, code));
}

Scaler rgb_to_yuv(int width, int height) {
  return scaler(width, height, AV_PIX_FMT_RGB24, AV_PIX_FMT_YUV420P, SWS_CS_ITU709, true, false);
}

Scaler yuv_to_rgb(const AVFrame& frame) {
  const bool named = frame.colorspace != AVCOL_SPC_UNSPECIFIED && frame.colorspace != AVCOL_SPC_RGB;
  return scaler(frame.width, frame.height, static_cast<AVPixelFormat>(frame.format), AV_PIX_FMT_RGB24,
                named ? frame.colorspace : SWS_CS_ITU709, frame.color_range == AVCOL_RANGE_JPEG, true);
}

}  // namespace mp4
