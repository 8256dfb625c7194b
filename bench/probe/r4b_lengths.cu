// Row 4, second part: are the bits of the plan with device-side lengths independent of padding, heads, query rows? The
// other plan's time.
#include "dnn.h"
constexpr int D = 128, N = 40, C = N * D, S = 72000;
int main() {
  alarm(60);
  cudnnHandle_t h;
  cudaStream_t st;
  CK(cudaFree(0));
  CK(cudaStreamCreateWithFlags(&st, cudaStreamNonBlocking));
  CDNN(cudnnCreate(&h));
  CDNN(cudnnSetStream(h, st));
  const size_t rows = 73000;
  bf16 *x = dmalloc<bf16>(rows * 3 * C), *o[2] = {dmalloc<bf16>(rows * C), dmalloc<bf16>(rows * C)};
  float* l[2] = {dmalloc<float>(rows * N), dmalloc<float>(rows * N)};
  void* ws;
  int* len;
  CK(cudaMalloc(&ws, 256 << 20));
  CK(cudaMalloc(&len, 8));
  fill(x, rows * 3 * C, 11);
  CK(cudaDeviceSynchronize());
  auto run = [&](int i, int n, int sq, int sk, int rq, int rk, int q0, int h0, int plan = -1) {
    Sdpa p(h, n, D, sq, sk, 3 * C, 3 * C, C, true, true, false, plan);
    if (!p.ok) return std::string("refused");
    int hl[2] = {rq, rk};
    CK(cudaMemcpyAsync(len, hl, 8, cudaMemcpyHostToDevice, st));
    CK(cudaMemsetAsync(o[i], 0xff, rows * C * 2, st));
    p.run(h, x + (size_t)q0 * 3 * C + h0 * D, x + C + h0 * D, x + 2 * C + h0 * D, o[i] + (size_t)q0 * C + h0 * D, l[i],
          ws, len, len + 1);
    CK(cudaStreamSynchronize(st));
    return p.name;
  };
  for (int s : {S, 7200, 512}) {
    auto base = run(0, N, s, s, s, s, 0, 0);
    struct {
      const char* n;
      int heads, sq, sk, rq, q0, h0;
    } t[] = {{"keys padded by 192", N, s, s + 192, s, 0, 0},
             {"keys and queries padded by 448", N, s + 448, s + 448, s, 0, 0},
             {"13 heads, keys padded", 13, s, s + 192, s, 0, 27},
             {"1 head", 1, s, s + 192, s, 0, 39},
             {"last third of the queries", N, s / 3, s + 192, s / 3, s - s / 3, 0},
             {"query length 0 of a shard", N, 256, s, 0, 0, 0}};
    for (auto& a : t) {
      auto name = run(1, a.heads, a.sq, a.sk, a.rq, s, a.q0, a.h0);
      auto c = compare(o[1] + (size_t)a.q0 * C + a.h0 * D, o[0] + (size_t)a.q0 * C + a.h0 * D, a.rq ? a.rq : 256,
                       a.heads * D, C, C);
      out("lengths plan, %d keys, %-32s: %llu differ, nan %llu, %s\n", s, a.n, c.ne, c.nan, name.c_str());
    }
  }
  // the same arithmetic with the plain plan against the lengths plan: which is nearer to fp32 was the same in the first
  // run (2.2e-3)
  for (int plan : {0, 1}) {
    Sdpa p(h, N, D, S, S, 3 * C, 3 * C, C, true, false, false, plan);
    if (!p.ok) continue;
    CK(cudaMemsetAsync(o[plan], 0xff, rows * C * 2, st));
    p.run(h, x, x + C, x + 2 * C, o[plan], l[plan], ws);
    auto t = timeit(st, 1, 7, [&] { p.run(h, x, x + C, x + 2 * C, o[plan], l[plan], ws); });
    out("plain plan %d %s: %.2f ms [%.2f %.2f] %.0f TFLOP/s, ws %ld\n", plan, p.name.c_str(), t.med, t.lo, t.hi,
        4.0 * S * S * C / t.med / 1e9, (long)p.ws);
  }
  auto c = compare(o[1], o[0], S, C);
  out("plan 1 against plan 0: %llu differ, nan %llu\n", c.ne, c.nan);
  // sustained: twelve in a row against single ones with pauses (power)
  Sdpa p(h, N, D, S, S, 3 * C, 3 * C, C, true);
  std::vector<float> cold;
  for (int i = 0; i < 6; ++i) {
    usleep(600000);
    cold.push_back(timeit(st, 0, 1, [&] { p.run(h, x, x + C, x + 2 * C, o[0], l[0], ws); }).med);
  }
  std::sort(cold.begin(), cold.end());
  auto hot = timeit(st, 6, 15, [&] { p.run(h, x, x + C, x + 2 * C, o[0], l[0], ws); });
  out("after 0.6 s of rest %.2f ms, in a row %.2f ms\nROW4b done\n", cold[3], hot.med);
  _exit(0);
}
