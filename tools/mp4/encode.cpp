#include <cstdio>
#include <vector>

#include "video.h"

namespace mp4 {
namespace {

const AVCodec* encoder() { return avcodec_find_encoder_by_name("libx264"); }

// High profile, fixed thread count: the bytes depend on the frames and on nothing else.
Codec open_codec(const EncodeOptions& options) {
  Codec codec(avcodec_alloc_context3(encoder()));
  codec->width = options.width;
  codec->height = options.height;
  codec->pix_fmt = AV_PIX_FMT_YUV420P;
  codec->time_base = av_inv_q(options.fps);
  codec->framerate = options.fps;
  codec->color_primaries = AVCOL_PRI_BT709;
  codec->color_trc = AVCOL_TRC_BT709;
  codec->colorspace = AVCOL_SPC_BT709;
  codec->color_range = AVCOL_RANGE_MPEG;
  codec->chroma_sample_location = AVCHROMA_LOC_LEFT;
  codec->thread_count = 4;
  codec->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  AVDictionary* settings = nullptr;
  av_dict_set(&settings, "preset", "medium", 0);
  av_dict_set(&settings, "profile", "high", 0);
  av_dict_set(&settings, "crf", "16", 0);
  const int code = avcodec_open2(codec.get(), encoder(), &settings);
  av_dict_free(&settings);
  check(code, "libx264");
  return codec;
}

// The MP4 file, its index moved to the front when it is closed.
class File {
 public:
  File(const EncodeOptions& options, const AVCodecContext& codec) : name_(options.out) {
    const std::string url = "file:" + name_;  // a name with a colon is still a name
    check(avformat_alloc_output_context2(&format_, nullptr, "mp4", url.c_str()), name_);
    stream_ = avformat_new_stream(format_, nullptr);
    if (!stream_) throw Failure(name_ + ": out of memory");
    stream_->time_base = codec.time_base;
    stream_->avg_frame_rate = options.fps;
    check(avcodec_parameters_from_context(stream_->codecpar, &codec), name_);
    format_->flags |= AVFMT_FLAG_BITEXACT;  // no dates, no library versions
    if (!options.comment.empty()) av_dict_set(&format_->metadata, "comment", options.comment.c_str(), 0);
    check(avio_open(&format_->pb, url.c_str(), AVIO_FLAG_WRITE), name_);
    AVDictionary* settings = nullptr;
    av_dict_set(&settings, "movflags", "+faststart", 0);
    const int code = avformat_write_header(format_, &settings);
    av_dict_free(&settings);
    check(code, name_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (format_->pb) avio_closep(&format_->pb);
    avformat_free_context(format_);
  }

  void write(AVPacket& packet, AVRational time_base) {
    packet.stream_index = stream_->index;
    packet.duration = 1;
    av_packet_rescale_ts(&packet, time_base, stream_->time_base);
    check(av_interleaved_write_frame(format_, &packet), name_);
    check(format_->pb->error, name_);
  }

  void close() {
    check(av_write_trailer(format_), name_);
    check(format_->pb->error, name_);
    check(avio_closep(&format_->pb), name_);
  }

 private:
  std::string name_;
  AVFormatContext* format_ = nullptr;
  AVStream* stream_ = nullptr;
};

class Encoder {
 public:
  explicit Encoder(const EncodeOptions& options)
      : codec_(open_codec(options)),
        file_(options, *codec_),
        scaler_(rgb_to_yuv(options.width, options.height)),
        frame_(av_frame_alloc()),
        packet_(av_packet_alloc()) {
    frame_->format = codec_->pix_fmt;
    frame_->width = codec_->width;
    frame_->height = codec_->height;
    frame_->color_range = AVCOL_RANGE_MPEG;
    frame_->colorspace = AVCOL_SPC_BT709;
    check(av_frame_get_buffer(frame_.get(), 0), "frame");
  }

  void add(const uint8_t* rgb, int64_t number) {
    check(av_frame_make_writable(frame_.get()), "frame");
    const int stride = 3 * frame_->width;
    sws_scale(scaler_.get(), &rgb, &stride, 0, frame_->height, frame_->data, frame_->linesize);
    frame_->pts = number;
    send(frame_.get());
  }

  void finish() {
    send(nullptr);
    file_.close();
  }

 private:
  void send(AVFrame* frame) {
    check(avcodec_send_frame(codec_.get(), frame), "libx264");
    for (;;) {
      const int code = avcodec_receive_packet(codec_.get(), packet_.get());
      if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return;
      check(code, "libx264");
      file_.write(*packet_, codec_->time_base);
    }
  }

  Codec codec_;
  File file_;
  Scaler scaler_;
  Frame frame_;
  Packet packet_;
};

}  // namespace

bool can_encode() { return encoder() != nullptr; }

void encode(const EncodeOptions& options) try {
  Encoder encoder(options);
  // The converter may read a little past a row's end.
  std::vector<uint8_t> rgb(3 * static_cast<size_t>(options.width) * static_cast<size_t>(options.height) + 64);
  for (int i = 0; i < options.frames; ++i) {
    if (std::fread(rgb.data(), rgb.size() - 64, 1, stdin) != 1)
      throw Failure("the input ended after " + std::to_string(i) + " of " + std::to_string(options.frames) + " frames");
    encoder.add(rgb.data(), i);
  }
  if (std::fgetc(stdin) != EOF) throw Failure("more input than " + std::to_string(options.frames) + " frames");
  encoder.finish();
} catch (...) {
  std::remove(options.out.c_str());
  throw;
}

}  // namespace mp4
