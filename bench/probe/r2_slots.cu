// Row 2: exchange slots: ncclMemAlloc, symmetric windows, two communicators, copy-engine all-to-all inside a graph.
// r2_slots processes|threads
#include "lt.h"
#include "pair.h"

constexpr size_t kMax = 256ull << 20;  // bytes of one slot

__device__ inline uint32_t word(uint32_t it, uint32_t rank, uint32_t chunk, uint32_t i) {
  return mix(((uint64_t)it << 40) ^ ((uint64_t)(rank * 2 + chunk) << 36) ^ i);
}
__global__ void put_k(uint32_t* p, size_t per, int rank, const uint32_t* it, int salt) {
  uint32_t n = *it * 4 + salt;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < 2 * per; i += (size_t)gridDim.x * blockDim.x)
    p[i] = word(n, rank, i / per, i % per);
}
__global__ void see_k(const uint32_t* p, size_t per, int rank, const uint32_t* it, int salt, unsigned long long* bad) {
  uint32_t n = *it * 4 + salt;
  unsigned long long b = 0;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < 2 * per; i += (size_t)gridDim.x * blockDim.x)
    b += p[i] != word(n, i / per, rank, i % per);
  if (b) atomicAdd(bad, b);
}
__global__ void next_k(uint32_t* it) { ++*it; }
// The progress word of design section 3: a sequence number kept on the device, published to pinned host memory.
__global__ void progress_k(unsigned long long* seq, volatile unsigned long long* host) {
  unsigned long long s = ++*seq;
  *host = s;
  __threadfence_system();
}

static void rank_main(Shared* sh, int rank, const char* mode) {
  CK(cudaSetDevice(rank));
  CK(cudaFree(0));
  int v;
  NC(ncclGetVersion(&v));
  int peer = 0;
  CK(cudaDeviceCanAccessPeer(&peer, rank, 1 - rank));
  double t0 = now();
  ncclComm_t A = make_comm(sh, rank, 0, NCCL_CTA_POLICY_ZERO), B = make_comm(sh, rank, 1, NCCL_CTA_POLICY_ZERO),
             K = make_comm(sh, rank, 2, NCCL_CTA_POLICY_DEFAULT);
  double t1 = now();
  void *s, *r, *s2, *r2;
  NC(ncclMemAlloc(&s, kMax));
  NC(ncclMemAlloc(&r, kMax));
  CK(cudaMalloc(&s2, kMax));
  CK(cudaMalloc(&r2, kMax));
  ncclWindow_t w[6];
  double t2 = now();
  NC(ncclCommWindowRegister(A, s, kMax, &w[0], NCCL_WIN_COLL_SYMMETRIC));
  NC(ncclCommWindowRegister(A, r, kMax, &w[1], NCCL_WIN_COLL_SYMMETRIC));
  NC(ncclCommWindowRegister(B, s, kMax, &w[2], NCCL_WIN_COLL_SYMMETRIC));
  NC(ncclCommWindowRegister(B, r, kMax, &w[3], NCCL_WIN_COLL_SYMMETRIC));
  NC(ncclCommWindowRegister(K, s, kMax, &w[4], NCCL_WIN_COLL_SYMMETRIC));
  NC(ncclCommWindowRegister(K, r, kMax, &w[5], NCCL_WIN_COLL_SYMMETRIC));
  double t3 = now();
  if (rank == 0)
    out("%s: NCCL %d, peer access %d, three communicators %.0f ms, six windows %.0f ms, window handles %s\n", mode, v,
        peer, (t1 - t0) * 1e3, (t3 - t2) * 1e3, w[0] ? "set" : "NULL");
  cudaStream_t st, side;
  CK(cudaStreamCreateWithFlags(&st, cudaStreamNonBlocking));
  int lo, hi;
  CK(cudaDeviceGetStreamPriorityRange(&lo, &hi));
  CK(cudaStreamCreateWithPriority(&side, cudaStreamNonBlocking, hi));
  uint32_t* it;
  unsigned long long *bad, *seq, *host, hb;
  CK(cudaMalloc(&it, 4));
  CK(cudaMemset(it, 0, 4));
  CK(cudaMalloc(&bad, 8));
  CK(cudaMemset(bad, 0, 8));
  CK(cudaMalloc(&seq, 8));
  CK(cudaMemset(seq, 0, 8));
  CK(cudaMallocHost(&host, 8));
  *host = 0;
  CK(cudaDeviceSynchronize());
  auto capture = [&](const std::function<void()>& f, bool tell, const char* what) {
    cudaGraph_t g;
    cudaGraphExec_t ge;
    CK(cudaStreamBeginCapture(st, cudaStreamCaptureModeThreadLocal));
    f();
    CK(cudaStreamEndCapture(st, &g));
    if (tell && rank == 0) out("%s: graph %s: %s\n", mode, what, nodes(g).c_str());
    CK(cudaGraphInstantiate(&ge, g, 0));
    return ge;
  };
  auto a2a = [&](ncclComm_t c, void* x, void* y, size_t per_bytes) {
    NC(ncclAlltoAll(x, y, per_bytes, ncclInt8, c, st));
  };
  // --- correctness: 1,000 replays, two communicators in turn on the same slots
  auto prove = [&](ncclComm_t c1, ncclComm_t c2, size_t per, int n, const char* what) {
    a2a(c1, s, r, per), a2a(c2, s, r, per);  // first use outside the graph
    CK(cudaStreamSynchronize(st));
    auto ge = capture(
        [&] {
          CK(cudaMemsetAsync(r, 0xee, 2 * per, st));
          put_k<<<264, 256, 0, st>>>((uint32_t*)s, per / 4, rank, it, 0);
          a2a(c1, s, r, per);
          see_k<<<264, 256, 0, st>>>((uint32_t*)r, per / 4, rank, it, 0, bad);
          put_k<<<264, 256, 0, st>>>((uint32_t*)s, per / 4, rank, it, 1);
          a2a(c2, s, r, per);
          see_k<<<264, 256, 0, st>>>((uint32_t*)r, per / 4, rank, it, 1, bad);
          next_k<<<1, 1, 0, st>>>(it);
        },
        true, what);
    CK(cudaMemset(bad, 0, 8));
    CK(cudaDeviceSynchronize());
    barrier(sh);
    double a = now();
    for (int i = 0; i < n; ++i) {
      CK(cudaGraphLaunch(ge, st));
      if (rank == 1 && i % 97 == 5) usleep(3000);  // one rank late now and then
    }
    CK(cudaStreamSynchronize(st));
    double b = now();
    CK(cudaMemcpy(&hb, bad, 8, cudaMemcpyDeviceToHost));
    out("%s rank %d: %s, %zu KiB a peer, %d replays in %.0f ms: %llu wrong words\n", mode, rank, what, per >> 10, n,
        (b - a) * 1e3, hb);
    CK(cudaGraphExecDestroy(ge));
    barrier(sh);
  };
  prove(A, B, 1 << 20, 1000, "copy engine, A then B");
  prove(A, B, kMax / 2, 30, "copy engine, A then B, large");
  prove(K, K, 1 << 20, 300, "kernel path");
  prove(A, K, 1 << 20, 300, "copy engine then kernel");
  // --- speed
  for (size_t per : {(size_t)64 << 10, (size_t)1 << 20, (size_t)16 << 20, kMax / 2}) {
    int n = per > (32 << 20) ? 4 : 20;
    auto many = [&](ncclComm_t c, void* x, void* y, bool prog) {
      return [=, &a2a] {
        for (int i = 0; i < n; ++i) {
          a2a(c, x, y, per);
          if (prog) progress_k<<<1, 1, 0, st>>>(seq, host);
        }
      };
    };
    struct {
      const char* n;
      ncclComm_t c;
      void *x, *y;
      bool p;
    } rows[] = {{"copy engine", A, s, r, false},
                {"copy engine + progress word", A, s, r, true},
                {"kernel, registered", K, s, r, false},
                {"kernel, plain memory", K, s2, r2, false},
                {"kernel, plain + progress word", K, s2, r2, true}};
    for (auto& q : rows) {
      auto f = many(q.c, q.x, q.y, q.p);
      f();
      CK(cudaStreamSynchronize(st));
      auto ge = capture(f, false, "");
      barrier(sh);
      auto te = timeit(st, 2, 9, f);
      barrier(sh);
      auto tg = timeit(st, 2, 9, [&] { CK(cudaGraphLaunch(ge, st)); });
      if (rank == 0)
        out("%s: %8zu KiB a peer, %-30s eager %.1f us, graph %.1f us (%.0f GB/s out)\n", mode, per >> 10, q.n,
            te.med / n * 1e3, tg.med / n * 1e3, per / (tg.med / n) / 1e6);
      CK(cudaGraphExecDestroy(ge));
      barrier(sh);
    }
  }
  // --- what a product beside it costs: 6 products on st2 against all-to-alls on the side stream
  {
    cublasLtHandle_t h;
    CB(cublasLtCreate(&h));
    bf16 *X = dmalloc<bf16>(36000ull * 5120), *W = dmalloc<bf16>(15360ull * 5120), *D = dmalloc<bf16>(36000ull * 15360);
    fill(X, 36000ull * 5120, 1), fill(W, 15360ull * 5120, 2, 0.02f);
    void* ws;
    CK(cudaMalloc(&ws, kGemmWs));
    CK(cudaDeviceSynchronize());
    Gemm g(36000, 15360, 5120);
    auto al = g.algos(h, 1);
    auto gemms = [&] {
      for (int i = 0; i < 4; ++i) CB(g.run(h, X, W, D, &al[0].a, ws, st));
    };
    auto base = timeit(st, 2, 5, gemms);
    struct {
      const char* n;
      ncclComm_t c;
      void *x, *y;
    } rows[] = {{"copy engine", A, s, r}, {"kernel", K, s2, r2}};
    for (auto& q : rows) {
      cudaEvent_t e0, e1;
      CK(cudaEventCreate(&e0));
      CK(cudaEventCreate(&e1));
      NC(ncclAlltoAll(q.x, q.y, kMax / 2, ncclInt8, q.c, side));
      CK(cudaStreamSynchronize(side));
      std::vector<float> comm;
      auto both = [&] {
        CK(cudaEventRecord(e0, st));
        CK(cudaStreamWaitEvent(side, e0, 0));
        for (int i = 0; i < 12; ++i) NC(ncclAlltoAll(q.x, q.y, kMax / 2, ncclInt8, q.c, side));
        CK(cudaEventRecord(e1, side));
        gemms();
        CK(cudaStreamWaitEvent(st, e1, 0));
      };
      barrier(sh);
      auto alone = timeit(side, 1, 5, [&] {
        for (int i = 0; i < 12; ++i) NC(ncclAlltoAll(q.x, q.y, kMax / 2, ncclInt8, q.c, side));
      });
      barrier(sh);
      auto t = timeit(st, 1, 5, both);
      if (rank == 0)
        out("%s: 4 products alone %.2f ms, 12 all-to-alls of 128 MiB a peer alone (%s) %.2f ms, both together %.2f "
            "ms\n",
            mode, base.med, q.n, alone.med, t.med);
      barrier(sh);
    }
  }
  CK(cudaDeviceSynchronize());
  if (rank == 0) out("progress word: device counted, host sees %llu\n", *host);
  barrier(sh);
  // --- last, since it may fail: a window over a range we reserved and mapped ourselves
  {
    CUmemAllocationProp p{};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.location.id = rank;
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    size_t n = 64 << 20;
    CUmemGenericAllocationHandle hd;
    CUdeviceptr a;
    CU(cuMemCreate(&hd, n, &p, 0));
    CU(cuMemAddressReserve(&a, n, 0, 0, 0));
    CU(cuMemMap(a, n, 0, hd, 0));
    CUmemAccessDesc d{};
    d.location = p.location;
    d.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CU(cuMemSetAccess(a, n, &d, 1));
    ncclWindow_t win = nullptr;
    ncclResult_t e = ncclCommWindowRegister(A, (void*)a, n, &win, NCCL_WIN_COLL_SYMMETRIC);
    out("%s rank %d: window over our own mapped range: %s, handle %s\n", mode, rank, ncclGetErrorString(e),
        win ? "set" : "NULL");
    if (e == ncclSuccess && win) {
      size_t per = 1 << 20;
      CK(cudaMemset(bad, 0, 8));
      CK(cudaDeviceSynchronize());
      put_k<<<264, 256, 0, st>>>((uint32_t*)a, per / 4, rank, it, 0);
      NC(ncclAlltoAll((void*)a, (void*)(a + (8 << 20)), per, ncclInt8, A, st));
      see_k<<<264, 256, 0, st>>>((uint32_t*)(a + (8 << 20)), per / 4, rank, it, 0, bad);
      auto f = [&] { NC(ncclAlltoAll((void*)a, (void*)(a + (8 << 20)), per, ncclInt8, A, st)); };
      (void)capture(f, true, "over our own range");
      CK(cudaStreamSynchronize(st));
      CK(cudaMemcpy(&hb, bad, 8, cudaMemcpyDeviceToHost));
      out("%s rank %d: all-to-all over our own range: %llu wrong words\n", mode, rank, hb);
    }
    barrier(sh);
  }
  double q0 = now();
  for (int i = 0; i < 6; ++i) NC(ncclCommWindowDeregister(i < 2 ? A : i < 4 ? B : K, w[i]));
  NC(ncclCommDestroy(A));
  NC(ncclCommDestroy(B));
  NC(ncclCommDestroy(K));
  NC(ncclMemFree(s));
  NC(ncclMemFree(r));
  if (rank == 0) out("%s: deregister, destroy, free %.0f ms\nROW2 %s done\n", mode, (now() - q0) * 1e3, mode);
}
int main(int, char** argv) {
  Shared* sh = shared_page();
  if (!strcmp(argv[1], "threads")) {
    alarm(70);
    std::thread a(rank_main, sh, 0, "threads"), b(rank_main, sh, 1, "threads");
    a.join(), b.join();
    _exit(0);
  }
  for (int r = 0; r < 2; ++r)
    if (fork() == 0) {
      alarm(70);
      rank_main(sh, r, "processes");
      _exit(0);
    }
  int s1, s2;
  wait(&s1), wait(&s2);
  out("processes ended %x %x\n", s1, s2);
}
