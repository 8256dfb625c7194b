// What the encoder and the decoder share: failures, owned FFmpeg objects, exact colour conversion.
#pragma once
extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>
}

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace mp4 {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws "what: FFmpeg's reason" for a negative code, else gives it back.
int check(int code, const std::string& what);

template <auto Destroy>
struct Frees {
  template <class T>
  void operator()(T* object) const {
    Destroy(&object);
  }
};
using Codec = std::unique_ptr<AVCodecContext, Frees<avcodec_free_context>>;
using Frame = std::unique_ptr<AVFrame, Frees<av_frame_free>>;
using Packet = std::unique_ptr<AVPacket, Frees<av_packet_free>>;
struct FreesScaler {
  void operator()(SwsContext* scaler) const { sws_freeContext(scaler); }
};
using Scaler = std::unique_ptr<SwsContext, FreesScaler>;

// Between full-range RGB24 and limited-range YUV 4:2:0 with the matrix of BT.709, the same bytes on every machine.
Scaler rgb_to_yuv(int width, int height);
Scaler yuv_to_rgb(const AVFrame& frame);  // by the frame's own matrix and range; BT.709 limited where it names none

struct EncodeOptions {
  int width = 0, height = 0, frames = 0;
  AVRational fps{0, 1};
  std::string out, comment;
};

bool can_encode();                          // libx264 is there
void encode(const EncodeOptions& options);  // frames [H, W, 3] from stdin
void decode(const std::string& file);       // "size WxH frames N fps A/B\n", then the frames, to stdout
void probe(const std::string& file);        // one line of JSON to stdout

}  // namespace mp4
