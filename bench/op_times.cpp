#include "op_times.h"

#include <map>
#include <memory>

#include "base/deadline.h"
#include "card.h"

namespace zoetrope::bench {
namespace {

constexpr double warm_up_seconds = 0.5;
constexpr double cover_seconds = 0.06;  // the host asks the card for its clock and issues the first thousand calls
constexpr int lead = 2;                 // replays in front of the one that is timed

cudaStream_t stream_of(const Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

struct Mark {
  std::string_view op;
  std::unique_ptr<Watch> watch;
};

// A rank's stream, with events around each op. They come from `marks`, where they stay for the next.
class OpTimes final : public Stream {
 public:
  OpTimes(Stream& inner, const OpCounts& counts, std::vector<Mark>& marks)
      : inner_(inner), counts_(counts), marks_(marks) {
    for (const auto& [name, count] : counts) calls_[name] = count.calls;
  }

  int late() const { return late_; }  // ops that the device had come to before the host had issued them
  size_t ops() const { return used_; }
  void wait_begun() const { marks_.at(0).watch->wait_begun(); }
  double span() const { return marks_.at(0).watch->ms_to(*marks_.at(used_ - 1).watch); }
  std::map<std::string_view, double> seconds() const {  // of each op, by name; waits for the last
    std::map<std::string_view, double> all;
    for (size_t i = used_; i-- > 0;) all[marks_[i].op] += marks_[i].watch->ms() / 1e3;
    return all;
  }

  bool immediate() const override { return false; }  // so that ops are handed over
  void submit(Job job) override {
    if (used_ == marks_.size()) marks_.push_back({{}, std::make_unique<Watch>(stream_of(inner_))});
    Mark& mark = marks_[used_++];
    mark.op = just_counted();
    mark.watch->start();
    job();
    mark.watch->stop();
    if (mark.watch->begun()) ++late_;
  }
  Event record() override { return inner_.record(); }
  void wait(const Event& e) override { inner_.wait(e); }
  void sync() override { inner_.sync(); }
  void block_until(uint64_t number) override { inner_.block_until(number); }
  void* native() const override { return inner_.native(); }
  void upload(const void* from, void* to, size_t bytes) override { inner_.upload(from, to, bytes); }
  void download(const void* from, void* to, size_t bytes) override { inner_.download(from, to, bytes); }
  void copy(const void* from, void* to, size_t bytes) override { inner_.copy(from, to, bytes); }

 private:
  // A context counts an op right before it submits it.
  std::string_view just_counted() {
    for (const auto& [name, count] : counts_)
      if (int64_t& calls = calls_[name]; calls != count.calls) return calls = count.calls, name;
    fail(Code::device, "bench: an op was not counted");
  }

  Stream& inner_;
  const OpCounts& counts_;
  std::map<std::string_view, int64_t> calls_;
  std::vector<Mark>& marks_;
  size_t used_ = 0;
  int late_ = 0;
};

// The body op by op, on the rank's stream within another.
class ByOp {
 public:
  ByOp(Rank& rank, std::vector<Mark>& marks)
      : rank_(rank), own_(std::move(rank.main)), segments_(std::move(rank.segments)) {
    auto times = std::make_unique<OpTimes>(*own_, rank.counts, marks);
    times_ = times.get();
    rank.main = std::move(times);
  }
  ~ByOp() {
    rank_.main = std::move(own_);
    rank_.segments = std::move(segments_);
  }
  ByOp(const ByOp&) = delete;
  ByOp& operator=(const ByOp&) = delete;
  OpTimes& operator*() const { return *times_; }

 private:
  Rank& rank_;
  std::unique_ptr<Stream> own_;
  std::unique_ptr<Segments> segments_;
  OpTimes* times_;
};

struct Round {
  std::map<std::string_view, double> seconds;
  OpCounts counts;
  double span = 0;  // ms
  int late = 0;
  size_t ops = 0;

  double sum() const {  // ms
    double all = 0;
    for (const auto& [op, s] : seconds) all += 1e3 * s;
    return all;
  }
};

// The body op by op behind what was issued so far; waits for its end.
Round by_op(Rank& rank, std::vector<Mark>& marks, const std::function<void(Ctx&)>& body, Card& card) {
  const OpCounts before = rank.counts;
  const ByOp stream(rank, marks);
  {
    Ctx c(rank);
    body(c);
  }
  const OpTimes& times = *stream;
  times.wait_begun();
  card.sample();
  return {times.seconds(), difference(rank.counts, before), times.span(), times.late(), times.ops()};
}

// Seconds of a replay on a card that is warm when it returns.
double warm_up(Rank& rank, const std::function<void(int times)>& replay) {
  int times = 0;
  const Stopwatch watch;
  for (; watch.seconds() < warm_up_seconds; times += lead) {
    replay(lead);
    rank.main->sync();
  }
  return watch.seconds() / times;
}

// A pair of events behind work, with nothing between; ms.
double empty_pair(cudaStream_t stream, const std::function<void()>& work) {
  std::vector<std::unique_ptr<Watch>> pairs;
  for (int i = 0; i < 50; ++i) pairs.push_back(std::make_unique<Watch>(stream));
  work();
  for (const auto& pair : pairs) pair->start(), pair->stop();
  std::vector<double> all;
  for (const auto& pair : pairs) all.push_back(pair->ms());
  return spread_of(all).median;
}

}  // namespace

bool Watch::begun() const {
  const cudaError_t state = cudaEventQuery(from_);
  if (state == cudaErrorNotReady)
    cudaGetLastError();  // no error, but the next look at the last one would find it
  else
    check(state);
  return state == cudaSuccess;
}

double Watch::ms_to(const Watch& later) const {
  float ms = 0;
  check(cudaEventSynchronize(later.to_));
  check(cudaEventElapsedTime(&ms, from_, later.to_));
  return static_cast<double>(ms);
}

InPlace in_place(Rank& rank, int rounds, const std::function<void(Ctx&)>& body) {
  InPlace result;
  Card card, card_of_ops;
  Watch watch(stream_of(*rank.main));
  std::vector<Mark> marks;
  const auto replay = [&](int times) {
    Ctx c(rank);
    for (int i = 0; i < times; ++i) body(c);
  };
  const int cover = 1 + static_cast<int>(cover_seconds / warm_up(rank, replay));
  by_op(rank, marks, body, card_of_ops);  // what the libraries choose or take on first use is there then
  std::vector<double> replays, sums, spans;
  std::map<std::string_view, double> seconds;
  while (static_cast<int>(sums.size()) < rounds) {
    replay(lead);
    watch.start();
    replay(1);
    watch.stop();
    replay(cover);  // holds the ops back
    watch.wait_begun();
    card.sample();
    const Round round = by_op(rank, marks, body, card_of_ops);
    if (round.late > 0) {
      require(++result.spoilt <= rounds, "bench: the device came to ", round.late, " of ", round.ops,
              " ops before the host had issued them, again and again: no times");
      continue;
    }
    for (const auto& [op, s] : round.seconds) seconds[op] += s;
    sums.push_back(round.sum()), spans.push_back(round.span), replays.push_back(watch.ms());
    result.ops = round.counts;
  }
  for (auto& [op, count] : result.ops) count.seconds = seconds[op] / rounds;
  result.replay = spread_of(replays), result.sum = spread_of(sums), result.span = spread_of(spans);
  result.events = empty_pair(stream_of(*rank.main), [&] { replay(1); });
  result.clock = card.text(), result.clock_of_ops = card_of_ops.text();
  return result;
}

Nodes nodes_of(Rank& rank, const std::function<void(Ctx&)>& body) {
  std::unique_ptr<Segments> segments = std::move(rank.segments);
  const cudaStream_t stream = stream_of(*rank.main);
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  std::exception_ptr error;
  try {
    Ctx c(rank);
    body(c);
  } catch (...) {
    error = std::current_exception();
  }
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  rank.segments = std::move(segments);
  if (error) std::rethrow_exception(error);
  check(ended);
  size_t count = 0;
  check(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> list(count);
  check(cudaGraphGetNodes(graph, list.data(), &count));
  Nodes nodes;
  for (const cudaGraphNode_t node : list) {
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(node, &type));
    ++(type == cudaGraphNodeTypeKernel   ? nodes.kernels
       : type == cudaGraphNodeTypeMemcpy ? nodes.copies
       : type == cudaGraphNodeTypeMemset ? nodes.sets
                                         : nodes.others);
  }
  check(cudaGraphDestroy(graph));
  return nodes;
}

}  // namespace zoetrope::bench
