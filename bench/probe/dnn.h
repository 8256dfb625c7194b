// cuDNN graphs for the probes, kept out of nvcc's sight: the frontend's headers take minutes there.
#pragma once
#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "probe.h"
#define CDNN(x)                                                                       \
  do {                                                                                \
    auto e_ = (x);                                                                    \
    if (e_ != CUDNN_STATUS_SUCCESS) {                                                 \
      printf("FAIL %s:%d %s: %s\n", __FILE__, __LINE__, #x, cudnnGetErrorString(e_)); \
      fflush(stdout);                                                                 \
      _exit(3);                                                                       \
    }                                                                                 \
  } while (0)

struct Sdpa {
  std::shared_ptr<void> g;
  int64_t ws = 0, plans = 0;
  std::string name;
  double t_graph = 0, t_heur = 0, t_build = 0;  // ms
  bool ok = false;
  int plan = -1;  // -1: the heuristic's choice
  // rq/rkv/ro: elements from one token to the next; heads lie D apart.
  Sdpa(cudnnHandle_t h, int64_t N, int64_t D, int64_t Sq, int64_t Skv, int64_t rq, int64_t rkv, int64_t ro, bool lse,
       bool pad = false, bool quiet = false, int plan = -1);
  void run(cudnnHandle_t h, const bf16* q, const bf16* k, const bf16* v, bf16* o, float* lse, void* w,
           int* lq = nullptr, int* lk = nullptr);
};

struct Shape {
  const char* n;
  int64_t T, H, W, I, O;
};
// x [T+2, H, W, I] (causal padding stands in x), w [O,3,3,3,I], y [T,H,W,O]; pads 1 in H unless the slab brings its
// halo.
struct Conv {
  std::shared_ptr<void> g;
  int64_t n = 0;
  std::string error;
  Conv(cudnnHandle_t h, const Shape& s, bool halo_h);
  bool build(cudnnHandle_t h, int64_t i);
  int64_t workspace(int64_t i);
  std::string name(int64_t i);
  bool run(cudnnHandle_t h, int64_t i, const bf16* x, const bf16* w, bf16* y, void* ws);
};
