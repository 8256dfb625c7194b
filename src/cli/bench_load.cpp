#include "cli/bench_load.h"

#include <algorithm>
#include <fstream>
#include <functional>

#include "base/deadline.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/page_cache.h"
#include "cli/sparse_weights.h"
#include "core/stop.h"
#include "eval/timing.h"
#include "models/models.h"
#include "models/umt5/umt5.h"
#include "models/wan/transformer.h"
#include "models/wan_vae/decoder.h"
#include "nn/stored.h"

namespace zoetrope::cli {
namespace {

namespace fs = std::filesystem;

// What a plain read is: blocks of 16 MiB, into more memory than a processor's caches hold. Whatever loads: a read into
// buffers that stay in the cache would say nothing about memory.
Intake::Buffers plain_buffers(const Pool& pool) { return {std::min(pool.threads(), 16), 4, size_t{16} << 20}; }

// A plain read on the CPU: buffers, and nothing behind them.
class HostBuffers : public Intake::Port {
 public:
  explicit HostBuffers(size_t bytes) : bytes_(bytes) {}
  std::byte* buffer(size_t slot) override {
    if (slot >= buffers_.size()) buffers_.resize(slot + 1);
    buffers_[slot].resize(bytes_);
    return buffers_[slot].data();
  }
  void begin(const Event&, std::span<const Tensor>) override {}
  void send(size_t, Intake::Batch) override {}
  size_t arrived(size_t, Intake::Batch pieces) override { return pieces.size(); }
  void drain() override {}

 private:
  size_t bytes_;
  std::vector<std::vector<std::byte>> buffers_;
};

// Constructs the model of a part, which loads it, and lets go of it again.
void load_model(Ctx& c, const std::string& name, const Json& config, nn::Parameters& weights, DType dtype) {
  switch (model_class(class_name_of(config)).role) {
    case Role::text_encoder:
      return static_cast<void>(Umt5Encoder(c, umt5_config(config), weights, dtype, name));
    case Role::transformer:
      return static_cast<void>(WanTransformer(c, wan_config(config), weights, dtype, name));
    case Role::vae:
      return static_cast<void>(WanVaeDecoder(c, wan_vae_config(config), weights, dtype, name));
  }
}

// Notes how long a device takes to map what its regions ask for.
class TimedPages final : public Pages {
 public:
  TimedPages(std::unique_ptr<Pages> pages, double& seconds) : pages_(std::move(pages)), seconds_(seconds) {}
  std::byte* base() const override { return pages_->base(); }
  bool host() const override { return pages_->host(); }
  size_t reserved() const override { return pages_->reserved(); }
  size_t grain() const override { return pages_->grain(); }
  void commit(size_t from, size_t to) override {
    const Stopwatch watch;
    pages_->commit(from, to);
    seconds_ += watch.seconds();
  }
  void release(size_t from, size_t to) override { pages_->release(from, to); }

 private:
  std::unique_ptr<Pages> pages_;
  double& seconds_;
};

// Where the time of a load goes; what is left is the sender's own: calls of the device, and looking at files.
struct Spent {
  double map = 0;
  Intake::Spent intake{};
};

// Most that was resident since reset_peak, and file pages are not counted as long as they are not mapped.
int64_t peak_resident() {
  std::ifstream status("/proc/self/status");
  int64_t kib = 0;
  for (std::string word; status >> word;)
    if (word == "VmHWM:" && status >> kib) break;
  return kib * 1024;
}
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5" << std::flush; }

class Loading {
 public:
  Loading(BenchRank& rank, const LoadBench& what, const Json& config, const Checkpoint& checkpoint,
          nn::Parameters& weights)
      : rank_(rank), what_(what), config_(config), weights_(weights), bits_(rank, "load") {
    Rank& r = rank.rank;
    r.make_pages = [this, make = r.make_pages](size_t bytes) -> std::unique_ptr<Pages> {
      return std::make_unique<TimedPages>(make(bytes), spent_.map);
    };
    const Intake::Buffers plain = plain_buffers(rank.pool);
    plain_ = r.make_intake ? r.make_intake(plain)
                           : std::make_unique<Intake>(std::make_unique<HostBuffers>(plain.bytes), plain);
    if (r.make_intake)
      link_ = rank.c.empty({static_cast<int64_t>(plain.bytes / sizeof(float))}, DType::f32, rank.c.request());
    for (const fs::path& file : checkpoint.files()) add_pieces(file, plain.bytes);
    run({copies_.front()});  // has the buffers made
  }

  double load() {
    spent_ = {};
    const Stopwatch watch;
    load_model(rank_.c, what_.part, config_, weights_, what_.dtype);
    const double seconds = watch.seconds();
    if (const Intake* intake = rank_.rank.intake.get()) spent_.intake = intake->spent();
    std::vector<Tensor> tensors;
    weight_bytes_ = 0;
    for (const auto& held : rank_.shared.held()) {
      tensors.insert(tensors.end(), held.tensors.begin(), held.tensors.end());
      weight_bytes_ += static_cast<int64_t>(held.bytes);
    }
    require(!tensors.empty(), "bench: load: ", what_.part, " has no weights");
    bits_.see(tensors);
    rank_.c.drop_weights(what_.part);
    return seconds;
  }

  double read() { return run(reads_); }
  double link() { return run(copies_); }
  bool has_link() const { return link_.defined(); }

  // False: the system keeps them.
  bool forget() {
    double kept = 0;
    for (const InputFile& file : files_) {
      drop_cached(file.path());
      kept = std::max(kept, cached_share(file.path()).value_or(1));
    }
    return kept < 0.01;
  }

  const Spent& spent() const { return spent_; }  // in the last load
  int64_t file_bytes() const { return bytes_; }
  int64_t weight_bytes() const { return weight_bytes_; }
  int64_t buffer_bytes() const {
    const Intake* intake = rank_.rank.intake.get();
    return intake ? static_cast<int64_t>(intake->buffer_bytes()) : 0;
  }
  std::string digest() const { return bits_.hex(); }

 private:
  void add_pieces(const fs::path& name, size_t block) {
    files_.emplace_back(name);
    const size_t file = files_.size() - 1, size = files_.back().size();
    for (size_t at = 0; at < size; at += block) {
      const Unpack bytes = Unpack::run(static_cast<int64_t>(std::min(block, size - at) / sizeof(float)));
      const auto read = [this, file, at](std::span<std::byte> to) { files_[file].read(at, to); };
      reads_.push_back({read, DType::f32, bytes, {}, {}, {}});
      copies_.push_back({[](std::span<std::byte>) {}, DType::f32, bytes, link_, {}, {}});
    }
    bytes_ += static_cast<int64_t>(size);
  }

  double run(const std::vector<Piece>& pieces) {
    const Stopwatch watch;
    plain_->run(pieces, rank_.c.stream().record(), rank_.rank.stop);
    return watch.seconds();
  }

  BenchRank& rank_;
  const LoadBench& what_;
  const Json& config_;
  nn::Parameters& weights_;
  SameBits bits_;
  std::vector<InputFile> files_;
  Tensor link_;                        // where copies go
  std::vector<Piece> reads_, copies_;  // of the files, as they lie; of buffers to the device, as many bytes
  std::unique_ptr<Intake> plain_;
  int64_t bytes_ = 0, weight_bytes_ = 0;
  Spent spent_;
};

OrderedJson rate(const Spread& s, int64_t bytes) {
  OrderedJson json = as_json(s);
  json["gbytes_per_s"] = static_cast<double>(bytes) / s.median / 1e9;
  return json;
}

// Reads, loads and copies in turns, so that none has the quieter machine. A copy knows no cache.
OrderedJson in_turns(Loading& loading, int runs, const std::function<void()>& before) {
  std::vector<double> reads, loads, links, maps, reading, arriving;
  for (int run = 0; run < runs; ++run) {
    before();
    reads.push_back(loading.read());
    before();
    loads.push_back(loading.load());
    if (loading.has_link()) links.push_back(loading.link());
    const Spent& spent = loading.spent();
    maps.push_back(spent.map), reading.push_back(spent.intake.reading), arriving.push_back(spent.intake.arriving);
  }
  const Spread read = spread_of(reads), load = spread_of(loads);
  return {{"read_s", rate(read, loading.file_bytes())},
          {"load_s", rate(load, loading.file_bytes())},
          {"link_s", links.empty() ? OrderedJson(nullptr) : rate(spread_of(links), loading.file_bytes())},
          {"ratio", load.median / read.median},
          {"spent_s",
           {{"map", spread_of(maps).median},
            {"wait_for_reads", spread_of(reading).median},
            {"wait_for_device", spread_of(arriving).median}}},
          {"pieces", loading.spent().intake.pieces},
          {"batches", loading.spent().intake.batches}};
}

// A folder that was not there, and those above it that were not, either. It goes with its owner, whatever is in it;
// those above go where nothing else came into them.
class Made {
 public:
  explicit Made(fs::path folder) : folder_(std::move(folder)) {
    std::error_code error;
    const fs::path parent = folder_.parent_path();
    for (fs::path at = parent; !at.empty() && !fs::exists(at, error); at = at.parent_path()) above_.push_back(at);
    error.clear();
    if (!parent.empty()) fs::create_directories(parent, error);
    const bool new_one = !error && fs::create_directory(folder_, error);
    if (!new_one) remove_above();
    require(!error, folder_.string(), ": cannot be made: ", error.message());
    require(new_one, folder_.string(), ": exists already; name a folder that does not");
  }
  ~Made() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
    remove_above();
  }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;

 private:
  void remove_above() const {
    std::error_code ignored;
    for (const fs::path& at : above_) fs::remove(at, ignored);
  }

  fs::path folder_;
  std::vector<fs::path> above_;  // innermost first
};

}  // namespace

OrderedJson bench_load(BenchRank& rank, const ModelSource& source, const LoadBench& what, const std::stop_token& stop) {
  const ModelPart& part = source.at(what.part);
  require(what.stored || part.checkpoint, "bench: load: ", source.name,
          " has no files; --stored TYPE --folder DIR makes sparse ones in its layout");
  std::optional<Made> made;
  std::optional<Checkpoint> checkpoint;
  if (what.stored) {
    const fs::path folder = (fs::path(what.folder) / what.part).lexically_normal();
    made.emplace(folder);
    write_sparse_weights(part.config, folder, *what.stored, stop);
    checkpoint.emplace(folder);
  }
  const Checkpoint& files = checkpoint ? *checkpoint : *part.checkpoint;
  nn::Stored weights(files, &rank.pool);
  Loading loading(rank, what, part.config, files, weights);

  const double first = loading.load();
  reset_peak();
  const int64_t before = peak_resident();
  const OrderedJson warm = in_turns(loading, what.runs, [&] { check_stop(stop); });
  OrderedJson json{{"part", what.part},
                   {"files", files.files().size()},
                   {"file_bytes", loading.file_bytes()},
                   {"weight_bytes", loading.weight_bytes()},
                   {"weights", name(what.dtype)},
                   {"sparse", what.stored.has_value()},
                   {"first_s", first},
                   {"warm", warm},
                   {"cold", nullptr}};
  if (loading.forget()) {
    json["cold"] = in_turns(loading, std::min(what.runs, 2), [&] {
      check_stop(stop);
      loading.forget();
    });
  }
  json["buffer_bytes"] = loading.buffer_bytes();
  json["resident_growth_bytes"] = peak_resident() - before;
  json["digest"] = loading.digest();
  return json;
}

}  // namespace zoetrope::cli
