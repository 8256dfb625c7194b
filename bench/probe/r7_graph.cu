// Row 7: launch gap inside a graph; cost of a stream-ordered progress word after each collective (a small kernel stands
// in for it here).
#include "probe.h"

__global__ void empty_k() {}
__global__ void busy_k(float* p, int n) {  // about ten microseconds, all multiprocessors
  float x = p[blockIdx.x * blockDim.x + threadIdx.x];
  for (int i = 0; i < n; ++i) x = x * 1.0001f + 0.5f;
  p[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
__global__ void progress_k(unsigned long long* seq, volatile unsigned long long* host) {
  unsigned long long s = ++*seq;
  *host = s;
}
__global__ void progress_fence_k(unsigned long long* seq, volatile unsigned long long* host) {
  unsigned long long s = ++*seq;
  *host = s;
  __threadfence_system();
}
__global__ void count_k(unsigned long long* seq) { ++*seq; }
static cudaStream_t st;

static cudaGraphExec_t capture(const std::function<void()>& f) {
  cudaGraph_t g;
  cudaGraphExec_t ge;
  CK(cudaStreamBeginCapture(st, cudaStreamCaptureModeThreadLocal));
  f();
  CK(cudaStreamEndCapture(st, &g));
  CK(cudaGraphInstantiate(&ge, g, 0));
  return ge;
}
int main() {
  alarm(40);
  CK(cudaFree(0));
  CK(cudaStreamCreateWithFlags(&st, cudaStreamNonBlocking));
  float* p = dmalloc<float>(132 * 256);
  fill(p, 132 * 256, 1);
  unsigned long long *seq, *host;
  CK(cudaMalloc(&seq, 8));
  CK(cudaMemset(seq, 0, 8));
  CK(cudaMallocHost(&host, 64));
  *host = 0;
  CK(cudaDeviceSynchronize());
  const int n = 1000;
  auto row = [&](const char* w, const std::function<void()>& f, int k) {
    auto te = timeit(st, 2, 9, f);
    auto ge = capture(f);
    auto tg = timeit(st, 3, 21, [&] { CK(cudaGraphLaunch(ge, st)); });
    out("%-54s stream %.2f us, graph %.3f us [%.3f %.3f] each\n", w, te.med / k * 1e3, tg.med / k * 1e3,
        tg.lo / k * 1e3, tg.hi / k * 1e3);
    CK(cudaGraphExecDestroy(ge));
    return tg.med / k * 1e3;
  };
  row(
      "empty kernel chain",
      [&] {
        for (int i = 0; i < n; ++i) empty_k<<<1, 32, 0, st>>>();
      },
      n);
  row(
      "empty kernel chain, 132 x 256",
      [&] {
        for (int i = 0; i < n; ++i) empty_k<<<132, 256, 0, st>>>();
      },
      n);
  row(
      "empty kernel chain, programmatic dependent launch",
      [&] {
        for (int i = 0; i < n; ++i) {
          cudaLaunchConfig_t c{};
          c.gridDim = 132, c.blockDim = 256, c.stream = st;
          cudaLaunchAttribute a{};
          a.id = cudaLaunchAttributeProgrammaticStreamSerialization;
          a.val.programmaticStreamSerializationAllowed = 1;
          c.attrs = &a, c.numAttrs = 1;
          CK(cudaLaunchKernelEx(&c, empty_k));
        }
      },
      n);
  for (int len : {0, 1000, 10000}) {
    out("-- a kernel of %d steps:\n", len);
    double base = row(
        "kernel alone",
        [&] {
          for (int i = 0; i < n; ++i) busy_k<<<132, 256, 0, st>>>(p, len);
        },
        n);
    auto more = [&](const char* w, const std::function<void()>& g) {
      double t = row(
          w,
          [&] {
            for (int i = 0; i < n; ++i) {
              busy_k<<<132, 256, 0, st>>>(p, len);
              g();
            }
          },
          n);
      out("      adds %.3f us\n", t - base);
    };
    more("  + kernel that counts on the device only", [&] { count_k<<<1, 1, 0, st>>>(seq); });
    more("  + progress kernel, no fence", [&] { progress_k<<<1, 1, 0, st>>>(seq, host); });
    more("  + progress kernel, system fence", [&] { progress_fence_k<<<1, 1, 0, st>>>(seq, host); });
    more("  + 8-byte copy to pinned memory", [&] { CK(cudaMemcpyAsync(host, seq, 8, cudaMemcpyDeviceToHost, st)); });
    more("  + cuStreamWriteValue64 to pinned memory", [&] { CU(cuStreamWriteValue64(st, (CUdeviceptr)host, 5, 0)); });
  }
  // On a side branch: the main chain does not wait for the word.
  {
    cudaStream_t s2;
    CK(cudaStreamCreateWithFlags(&s2, cudaStreamNonBlocking));
    std::vector<cudaEvent_t> ev(n + 1);
    for (auto& e : ev) CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    auto ge = capture([&] {
      for (int i = 0; i < n; ++i) {
        busy_k<<<132, 256, 0, st>>>(p, 1000);
        CK(cudaEventRecord(ev[i], st));
        CK(cudaStreamWaitEvent(s2, ev[i], 0));
        progress_fence_k<<<1, 1, 0, s2>>>(seq, host);
      }
      CK(cudaEventRecord(ev[n], s2));
      CK(cudaStreamWaitEvent(st, ev[n], 0));
    });
    auto t = timeit(st, 3, 21, [&] { CK(cudaGraphLaunch(ge, st)); });
    out("progress kernel on a side branch: graph %.3f us each\n", t.med / n * 1e3);
  }
  // Does the host see the words one by one while the graph runs?
  for (int fence : {1, 0}) {
    CK(cudaMemset(seq, 0, 8));
    CK(cudaDeviceSynchronize());
    *host = 0;
    auto ge = capture([&] {
      for (int i = 0; i < 200; ++i) {
        busy_k<<<132, 256, 0, st>>>(p, 100000);
        if (fence)
          progress_fence_k<<<1, 1, 0, st>>>(seq, host);
        else
          progress_k<<<1, 1, 0, st>>>(seq, host);
      }
    });
    CK(cudaGraphLaunch(ge, st));
    unsigned long long last = 0, seen = 0, back = 0, jump = 0;
    double t0 = now();
    while (last < 200 && now() - t0 < 5) {
      unsigned long long v = *(volatile unsigned long long*)host;
      if (v != last) ++seen, back += v<last, jump += v> last + 1, last = v;
    }
    CK(cudaStreamSynchronize(st));
    out("%s fence: host polled %llu different words of 200 in %.1f ms, backwards %llu, jumps %llu\n",
        fence ? "with" : "without", seen, (now() - t0) * 1e3, back, jump);
  }
  out("ROW7 done\n");
  _exit(0);
}
