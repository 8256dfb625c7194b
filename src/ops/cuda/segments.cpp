#include "ops/cuda/segments.h"

#include <algorithm>

#include "ops/cuda/check.h"
#include "ops/cuda/handles.h"
#include "ops/cuda/stream.h"

namespace zoetrope::cuda {

struct GraphSegments::Recording {
  bool warm = false;  // ran plainly once
  uint64_t used = 0;
  GraphExecHandle graph;
  OpCounts counts;                  // what one run adds
  size_t request = 0, scratch = 0;  // bytes of the regions that had pages when it ran: it lies below them
};

namespace {

// Ends a capture that its body left by an exception, too.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  }
  ~Capture() {
    if (!open_) return;
    cudaGraph_t graph = nullptr;
    forget(cudaStreamEndCapture(stream_, &graph));
    if (graph) forget(cudaGraphDestroy(graph));
    forget(cudaGetLastError());  // an invalidated capture leaves its error behind
  }
  GraphHandle end() {
    open_ = false;
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream_, &graph));
    return GraphHandle(graph);
  }

 private:
  cudaStream_t stream_;
  bool open_ = true;
};

}  // namespace

GraphSegments::GraphSegments(size_t most) : most_(most) {}
GraphSegments::~GraphSegments() = default;

void GraphSegments::clear() { recordings_.clear(); }

void GraphSegments::trimmed(size_t request, size_t scratch) {
  std::erase_if(recordings_,
                [&](const auto& row) { return row.second->request > request || row.second->scratch > scratch; });
}

size_t GraphSegments::recorded() const {
  return static_cast<size_t>(
      std::ranges::count_if(recordings_, [](const auto& row) { return row.second->graph != nullptr; }));
}

// A recording holds addresses: scratch must stand where it stood. The caller's key names everything else.
void GraphSegments::run(Ctx& c, std::string_view key, const std::function<void()>& body) {
  if (c.rank().profile || c.rank().tap) return body();
  Recording& recording = find(cat(key, " @", c.scratch().used()));
  if (recording.graph) return replay(c, recording);
  if (recording.warm)
    capture(c, recording, body);
  else
    body();
  recording.warm = true, recording.request = c.request().committed(), recording.scratch = c.scratch().committed();
}

GraphSegments::Recording& GraphSegments::find(const std::string& key) {
  auto& recording = recordings_[key];
  if (!recording) recording = std::make_unique<Recording>();
  recording->used = ++clock_;
  if (recordings_.size() > most_) {
    const auto oldest = std::ranges::min_element(recordings_, {}, [](const auto& row) { return row.second->used; });
    recordings_.erase(oldest);
  }
  return *recording;
}

void GraphSegments::capture(Ctx& c, Recording& recording, const std::function<void()>& body) {
  const OpCounts before = c.counts();
  Capture capture(native(c.stream()));
  body();
  const GraphHandle graph = capture.end();
  recording.counts = difference(c.counts(), before);
  cudaGraphExec_t made = nullptr;
  check(cudaGraphInstantiate(&made, graph.get(), 0));
  recording.graph.reset(made);
  check(cudaGraphLaunch(made, native(c.stream())));
}

void GraphSegments::replay(Ctx& c, const Recording& recording) {
  check(cudaGraphLaunch(recording.graph.get(), native(c.stream())));
  ++replays_;
  for (const auto& [name, count] : recording.counts) {
    OpCount& total = c.counts()[name];
    total.calls += count.calls, total.flops += count.flops, total.bytes += count.bytes;
  }
}

}  // namespace zoetrope::cuda
