// Row 1: one reserved address range, pages mapped on demand between (and during) replays of a captured graph.
#include "probe.h"

constexpr size_t kChunk = 256ull << 20;

__global__ void work_k(float* p, size_t n, const float* coef) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
    p[n + i] = p[i] * coef[0] + coef[1] * (float)(i & 255);
}
__global__ void hash_k(const uint32_t* p, size_t n, unsigned long long* h) {
  unsigned long long s = 0;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
    s += (unsigned long long)mix(i * 0x100000001ull + p[i]);
  atomicAdd(h, s);
}
__global__ void spin_k(long long ns) {
  long long t0, t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t0));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  while (t - t0 < ns);
}

int main() {
  alarm(60);
  CK(cudaFree(0));
  CUdevice dev = 0;
  int id;
  CK(cudaGetDevice(&id));
  CU(cuDeviceGet(&dev, id));
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {id}};
  size_t gmin, grec;
  CU(cuMemGetAllocationGranularity(&gmin, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CU(cuMemGetAllocationGranularity(&grec, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  out("granularity min %zu KiB recommended %zu KiB\n", gmin >> 10, grec >> 10);
  CUdeviceptr base;
  double t0 = now();
  CU(cuMemAddressReserve(&base, 512ull << 30, 0, 0, 0));
  out("reserve 512 GiB: %.3f ms\n", (now() - t0) * 1e3);
  std::vector<CUmemGenericAllocationHandle> hs;
  size_t mapped = 0;
  double tc = 0, tm = 0, ta = 0;
  auto grow = [&](size_t bytes) {
    CUmemGenericAllocationHandle h;
    double a = now();
    CU(cuMemCreate(&h, bytes, &prop, 0));
    double b = now();
    CU(cuMemMap(base + mapped, bytes, 0, h, 0));
    double c = now();
    CUmemAccessDesc d{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CU(cuMemSetAccess(base + mapped, bytes, &d, 1));
    double e = now();
    tc = (b - a) * 1e3, tm = (c - b) * 1e3, ta = (e - c) * 1e3;
    hs.push_back(h);
    mapped += bytes;
  };
  grow(kChunk);
  out("first 256 MiB: create %.3f map %.3f access %.3f ms\n", tc, tm, ta);
  float* p = (float*)base;
  size_t n = kChunk / 8;
  float* coef = dmalloc<float>(2);
  float c0[2] = {1.5f, 0.25f};
  CK(cudaMemcpy(coef, c0, 8, cudaMemcpyHostToDevice));
  unsigned long long* h;
  CK(cudaMalloc(&h, 8));
  cudaStream_t s;
  CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  fill(p, n, 1);
  CK(cudaDeviceSynchronize());
  cudaGraph_t g;
  cudaGraphExec_t ge;
  CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 4; ++i) work_k<<<528, 256, 0, s>>>(p, n, coef);
  CK(cudaMemcpyAsync(p, p + n, n * 4, cudaMemcpyDeviceToDevice, s));
  work_k<<<528, 256, 0, s>>>(p, n, coef);
  CK(cudaStreamEndCapture(s, &g));
  CK(cudaGraphInstantiate(&ge, g, 0));
  auto hash = [&] {
    unsigned long long v;
    CK(cudaMemsetAsync(h, 0, 8, s));
    hash_k<<<528, 256, 0, s>>>((uint32_t*)p, 2 * n, h);
    CK(cudaMemcpyAsync(&v, h, 8, cudaMemcpyDeviceToHost, s));
    CK(cudaStreamSynchronize(s));
    return v;
  };
  auto run = [&] {
    fill_k<<<1056, 256, 0, s>>>(p, n, 1, 1.f, 0.f);
    CK(cudaMemsetAsync(p + n, 0xff, n * 4, s));
    CK(cudaGraphLaunch(ge, s));
    CK(cudaStreamSynchronize(s));
    return hash();
  };
  auto ref = run();
  int bad = 0;
  double mc = 0, mm = 0, ma = 0;
  for (int i = 0; i < 200; ++i) {  // grow between replays
    grow(kChunk);
    mc = std::max(mc, tc), mm = std::max(mm, tm), ma = std::max(ma, ta);
    bad += run() != ref;
    // the new pages are usable at once
    CK(cudaMemsetAsync((void*)(base + mapped - kChunk), 0x11, kChunk, s));
  }
  CK(cudaStreamSynchronize(s));
  out("200 growths of 256 MiB between replays: mapped %.1f GiB, base %p, wrong results %d; worst create %.3f map %.3f "
      "access %.3f ms\n",
      mapped / 1073741824.0, (void*)base, bad, mc, mm, ma);
  // Growing while the device is busy: do the calls wait for it?
  for (int k = 0; k < 3; ++k) {
    spin_k<<<1, 1, 0, s>>>(100000000ll);
    double a = now();
    grow(kChunk);
    double b = now();
    cudaError_t q = cudaStreamQuery(s);
    CK(cudaStreamSynchronize(s));
    double c = now();
    out("grow while a 100 ms kernel runs: %.3f ms (create %.3f map %.3f access %.3f), kernel still running %d, whole "
        "%.1f ms\n",
        (b - a) * 1e3, tc, tm, ta, q == cudaErrorNotReady, (c - a) * 1e3);
  }
  // Growing while replays are in flight.
  bad = 0;
  for (int k = 0; k < 20; ++k) {
    fill_k<<<1056, 256, 0, s>>>(p, n, 1, 1.f, 0.f);
    for (int i = 0; i < 20; ++i) {
      if (i) fill_k<<<1056, 256, 0, s>>>(p, n, 1, 1.f, 0.f);
      CK(cudaGraphLaunch(ge, s));
      if (i % 5 == 2) grow(kChunk / 4);
    }
    CK(cudaStreamSynchronize(s));
    bad += hash() != ref;
  }
  out("growing with replays in flight: wrong results %d of 20\n", bad);
  // A graph captured over memory that is mapped only later (capture may not touch it).
  size_t later = mapped;
  CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  work_k<<<528, 256, 0, s>>>((float*)(base + later), n, coef);
  cudaGraph_t g2;
  cudaGraphExec_t ge2;
  CK(cudaStreamEndCapture(s, &g2));
  cudaError_t e = cudaGraphInstantiate(&ge2, g2, 0);
  out("kernel node on unmapped addresses: instantiate %s\n", cudaGetErrorString(e));
  grow(kChunk);
  fill((float*)(base + later), n, 2);
  CK(cudaDeviceSynchronize());
  CK(cudaGraphLaunch(ge2, s));
  CK(cudaStreamSynchronize(s));
  out("... replayed after mapping: ok\n");
  // Unmap the tail, replay the first graph, map again.
  double a = now();
  for (size_t i = hs.size(); i-- > 1;) CU(cuMemRelease(hs[i]));
  CU(cuMemUnmap(base + kChunk, mapped - kChunk));
  out("unmap %.1f GiB: %.3f ms; replay after unmap %s\n", (mapped - kChunk) / 1073741824.0, (now() - a) * 1e3,
      run() == ref ? "same" : "DIFFERENT");
  hs.resize(1);
  mapped = kChunk;
  a = now();
  grow(8ull << 30);
  out("map 8 GiB in one piece: %.3f ms (create %.3f); replay %s\n", (now() - a) * 1e3, tc,
      run() == ref ? "same" : "DIFFERENT");
  // Is mapped memory as fast as cudaMalloc's? 2 GiB copies.
  char* q = dmalloc<char>(4ull << 30);
  auto t1 = timeit(s, 2, 9, [&] { CK(cudaMemcpyAsync(q, q + (2ull << 30), 2ull << 30, cudaMemcpyDeviceToDevice, s)); });
  char* v = (char*)(base + kChunk);
  fill((float*)v, 1 << 30, 7), fill((float*)q, 1 << 30, 8);
  CK(cudaDeviceSynchronize());
  t1 = timeit(s, 2, 9, [&] { CK(cudaMemcpyAsync(q, q + (2ull << 30), 2ull << 30, cudaMemcpyDeviceToDevice, s)); });
  auto t2 = timeit(s, 2, 9, [&] { CK(cudaMemcpyAsync(v, v + (2ull << 30), 2ull << 30, cudaMemcpyDeviceToDevice, s)); });
  out("copy 2 GiB: cudaMalloc %.3f ms (%.2f TB/s), mapped range %.3f ms (%.2f TB/s)\n", t1.med, 4.294967 / t1.med,
      t2.med, 4.294967 / t2.med);
  out("ROW1 done\n");
  _exit(0);
}
