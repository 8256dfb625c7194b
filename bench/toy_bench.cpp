// CPU seconds of a toy model's transformer forward and VAE decode. Each run's result is checked: finite, the same bits
// as the first run, and within `bound` of the reference that the case file holds.
//   toy_bench MODEL CASE.safetensors [--runs N] [--threads N] [--wait]
// CASE holds fp32 tensors x [T, H, W, C], text_in [rows, text_dim], latents [T, H, W, z] and what another program made
// of them: velocity, video (before the clamp); metadata `timestep`. Writes a line of JSON a run, then one with medians.
// With --wait the lines of standard input ("forward", "step", "decode") say what to run next, so that two programs can
// take turns; bench/peers/cpu_toy.py does that.
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <span>

#include "base/deadline.h"
#include "base/error.h"
#include "models/source.h"
#include "models/wan/transformer.h"
#include "models/wan_vae/decoder.h"
#include "ops/cpu/backend.h"
#include "ops/cpu/version.h"
#include "version.h"

namespace zoetrope {
namespace {

constexpr double bound = 1e-4;  // of the largest value

struct Options {
  std::string model, case_file;
  int runs = 5, threads = 2;
  bool wait = false;
};

double cpu_seconds() {  // of all threads, user and system
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

uint64_t checksum(const std::vector<float>& values) {  // FNV-1a 64
  uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte b : std::as_bytes(std::span(values))) hash = (hash ^ static_cast<uint64_t>(b)) * 0x100000001b3u;
  return hash;
}

// Largest difference relative to the largest reference value; infinity where a value is not finite.
double difference(const std::vector<float>& got, const std::vector<float>& want) {
  require(got.size() == want.size() && !want.empty(), "toy_bench: the result has ", got.size(),
          " values, the reference ", want.size());
  double off = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = std::fabs(static_cast<double>(got[i]) - want[i]);
    if (!std::isfinite(d)) return INFINITY;
    off = std::max(off, d);
    size = std::max<double>(size, std::fabs(want[i]));
  }
  return off / size;
}

class Case {
 public:
  Case(Ctx& c, const std::string& file) : c_(c), file_(file) {}

  std::vector<float> values(const std::string& name) const {
    const TensorEntry& e = entry(name);
    std::vector<float> out(static_cast<size_t>(e.shape.size()));
    std::memcpy(out.data(), file_.bytes(e).data(), out.size() * sizeof(float));
    return out;
  }
  Tensor tensor(const std::string& name) const { return tensor(name, entry(name).shape); }
  Tensor tensor(const std::string& name, const Shape& shape) const {  // zeros follow what the file holds
    std::vector<float> all = values(name);
    all.resize(static_cast<size_t>(shape.size()));
    const Tensor out = c_.empty(shape, DType::f32, c_.request());
    c_.upload(std::span<const float>(all), out);
    return out;
  }
  int64_t rows(const std::string& name) const { return entry(name).shape[0]; }
  float timestep() const { return std::stof(file_.metadata().at("timestep")); }

 private:
  const TensorEntry& entry(const std::string& name) const {
    const TensorEntry* found = file_.find(name);
    require(found && found->dtype == DType::f32, "toy_bench: ", file_.path().string(), " has no fp32 tensor ", name);
    return *found;
  }

  Ctx& c_;
  SafetensorsFile file_;
};

// One thing to time; its runs so far.
class Part {
 public:
  Part(std::string name, std::vector<float> want, std::function<std::vector<float>()> body)
      : name_(std::move(name)), want_(std::move(want)), body_(std::move(body)) {}
  const std::string& name() const { return name_; }

  void warm_up(Ctx& c) {
    c.counts().clear();
    const std::vector<float> got = body_();
    for (const auto& [op, count] : c.counts()) gflop_ += 1e-9 * count.flops;
    error_ = difference(got, want_), sum_ = checksum(got);
    require(error_ <= bound, "toy_bench: ", name_, " lies ", error_,
            " of the largest value from the reference, at most ", bound, " is allowed");
  }
  void run() {
    const double cpu = cpu_seconds();
    const Stopwatch watch;
    const std::vector<float> got = body_();
    wall_.push_back(watch.seconds()), cpu_.push_back(cpu_seconds() - cpu);
    require(checksum(got) == sum_, "toy_bench: ", name_, ": run ", cpu_.size(), " gave other bits than the first");
    print({{"part", name_}, {"cpu_s", cpu_.back()}, {"wall_s", wall_.back()}});
  }
  Json summary() const {
    return {{"cpu_s", spread(cpu_)},
            {"wall_s", spread(wall_)},
            {"gflop", gflop_},
            {"max_error", error_},
            {"checksum", cat(sum_)}};
  }
  static void print(const Json& json) {
    std::printf("%s\n", json.dump().c_str());
    std::fflush(stdout);
  }

 private:
  static Json spread(std::vector<double> runs) {
    if (runs.empty()) return nullptr;
    std::ranges::sort(runs);
    return {{"median", runs[runs.size() / 2]}, {"min", runs.front()}, {"max", runs.back()}, {"runs", runs.size()}};
  }

  std::string name_;
  std::vector<float> want_;
  std::function<std::vector<float>()> body_;
  std::vector<double> cpu_, wall_;
  double error_ = 0, gflop_ = 0;
  uint64_t sum_ = 0;
};

// The parts of a toy: `forward` with everything that diffusers computes in each of its forwards, `step` without what a
// request computes once (time embedding, text keys and values), `decode` of a whole clip.
std::vector<Part> parts_of(Ctx& c, const WanTransformer& model, const WanVaeDecoder& decoder, const Case& from) {
  const Tensor x = from.tensor("x"), latents = from.tensor("latents");
  const Tensor context = from.tensor("text_in", {WanConfig::text_rows, model.config().text_dim});
  const int64_t real = from.rows("text_in");
  const std::vector<float> time = {from.timestep()};
  const auto host = [&c](const Tensor& y) { return c.fetch<float>(y, 0); };
  const StepTable steps = model.steps(c, time);
  const Text text = model.encode_text(c, context, real);

  std::vector<Part> parts;
  parts.emplace_back("forward", from.values("velocity"), [=, &c, &model] {
    Scope once(c.request()), scope(c.scratch());
    return host(model.forward(c, x, model.steps(c, time), 0, model.encode_text(c, context, real)));
  });
  parts.emplace_back("step", from.values("velocity"), [=, &c, &model] {
    Scope scope(c.scratch());
    return host(model.forward(c, x, steps, 0, text));
  });
  parts.emplace_back("decode", from.values("video"), [=, &c, &decoder] {
    Scope once(c.request());
    WanVaeDecoder::Stream stream(decoder);
    std::vector<float> video;
    for (int64_t t = 0; t < latents.dim(0); ++t) {
      Scope scope(c.scratch());
      const std::vector<float> frames = host(stream.decode_next(c, latents.rows(t, t + 1)));
      video.insert(video.end(), frames.begin(), frames.end());
    }
    return video;
  });
  return parts;
}

void take_turns(std::vector<Part>& parts) {
  for (std::string line; std::getline(std::cin, line);) {
    const auto part = std::ranges::find(parts, line, &Part::name);
    require(part != parts.end(), "toy_bench: no part \"", line, "\"; these are: forward, step, decode");
    part->run();
  }
}

void run(const Options& o) {
  Pool pool(o.threads);
  const auto backend = make_cpu_backend();
  Rank rank;
  rank.traits = cpu_traits(), rank.backend = backend.get(), rank.pool = &pool;
  Ctx c(rank);
  const ModelSource source = open_model_folder(o.model);
  const ModelPart &transformer = source.at("transformer"), &vae = source.at("vae");
  const WanTransformer model(c, wan_config(transformer.config), *transformer.weights, DType::f32);
  const WanVaeDecoder decoder(c, wan_vae_config(vae.config), *vae.weights, DType::f32);
  auto parts = parts_of(c, model, decoder, Case(c, o.case_file));

  for (Part& part : parts) part.warm_up(c);
  Part::print({{"ready", true}});
  if (o.wait) take_turns(parts);
  for (int i = 0; i < o.runs && !o.wait; ++i)
    for (Part& part : parts) part.run();
  Json all = {
      {"version", ZOETROPE_VERSION}, {"git", ZOETROPE_GIT}, {"onednn", onednn_version()}, {"threads", o.threads}};
  for (const Part& part : parts) all["parts"][part.name()] = part.summary();
  Part::print(all);
}

Options parse(std::span<char*> words) {
  Options o;
  std::vector<std::string> plain;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string word = words[i];
    const auto number = [&] {
      require(i + 1 < words.size() && std::atoi(words[i + 1]) > 0, "toy_bench: ", word, " needs a positive number");
      return std::atoi(words[++i]);
    };
    if (word == "--runs")
      o.runs = number();
    else if (word == "--threads")
      o.threads = number();
    else if (word == "--wait")
      o.wait = true;
    else
      plain.push_back(word);
  }
  require(plain.size() == 2, "toy_bench MODEL CASE.safetensors [--runs N] [--threads N] [--wait]");
  o.model = plain[0], o.case_file = plain[1];
  return o;
}

}  // namespace
}  // namespace zoetrope

int main(int count, char** words) {
  try {
    zoetrope::run(zoetrope::parse({words, static_cast<size_t>(count)}));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
