// Two ranks for the probes, as processes or threads: shared page, barrier, NCCL ids.
#pragma once
#include <nccl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "probe.h"
#define NC(x)                                                                                                        \
  do {                                                                                                               \
    ncclResult_t e_ = (x);                                                                                           \
    if (e_ != ncclSuccess) {                                                                                         \
      printf("FAIL %s:%d %s: %s (%s)\n", __FILE__, __LINE__, #x, ncclGetErrorString(e_), ncclGetLastError(nullptr)); \
      fflush(stdout);                                                                                                \
      _exit(3);                                                                                                      \
    }                                                                                                                \
  } while (0)

struct Shared {
  std::atomic<int> count, phase;
  std::atomic<long> flag[16];
  ncclUniqueId id[16];
  double value[16];
};
inline Shared* shared_page() {
  void* p = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (p) Shared();
}
inline void barrier(Shared* s) {
  int ph = s->phase.load();
  if (s->count.fetch_add(1) == 1) {
    s->count = 0;
    s->phase = ph + 1;
  } else
    while (s->phase.load() == ph) usleep(20);
}
inline ncclComm_t make_comm(Shared* s, int rank, int slot, int policy) {
  barrier(s);
  if (rank == 0) NC(ncclGetUniqueId(&s->id[slot]));
  barrier(s);
  ncclConfig_t c = NCCL_CONFIG_INITIALIZER;
  c.CTAPolicy = policy;
  ncclComm_t comm;
  NC(ncclCommInitRankConfig(&comm, 2, s->id[slot], rank, &c));
  return comm;
}
inline std::string nodes(cudaGraph_t g) {
  size_t n = 0;
  CK(cudaGraphGetNodes(g, nullptr, &n));
  std::vector<cudaGraphNode_t> v(n);
  CK(cudaGraphGetNodes(g, v.data(), &n));
  int k = 0, m = 0, b = 0, h = 0, o = 0;
  for (auto x : v) {
    cudaGraphNodeType t;
    if (cudaGraphNodeGetType(x, &t) != cudaSuccess) {
      (void)cudaGetLastError();
      ++b;  // batch memory operations have no runtime name in some versions
      continue;
    }
    if (t == cudaGraphNodeTypeKernel)
      ++k;
    else if (t == cudaGraphNodeTypeMemcpy)
      ++m;
    else if (t == cudaGraphNodeTypeHost)
      ++h;
    else if ((int)t == 12)
      ++b;
    else
      ++o;
  }
  char s[128];
  snprintf(s, sizeof s, "%d kernels, %d copies, %d mem-op, %d host, %d other", k, m, b, h, o);
  return s;
}
