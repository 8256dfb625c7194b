#include <cstdio>
#include <functional>
#include <vector>

extern "C" {
#include <libavutil/pixdesc.h>
}

#include "video.h"

namespace mp4 {
namespace {

// The first video stream of a file.
class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {
    AVDictionary* settings = nullptr;
    av_dict_set(&settings, "protocol_whitelist", "file", 0);  // a playlist must not reach for the network
    const int code = avformat_open_input(&format_, ("file:" + name).c_str(), nullptr, &settings);
    av_dict_free(&settings);
    check(code, name);
    check(avformat_find_stream_info(format_, nullptr), name);
    const AVCodec* decoder = nullptr;
    const int index = av_find_best_stream(format_, AVMEDIA_TYPE_VIDEO, -1, -1, &decoder, 0);
    if (index < 0 || !decoder) throw Failure(name + ": no video that can be decoded");
    stream_ = format_->streams[index];
    codec_.reset(avcodec_alloc_context3(decoder));
    check(avcodec_parameters_to_context(codec_.get(), stream_->codecpar), name);
    check(avcodec_open2(codec_.get(), decoder, nullptr), name);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { avformat_close_input(&format_); }

  const AVStream& stream() const { return *stream_; }
  const AVCodecContext& codec() const { return *codec_; }
  const AVFormatContext& format() const { return *format_; }

  void each_frame(const std::function<void(const AVFrame&)>& use) {
    const Packet packet(av_packet_alloc());
    const Frame frame(av_frame_alloc());
    const auto drain = [&] {
      for (int code; (code = avcodec_receive_frame(codec_.get(), frame.get())) != AVERROR(EAGAIN);) {
        if (code == AVERROR_EOF) return;
        check(code, name_);
        use(*frame);
      }
    };
    for (int code; (code = av_read_frame(format_, packet.get())) != AVERROR_EOF;) {
      check(code, name_);
      if (packet->stream_index == stream_->index) {
        check(avcodec_send_packet(codec_.get(), packet.get()), name_);
        drain();
      }
      av_packet_unref(packet.get());
    }
    check(avcodec_send_packet(codec_.get(), nullptr), name_);
    drain();
  }

 private:
  std::string name_;
  AVFormatContext* format_ = nullptr;
  AVStream* stream_ = nullptr;
  Codec codec_;
};

std::string quoted(const char* text) {
  std::string out = "\"";
  for (; text && *text; ++text) {
    const auto c = static_cast<unsigned char>(*text);
    char escaped[8];
    if (c == '"' || c == '\\')
      (out += '\\') += *text;
    else if (c < 0x20)
      out.append(escaped, static_cast<size_t>(std::snprintf(escaped, sizeof escaped, "\\u%04x", c)));
    else
      out += *text;
  }
  return out + "\"";
}

// Whether the index ("moov") stands before the frames ("mdat"), so that a browser can start at once.
bool index_first(const std::string& name) {
  std::FILE* file = std::fopen(name.c_str(), "rb");
  bool first = false;
  uint8_t head[8];
  while (file && std::fread(head, 8, 1, file) == 1) {
    const std::string type(reinterpret_cast<char*>(head + 4), 4);
    const long size = (head[0] << 24 | head[1] << 16 | head[2] << 8 | head[3]) - 8L;
    if ((first = type == "moov") || type == "mdat" || size < 0 || std::fseek(file, size, SEEK_CUR) != 0) break;
  }
  if (file) std::fclose(file);
  return first;
}

}  // namespace

void decode(const std::string& file) {
  Reader reader(file);
  const AVRational fps = reader.stream().avg_frame_rate;
  const int width = reader.codec().width, height = reader.codec().height;
  std::printf("size %dx%d frames %lld fps %d/%d\n", width, height, static_cast<long long>(reader.stream().nb_frames),
              fps.num, fps.den);
  Scaler scaler;
  const int stride = (3 * width + 63) / 64 * 64;  // rows end where the converter's stores end
  std::vector<uint8_t> rgb(static_cast<size_t>(stride) * static_cast<size_t>(height) + 64);
  reader.each_frame([&](const AVFrame& frame) {
    if (frame.width != width || frame.height != height) throw Failure(file + ": the frame size changes");
    if (!scaler) scaler = yuv_to_rgb(frame);
    uint8_t* rows = rgb.data();
    sws_scale(scaler.get(), frame.data, frame.linesize, 0, height, &rows, &stride);
    for (int y = 0; y < height; ++y)
      if (std::fwrite(rows + static_cast<size_t>(y) * static_cast<size_t>(stride), 3 * static_cast<size_t>(width), 1,
                      stdout) != 1)
        throw Failure("the reader went away");
  });
  if (std::fflush(stdout) != 0) throw Failure("the reader went away");
}

void probe(const std::string& file) {
  const Reader reader(file);
  const AVCodecParameters& video = *reader.stream().codecpar;
  const AVDictionaryEntry* comment = av_dict_get(reader.format().metadata, "comment", nullptr, 0);
  const AVRational fps = reader.stream().avg_frame_rate;
  const char* profile = avcodec_profile_name(video.codec_id, video.profile);
  std::printf(
      "{\"codec\":%s,\"profile\":%s,\"pix_fmt\":%s,\"width\":%d,\"height\":%d,\"frames\":%lld,\"fps\":\"%d/%d\","
      "\"primaries\":%s,\"transfer\":%s,\"matrix\":%s,\"range\":%s,\"faststart\":%s,\"comment\":%s}\n",
      quoted(avcodec_get_name(video.codec_id)).c_str(), quoted(profile).c_str(),
      quoted(av_get_pix_fmt_name(static_cast<AVPixelFormat>(video.format))).c_str(), video.width, video.height,
      static_cast<long long>(reader.stream().nb_frames), fps.num, fps.den,
      quoted(av_color_primaries_name(video.color_primaries)).c_str(),
      quoted(av_color_transfer_name(video.color_trc)).c_str(), quoted(av_color_space_name(video.color_space)).c_str(),
      quoted(av_color_range_name(video.color_range)).c_str(), index_first(file) ? "true" : "false",
      quoted(comment ? comment->value : "").c_str());
}

}  // namespace mp4
