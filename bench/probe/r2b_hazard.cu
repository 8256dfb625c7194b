// Row 2, second part, two threads of one process: (1) when does a captured copy-engine all-to-all deliver wrong data?
// (2) what moves data beside a product at the least cost?
#include "lt.h"
#include "pair.h"

constexpr size_t kMax = 256ull << 20;
__device__ inline uint32_t word(uint32_t it, uint32_t rank, uint32_t chunk, uint32_t i) {
  return mix(((uint64_t)it << 40) ^ ((uint64_t)(rank * 2 + chunk) << 36) ^ i);
}
__global__ void put_k(uint32_t* p, size_t per, int rank, const uint32_t* it) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < 2 * per; i += (size_t)gridDim.x * blockDim.x)
    p[i] = word(*it, rank, i / per, i % per);
}
__global__ void see_k(const uint32_t* p, size_t per, int rank, const uint32_t* it,
                      unsigned long long* bad) {  // bad[iteration]
  unsigned long long b = 0;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < 2 * per; i += (size_t)gridDim.x * blockDim.x)
    b += p[i] != word(*it, i / per, rank, i % per);
  if (b) atomicAdd(bad + *it, b);
}
__global__ void next_k(uint32_t* it) { ++*it; }
__global__ void move_k(const uint4* s, uint4* d, size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
    d[i] = s[i];
}
static void* g_recv[2];

static void rank_main(Shared* sh, int rank) {
  CK(cudaSetDevice(rank));
  CK(cudaFree(0));
  void *s, *r;
  NC(ncclMemAlloc(&s, kMax));
  NC(ncclMemAlloc(&r, kMax));
  cudaStream_t st, side;
  CK(cudaStreamCreateWithFlags(&st, cudaStreamNonBlocking));
  int lo, hi;
  CK(cudaDeviceGetStreamPriorityRange(&lo, &hi));
  CK(cudaStreamCreateWithPriority(&side, cudaStreamNonBlocking, hi));
  uint32_t* it;
  unsigned long long* bad;
  CK(cudaMalloc(&it, 4));
  CK(cudaMalloc(&bad, 8 * 4096));
  const size_t per = 1 << 20;
  // how: replays follow `eager` calls made before the capture; mix: one eager call between replays; gap: rank 1 is late
  // before a replay
  auto trial = [&](int eager, bool mix_in, int replays, int policy, const char* what) {
    ncclComm_t c = make_comm(sh, rank, 0, policy);
    ncclWindow_t w[2];
    NC(ncclCommWindowRegister(c, s, kMax, &w[0], NCCL_WIN_COLL_SYMMETRIC));
    NC(ncclCommWindowRegister(c, r, kMax, &w[1], NCCL_WIN_COLL_SYMMETRIC));
    CK(cudaMemset(it, 0, 4));
    CK(cudaMemset(bad, 0, 8 * 4096));
    CK(cudaDeviceSynchronize());
    auto one = [&] {
      CK(cudaMemsetAsync(r, 0xee, 2 * per, st));
      put_k<<<264, 256, 0, st>>>((uint32_t*)s, per / 4, rank, it);
      NC(ncclAlltoAll(s, r, per, ncclInt8, c, st));
      see_k<<<264, 256, 0, st>>>((uint32_t*)r, per / 4, rank, it, bad);
      next_k<<<1, 1, 0, st>>>(it);
    };
    for (int i = 0; i < eager; ++i) one();
    CK(cudaStreamSynchronize(st));
    cudaGraph_t g;
    cudaGraphExec_t ge;
    CK(cudaStreamBeginCapture(st, cudaStreamCaptureModeThreadLocal));
    one();
    CK(cudaStreamEndCapture(st, &g));
    CK(cudaGraphInstantiate(&ge, g, 0));
    barrier(sh);
    for (int i = 0; i < replays; ++i) {
      if (i % 50 == 0) {
        CK(cudaStreamSynchronize(st));
        barrier(sh);
        if ((i / 50) % 2 == rank) usleep(4000);  // one of the two comes late
      }
      CK(cudaGraphLaunch(ge, st));
      if (mix_in && i % 7 == 3) one();
    }
    CK(cudaStreamSynchronize(st));
    std::vector<unsigned long long> b(4096);
    CK(cudaMemcpy(b.data(), bad, 8 * 4096, cudaMemcpyDeviceToHost));
    int n = 0, first = -1;
    for (int i = 0; i < 4096; ++i)
      if (b[i]) ++n, first = first < 0 ? i : first;
    out("%s, %d eager before, mixed %d, rank %d: %d wrong exchanges of %d, first at %d\n", what, eager, mix_in, rank, n,
        replays + eager, first);
    barrier(sh);
    CK(cudaGraphExecDestroy(ge));
    CK(cudaGraphDestroy(g));
    for (auto& x : w) NC(ncclCommWindowDeregister(c, x));
    NC(ncclCommDestroy(c));
    barrier(sh);
  };
  for (int e : {1, 2, 3, 1, 4}) trial(e, false, 400, NCCL_CTA_POLICY_ZERO, "copy engine");
  trial(2, true, 400, NCCL_CTA_POLICY_ZERO, "copy engine");
  trial(3, true, 400, NCCL_CTA_POLICY_ZERO, "copy engine");
  trial(1, true, 400, NCCL_CTA_POLICY_DEFAULT, "kernel");
  // ---- overlap
  ncclComm_t A = make_comm(sh, rank, 0, NCCL_CTA_POLICY_ZERO), K = make_comm(sh, rank, 1, NCCL_CTA_POLICY_DEFAULT);
  ncclWindow_t w;
  for (auto c : {A, K}) {
    NC(ncclCommWindowRegister(c, s, kMax, &w, NCCL_WIN_COLL_SYMMETRIC));
    NC(ncclCommWindowRegister(c, r, kMax, &w, NCCL_WIN_COLL_SYMMETRIC));
  }
  cudaError_t pe = cudaDeviceEnablePeerAccess(1 - rank, 0);
  if (pe != cudaSuccess) out("peer access: %s\n", cudaGetErrorString(pe)), (void)cudaGetLastError();
  void* pr;
  CK(cudaMalloc(&pr, kMax / 2));
  g_recv[rank] = pr;
  barrier(sh);
  void* there = g_recv[1 - rank];
  cublasLtHandle_t h;
  CB(cublasLtCreate(&h));
  bf16 *X = dmalloc<bf16>(36000ull * 5120), *W = dmalloc<bf16>(15360ull * 5120), *D = dmalloc<bf16>(36000ull * 15360);
  fill(X, 36000ull * 5120, 1), fill(W, 15360ull * 5120, 2, 0.02f), fill((float*)s, kMax / 4, 3);
  void* ws;
  CK(cudaMalloc(&ws, kGemmWs));
  CK(cudaDeviceSynchronize());
  Gemm g(36000, 15360, 5120);
  auto al = g.algos(h, 1);
  auto gemms = [&] {
    for (int i = 0; i < 4; ++i) CB(g.run(h, X, W, D, &al[0].a, ws, st));
  };
  barrier(sh);
  auto base = timeit(st, 3, 7, gemms);
  struct {
    const char* n;
    std::function<void()> f;
  } rows[] = {
      {"NCCL copy engine", [&] { NC(ncclAlltoAll(s, r, kMax / 2, ncclInt8, A, side)); }},
      {"NCCL kernel, registered", [&] { NC(ncclAlltoAll(s, r, kMax / 2, ncclInt8, K, side)); }},
      {"peer copy, nothing else", [&] { CK(cudaMemcpyAsync(there, s, kMax / 2, cudaMemcpyDeviceToDevice, side)); }},
      {"own kernel, 8 blocks", [&] { move_k<<<8, 1024, 0, side>>>((uint4*)s, (uint4*)there, kMax / 32); }},
      {"own kernel, 32 blocks", [&] { move_k<<<32, 1024, 0, side>>>((uint4*)s, (uint4*)there, kMax / 32); }}};
  cudaEvent_t e0, e1;
  CK(cudaEventCreate(&e0));
  CK(cudaEventCreate(&e1));
  for (auto& q : rows) {
    q.f();
    CK(cudaStreamSynchronize(side));
    barrier(sh);
    auto alone = timeit(side, 1, 5, [&] {
      for (int i = 0; i < 12; ++i) q.f();
    });
    barrier(sh);
    auto t = timeit(st, 2, 7, [&] {
      CK(cudaEventRecord(e0, st));
      CK(cudaStreamWaitEvent(side, e0, 0));
      for (int i = 0; i < 12; ++i) q.f();
      CK(cudaEventRecord(e1, side));
      gemms();
      CK(cudaStreamWaitEvent(st, e1, 0));
    });
    barrier(sh);
    if (rank == 0)
      out("%-26s: 4 products %.2f ms, 12 x 128 MiB alone %.2f ms (%.0f GB/s), together %.2f ms: adds %.2f\n", q.n,
          base.med, alone.med, 12 * 134.217728 / alone.med, t.med, t.med - base.med);
  }
  auto again = timeit(st, 2, 7, gemms);
  if (rank == 0) out("4 products again %.2f ms\n", again.med);
  barrier(sh);
  // Last, since it failed before: the communicator's first copy-engine call inside a capture.
  trial(0, false, 100, NCCL_CTA_POLICY_ZERO, "copy engine");
  if (rank == 0) out("ROW2b done\n");
}
int main() {
  alarm(70);
  Shared* sh = shared_page();
  std::thread a(rank_main, sh, 0), b(rank_main, sh, 1);
  a.join(), b.join();
  _exit(0);
}
