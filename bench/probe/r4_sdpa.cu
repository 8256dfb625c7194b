// Row 4: cuDNN attention through the frontend: strides, LSE, bits per head, device-side key length, build times.
#include "dnn.h"

constexpr int D = 128;
// fp32 reference of single rows: one block per (head, row).
__global__ void ref_rows_k(const bf16* q, const bf16* k, const bf16* v, size_t rq, size_t rkv, int S, int N,
                           const int* rows, float* o, float* lse, int R) {
  extern __shared__ float sc[];  // [S]
  __shared__ float red[32], qs[D];
  int r = blockIdx.x % R, n = blockIdx.x / R, row = rows[r];
  if (threadIdx.x < D) qs[threadIdx.x] = (float)q[row * rq + n * D + threadIdx.x];
  __syncthreads();
  float m = -INFINITY;
  for (int j = threadIdx.x; j < S; j += blockDim.x) {
    float s = 0;
    for (int d = 0; d < D; ++d) s += qs[d] * (float)k[j * rkv + n * D + d];
    sc[j] = s * rsqrtf((float)D);
    m = fmaxf(m, sc[j]);
  }
  auto reduce = [&](float x, bool mx) {
    for (int i = 16; i; i >>= 1) x = mx ? fmaxf(x, __shfl_xor_sync(~0u, x, i)) : x + __shfl_xor_sync(~0u, x, i);
    __syncthreads();
    if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = x;
    __syncthreads();
    x = red[0];
    for (int i = 1; i < (int)blockDim.x / 32; ++i) x = mx ? fmaxf(x, red[i]) : x + red[i];
    return x;
  };
  m = reduce(m, true);
  float l = 0;
  for (int j = threadIdx.x; j < S; j += blockDim.x) l += sc[j] = expf(sc[j] - m);
  l = reduce(l, false);
  __syncthreads();
  if (threadIdx.x < D) {
    double a = 0;
    for (int j = 0; j < S; ++j) a += (double)sc[j] * (float)v[j * rkv + n * D + threadIdx.x];
    o[(size_t)(n * R + r) * D + threadIdx.x] = (float)(a / l);
  }
  if (threadIdx.x == 0) lse[n * R + r] = m + logf(l);
}
__global__ void pick_k(const bf16* o, const float* lse, size_t ro, int S, const int* rows, int R, bf16* po, float* pl) {
  int r = blockIdx.x % R, n = blockIdx.x / R;
  po[(size_t)(n * R + r) * D + threadIdx.x] = o[rows[r] * ro + n * D + threadIdx.x];
  if (threadIdx.x == 0) pl[n * R + r] = lse[(size_t)n * S + rows[r]];
}
__global__ void copy_rows_k(const bf16* s, size_t rs, bf16* d, size_t rd, size_t S, size_t w) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < S * w; i += (size_t)gridDim.x * blockDim.x)
    d[(i / w) * rd + i % w] = s[(i / w) * rs + i % w];
}
static cudnnHandle_t h;
static cudaStream_t st;
static void* ws;

static void reference_check(const char* what, const bf16* q, const bf16* k, const bf16* v, size_t rq, size_t rkv,
                            int Sk, int N, const bf16* o, const float* lse, size_t ro, int Sq) {
  int hr[4] = {0, Sq / 3, Sq - 2, Sq - 1}, R = 4, *rows;
  CK(cudaMalloc(&rows, sizeof hr));
  CK(cudaMemcpy(rows, hr, sizeof hr, cudaMemcpyHostToDevice));
  float *fo = dmalloc<float>(N * R * D), *fl = dmalloc<float>(N * R), *pl = dmalloc<float>(N * R);
  bf16* po = dmalloc<bf16>(N * R * D);
  int tile = std::min(Sk, 50000);
  if (Sk > tile) {
    out("  (reference skipped: %d keys do not fit)\n", Sk);
    return;
  }
  CK(cudaFuncSetAttribute(ref_rows_k, cudaFuncAttributeMaxDynamicSharedMemorySize, 220 << 10));
  ref_rows_k<<<N * R, 256, Sk * 4, st>>>(q, k, v, rq, rkv, Sk, N, rows, fo, fl, R);
  CK(cudaGetLastError());
  pick_k<<<N * R, D, 0, st>>>(o, lse, ro, Sq, rows, R, po, pl);
  CK(cudaStreamSynchronize(st));
  auto a = compare(po, fo, N * R, D);
  auto b = compare(pl, fl, N, R);
  out("  %s against fp32: O rel %.2e, LSE max diff %.2e nan %llu/%llu\n", what, a.rel, b.mx, a.nan, b.nan);
}

int main(int argc, char** argv) {
  alarm(150);
  bool brief = argc > 1;
  CK(cudaFree(0));
  CK(cudaStreamCreateWithFlags(&st, cudaStreamNonBlocking));
  CDNN(cudnnCreate(&h));
  CDNN(cudnnSetStream(h, st));
  out("cuDNN run time %zu, headers %d\n", cudnnGetVersion(), CUDNN_VERSION);
  CK(cudaMalloc(&ws, 512 << 20));
  const int N = 40, S = 72000, SP = 72192;  // padded by the 256-row rule
  const size_t C = N * D;
  bf16* x = dmalloc<bf16>((size_t)SP * 3 * C);  // [S,3,N,D]
  fill(x, (size_t)SP * 3 * C, 11);
  bf16 *q = dmalloc<bf16>((size_t)SP * C), *k = dmalloc<bf16>((size_t)SP * C), *v = dmalloc<bf16>((size_t)SP * C);
  bf16* o[3];
  float* l[3];
  for (int i = 0; i < 3; ++i) o[i] = dmalloc<bf16>((size_t)SP * C), l[i] = dmalloc<float>((size_t)N * SP);
  CK(cudaDeviceSynchronize());
  copy_rows_k<<<1056, 256, 0, st>>>(x, 3 * C, q, C, SP, C);
  copy_rows_k<<<1056, 256, 0, st>>>(x + C, 3 * C, k, C, SP, C);
  copy_rows_k<<<1056, 256, 0, st>>>(x + 2 * C, 3 * C, v, C, SP, C);
  CK(cudaStreamSynchronize(st));
  auto poison = [&](int i) {
    CK(cudaMemsetAsync(o[i], 0xff, (size_t)SP * C * 2, st));
    CK(cudaMemsetAsync(l[i], 0xff, (size_t)N * SP * 4, st));
  };
  auto show = [&](const char* n, Sdpa& a) {
    out("%-34s graph %.0f heuristics %.0f build %.0f ms, plans %ld, ws %ld, %s\n", n, a.t_graph, a.t_heur, a.t_build,
        (long)a.plans, (long)a.ws, a.name.c_str());
  };
  auto tf = [&](double sq, double sk, double ms) { return 4 * sq * sk * C / ms / 1e9; };

  Sdpa dense(h, N, D, S, S, C, C, C, true), inter(h, N, D, S, S, 3 * C, 3 * C, C, true),
      nolse(h, N, D, S, S, C, C, C, false);
  show("dense+LSE (first build)", dense);
  show("interleaved+LSE", inter);
  show("dense, no LSE", nolse);
  if (!dense.ok) return 1;
  {
    Sdpa again(h, N, D, S, S, C, C, C, true), other(h, N, D, S - 72, S - 72, C, C, C, true),
        other2(h, N, D, 32760, 32760, C, C, C, true);
    show("dense+LSE, same shape again", again);
    show("dense+LSE, another length", other);
    show("dense+LSE, 32760", other2);
  }
  for (int i = 0; i < 3; ++i) poison(i);
  dense.run(h, q, k, v, o[0], l[0], ws);
  if (inter.ok) inter.run(h, x, x + C, x + 2 * C, o[1], l[1], ws);
  nolse.run(h, q, k, v, o[2], nullptr, ws);
  CK(cudaStreamSynchronize(st));
  auto c1 = compare(o[1], o[0], S, C), c2 = compare(l[1], l[0], N, S), c3 = compare(o[2], o[0], S, C);
  out("bits: interleaved against dense O %llu LSE %llu differ (nan %llu); no-LSE against LSE O %llu differ (nan "
      "%llu)\n",
      c1.ne, c2.ne, c1.nan, c3.ne, c3.nan);
  int reps = brief ? 5 : 7;
  for (int round = 0; round < (brief ? 1 : 2); ++round) {
    auto t1 = timeit(st, 1, reps, [&] { dense.run(h, q, k, v, o[0], l[0], ws); });
    auto t2 = timeit(st, 1, reps, [&] { inter.run(h, x, x + C, x + 2 * C, o[1], l[1], ws); });
    auto t3 = timeit(st, 1, reps, [&] { nolse.run(h, q, k, v, o[2], nullptr, ws); });
    out("72,000 x 40 heads: dense+LSE %.2f ms [%.2f %.2f] %.0f TFLOP/s; interleaved+LSE %.2f [%.2f %.2f] %.0f; dense "
        "no LSE %.2f [%.2f %.2f] %.0f\n",
        t1.med, t1.lo, t1.hi, tf(S, S, t1.med), t2.med, t2.lo, t2.hi, tf(S, S, t2.med), t3.med, t3.lo, t3.hi,
        tf(S, S, t3.med));
  }
  if (brief) {
    out("ROW4 brief done\n");
    _exit(0);
  }
  // repeatability
  poison(1);
  inter.run(h, x, x + C, x + 2 * C, o[1], l[1], ws);
  auto c4 = compare(o[1], o[0], S, C);
  out("repeat: %llu differ, nan %llu\n", c4.ne, c4.nan);
  // Correctness at 32,760 (reference keeps its scores in shared memory)
  {
    const int s = 32760;
    Sdpa a(h, N, D, s, s, 3 * C, 3 * C, C, true);
    poison(1);
    a.run(h, x, x + C, x + 2 * C, o[1], l[1], ws);
    CK(cudaStreamSynchronize(st));
    reference_check("32,760 interleaved", x, x + C, x + 2 * C, 3 * C, 3 * C, s, N, o[1], l[1], C, s);
  }
  // A head's bits against the number of heads in the call, and its place
  auto heads = [&](int s) {
    Sdpa all(h, N, D, s, s, 3 * C, 3 * C, C, true);
    poison(0);
    all.run(h, x, x + C, x + 2 * C, o[0], l[0], ws);
    CK(cudaStreamSynchronize(st));
    for (int n : {20, 14, 13, 10, 5, 3, 1}) {
      Sdpa a(h, n, D, s, s, 3 * C, 3 * C, C, true);
      if (!a.ok) continue;
      poison(1);
      int at = N - n;
      a.run(h, x + at * D, x + C + at * D, x + 2 * C + at * D, o[1] + at * D, l[1] + (size_t)at * s, ws);
      CK(cudaStreamSynchronize(st));
      auto c = compare(o[1] + at * D, o[0] + at * D, s, (size_t)n * D, C, C);
      auto e = compare(l[1] + (size_t)at * s, l[0] + (size_t)at * s, n, s);
      auto t = timeit(st, 1, 3, [&] {
        a.run(h, x + at * D, x + C + at * D, x + 2 * C + at * D, o[1] + at * D, l[1] + (size_t)at * s, ws);
      });
      out("S %d, %2d heads against 40: O %llu LSE %llu differ (nan %llu), %.3f ms %.0f TFLOP/s, same plan %d\n", s, n,
          c.ne, e.ne, c.nan, t.med, 4.0 * s * s * n * D / t.med / 1e9, a.name == all.name);
    }
  };
  heads(7200);
  heads(32760);
  if (!brief) heads(S);
  // A row's bits against the number of query rows, same keys
  {
    Sdpa all(h, N, D, S, S, 3 * C, 3 * C, C, true);
    poison(0);
    all.run(h, x, x + C, x + 2 * C, o[0], l[0], ws);
    CK(cudaStreamSynchronize(st));
    for (int sq : {36000, 9000, 9001, 1000}) {
      Sdpa a(h, N, D, sq, S, 3 * C, 3 * C, C, true);
      if (!a.ok) continue;
      poison(1);
      int at = S - sq;
      a.run(h, x + at * 3 * C, x + C, x + 2 * C, o[1], l[1], ws);
      CK(cudaStreamSynchronize(st));
      auto c = compare(o[1], o[0] + at * C, sq, C);
      auto t = timeit(st, 1, 3, [&] { a.run(h, x + at * 3 * C, x + C, x + 2 * C, o[1], l[1], ws); });
      out("last %d query rows of 72,000: O %llu differ (nan %llu), %.2f ms %.0f TFLOP/s\n", sq, c.ne, c.nan, t.med,
          tf(sq, S, t.med));
    }
  }
  // Device-side lengths: 72,000 real of 72,192; then cross-attention with 512 keys and fewer real ones
  int* len;
  CK(cudaMalloc(&len, 8));
  auto lengths = [&](const char* n, int sq, int sk, int rq_, int rk_, bool same_q) {
    Sdpa plain(h, N, D, rq_, rk_, 3 * C, 3 * C, C, true), p(h, N, D, sq, sk, 3 * C, 3 * C, C, true, true);
    show(n, p);
    if (!p.ok || !plain.ok) return;
    poison(0), poison(1);
    int hl[2] = {rq_, rk_};
    CK(cudaMemcpyAsync(len, hl, 8, cudaMemcpyHostToDevice, st));
    plain.run(h, x, x + C, x + 2 * C, o[0], l[0], ws);
    p.run(h, x, x + C, x + 2 * C, o[1], l[1], ws, len, len + 1);
    CK(cudaStreamSynchronize(st));
    auto c = compare(o[1], o[0], rq_, C);
    auto t1 = timeit(st, 1, 5, [&] { plain.run(h, x, x + C, x + 2 * C, o[0], l[0], ws); });
    auto t2 = timeit(st, 1, 5, [&] { p.run(h, x, x + C, x + 2 * C, o[1], l[1], ws, len, len + 1); });
    out("  real %d x %d in %d x %d: O %llu differ, rel %.2e (nan %llu); plain %.3f ms, with lengths %.3f ms "
        "(%+.1f%%)\n",
        rq_, rk_, sq, sk, c.ne, c.rel, c.nan, t1.med, t2.med, (t2.med / t1.med - 1) * 100);
    if (sq > rq_) {
      std::vector<bf16> tail(C);
      CK(cudaMemcpy(tail.data(), o[1] + (size_t)rq_ * C, C * 2, cudaMemcpyDeviceToHost));
      out("  first padding row of O holds %g %g %g\n", (float)tail[0], (float)tail[1], (float)tail[C - 1]);
    }
    if (rk_ < 8192) reference_check("lengths", x, x + C, x + 2 * C, 3 * C, 3 * C, rk_, N, o[1], l[1], C, sq);
  };
  lengths("self, lengths 72,000 of 72,192", SP, SP, S, S, true);
  lengths("self, keys only", S, SP, S, S, true);
  lengths("cross 512 of 512", S, 512, S, 512, true);
  lengths("cross 77 of 512", S, 512, S, 77, true);
  lengths("cross 5 of 256", S, 256, S, 5, true);
  {  // zero real keys
    Sdpa p(h, N, D, 1024, 512, 3 * C, 3 * C, C, true, true, true);
    int hl[2] = {1024, 0};
    poison(1);
    CK(cudaMemcpyAsync(len, hl, 8, cudaMemcpyHostToDevice, st));
    p.run(h, x, x + C, x + 2 * C, o[1], l[1], ws, len, len + 1);
    CK(cudaStreamSynchronize(st));
    bf16 a;
    float b;
    CK(cudaMemcpy(&a, o[1], 2, cudaMemcpyDeviceToHost));
    CK(cudaMemcpy(&b, l[1], 4, cudaMemcpyDeviceToHost));
    out("zero real keys: O %g LSE %g\n", (float)a, b);
  }
  {  // inside a graph, length changed between replays
    Sdpa p(h, N, D, 4096, 512, 3 * C, 3 * C, C, true, true, true), plain(h, N, D, 4096, 100, 3 * C, 3 * C, C, true);
    cudaGraph_t g;
    cudaGraphExec_t ge;
    CK(cudaStreamBeginCapture(st, cudaStreamCaptureModeThreadLocal));
    p.run(h, x, x + C, x + 2 * C, o[1], l[1], ws, len, len + 1);
    CK(cudaStreamEndCapture(st, &g));
    CK(cudaGraphInstantiate(&ge, g, 0));
    size_t nn = 0;
    CK(cudaGraphGetNodes(g, nullptr, &nn));
    unsigned long long bad = 0;
    for (int rk : {512, 100}) {
      Sdpa r(h, N, D, 4096, rk, 3 * C, 3 * C, C, true);
      int hl[2] = {4096, rk};
      poison(0), poison(1);
      CK(cudaMemcpyAsync(len, hl, 8, cudaMemcpyHostToDevice, st));
      CK(cudaGraphLaunch(ge, st));
      r.run(h, x, x + C, x + 2 * C, o[0], l[0], ws);
      CK(cudaStreamSynchronize(st));
      auto c = compare(o[1], o[0], 4096, C);
      bad += c.ne + c.nan;
    }
    out("captured (%zu nodes), length 512 then 100 written between replays: %llu elements differ from plain plans\n",
        nn, bad);
  }
  out("ROW4 done\n");
  _exit(0);
}
