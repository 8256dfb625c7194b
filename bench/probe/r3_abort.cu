// Row 3: a peer that never arrives. r3_abort ce|kernel eager|graph COMMS abort|threads|revoke REPS
#include "pair.h"

constexpr size_t kPer = 4 << 20;

__global__ void touch_k(int* p) { p[threadIdx.x] = threadIdx.x + 7; }

static bool context_ok(char* why, size_t n) {
  int *p, v[32];
  cudaError_t e = cudaGetLastError();
  if (e == cudaSuccess) e = cudaMalloc(&p, 128);
  if (e == cudaSuccess) {
    cudaStream_t s;
    e = cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    if (e == cudaSuccess) {
      touch_k<<<1, 32, 0, s>>>(p);
      e = cudaStreamSynchronize(s);
      if (e == cudaSuccess) e = cudaMemcpyAsync(v, p, 128, cudaMemcpyDeviceToHost, s);
      if (e == cudaSuccess) e = cudaStreamSynchronize(s);
      cudaStreamDestroy(s);
    }
    cudaFree(p);
  }
  snprintf(why, n, "%s", e == cudaSuccess && v[31] == 38 ? "ok" : cudaGetErrorString(e));
  return e == cudaSuccess;
}

int main(int, char** argv) {
  const bool ce = !strcmp(argv[1], "ce"), graph = !strcmp(argv[2], "graph");
  const int n = atoi(argv[3]), reps = atoi(argv[5]);
  const std::string how = argv[4];
  char tag[80];
  snprintf(tag, sizeof tag, "%s %s comms %d %s", argv[1], argv[2], n, argv[4]);
  Shared* sh = shared_page();
  pid_t pid[2];
  for (int rank = 0; rank < 2; ++rank)
    if ((pid[rank] = fork()) == 0) {
      alarm(25);
      CK(cudaSetDevice(rank));
      CK(cudaFree(0));
      void *s, *r;
      NC(ncclMemAlloc(&s, 4 * 2 * kPer));
      NC(ncclMemAlloc(&r, 4 * 2 * kPer));
      std::vector<cudaStream_t> st(n);
      for (auto& x : st) CK(cudaStreamCreateWithFlags(&x, cudaStreamNonBlocking));
      std::vector<double> ta, ts;
      double init = 0, peer_abort = 0;
      int alive = 0;
      for (int rep = 0; rep < reps; ++rep) {
        double i0 = now();
        std::vector<ncclComm_t> c(n);
        std::vector<cudaGraphExec_t> ge(n);
        for (int i = 0; i < n; ++i) c[i] = make_comm(sh, rank, i, ce ? NCCL_CTA_POLICY_ZERO : NCCL_CTA_POLICY_DEFAULT);
        init += now() - i0;
        ncclWindow_t w;
        for (int i = 0; i < n && ce; ++i) {
          NC(ncclCommWindowRegister(c[i], s, 8 * kPer, &w, NCCL_WIN_COLL_SYMMETRIC));
          NC(ncclCommWindowRegister(c[i], r, 8 * kPer, &w, NCCL_WIN_COLL_SYMMETRIC));
        }
        auto go = [&](int i) {
          NC(ncclAlltoAll((char*)s + i * 2 * kPer, (char*)r + i * 2 * kPer, kPer, ncclInt8, c[i], st[i]));
        };
        for (int i = 0; i < n; ++i) go(i);
        for (auto& x : st) CK(cudaStreamSynchronize(x));
        if (graph)
          for (int i = 0; i < n; ++i) {
            cudaGraph_t g;
            CK(cudaStreamBeginCapture(st[i], cudaStreamCaptureModeThreadLocal));
            go(i);
            CK(cudaStreamEndCapture(st[i], &g));
            if (rep == 0 && i == 0 && rank == 0) out("  %s: %s\n", tag, nodes(g).c_str());
            CK(cudaGraphInstantiate(&ge[i], g, 0));
            CK(cudaGraphDestroy(g));
          }
        barrier(sh);
        if (rank == 0) {
          for (int i = 0; i < n; ++i) {
            if (graph)
              CK(cudaGraphLaunch(ge[i], st[i]));
            else
              go(i);
          }
          usleep(100000);
          int busy = 0;
          for (auto& x : st) busy += cudaStreamQuery(x) == cudaErrorNotReady;
          if (busy != n) out("  %s: only %d of %d streams were stuck\n", tag, busy, n);
          std::atomic<int> back{0};
          double a = now();
          std::thread work([&] {
            auto one = [&](int i) {
              if (how[0] == 'r') {
                ncclResult_t e = ncclCommRevoke(c[i], NCCL_REVOKE_DEFAULT), as = ncclInProgress;
                if (e != ncclSuccess && e != ncclInProgress) out("  %s: revoke says %s\n", tag, ncclGetErrorString(e));
                while (ncclCommGetAsyncError(c[i], &as) == ncclSuccess && as == ncclInProgress) usleep(50);
              } else {
                ncclResult_t e = ncclCommAbort(c[i]);
                if (e != ncclSuccess) out("  %s: abort says %s\n", tag, ncclGetErrorString(e));
              }
              ++back;
            };
            if (how == "threads" || how == "rthreads") {
              std::vector<std::thread> t;
              for (int i = 0; i < n; ++i) t.emplace_back(one, i);
              for (auto& x : t) x.join();
            } else
              for (int i = 0; i < n; ++i) one(i);
          });
          double limit = 6;
          bool gone = !graph;
          double tf = 0, tg = 0;
          while (back != n && now() - a < limit) {
            usleep(100);
            bool fr = true;
            for (auto& x : st) fr &= cudaStreamQuery(x) != cudaErrorNotReady;
            if (fr && !tf) tf = now() - a;
            if (!fr || gone) continue;
            gone = true;
            for (auto& x : ge) {
              cudaError_t e = cudaGraphExecDestroy(x);
              if (e != cudaSuccess) out("  %s: graph destroy: %s\n", tag, cudaGetErrorString(e));
            }
            tg = now() - a;
          }
          double b = now();
          if (rep == 0)
            out("  %s: streams free after %.1f ms, graphs destroyed after %.1f, all calls back after %.1f\n", tag,
                tf * 1e3, tg * 1e3, (b - a) * 1e3);
          if (back != n) {
            int stuck = 0;
            for (auto& x : st) stuck += cudaStreamQuery(x) == cudaErrorNotReady;
            out("  %s: rep %d: %d of %d came back within %.0f s; streams still stuck %d; leaving by _exit\n", tag, rep,
                (int)back, n, limit, stuck);
            sh->value[0] = now();
            sh->flag[0] = 2;
            _exit(9);
          }
          work.join();
          bool free_ = false;
          double c0 = now();
          while (!free_ && now() - c0 < 6) {
            free_ = true;
            for (auto& x : st) free_ &= cudaStreamQuery(x) != cudaErrorNotReady;
            usleep(50);
          }
          double d = now();
          if (!free_) {
            out("  %s: rep %d: call returned after %.1f ms, streams still stuck 6 s later; leaving by _exit\n", tag,
                rep, (b - a) * 1e3);
            sh->value[0] = now();
            sh->flag[0] = 2;
            _exit(9);
          }
          if (how[0] == 'r')
            for (int i = 0; i < n; ++i) {
              double x0 = now();
              ncclResult_t e = ncclCommDestroy(c[i]);
              if (rep == 0)
                out("  %s: destroy after revoke %s %.1f ms\n", tag, ncclGetErrorString(e), (now() - x0) * 1e3);
            }
          if (graph && !gone)
            for (auto& x : ge) CK(cudaGraphExecDestroy(x));
          char why[128];
          alive += context_ok(why, sizeof why);
          if (strcmp(why, "ok")) out("  %s: rep %d: context: %s\n", tag, rep, why);
          ta.push_back((b - a) * 1e3), ts.push_back((d - a) * 1e3);
          sh->flag[0] = 1;
          barrier(sh);
        } else {
          while (sh->flag[0] == 0) usleep(200);
          if (sh->flag[0] == 2) {
            double x0 = now();
            sh->value[1] = 0;
            if (graph)
              for (auto& x : ge) (void)cudaGraphExecDestroy(x);
            for (auto& x : c) (void)ncclCommAbort(x);
            out("  %s: the peer's own abort after that: %.1f ms\n", tag, (now() - x0) * 1e3);
            _exit(0);
          }
          double x0 = now();
          if (graph)
            for (auto& x : ge) CK(cudaGraphExecDestroy(x));
          std::vector<std::thread> t;
          for (auto& x : c) t.emplace_back([&x] { NC(ncclCommAbort(x)); });
          for (auto& x : t) x.join();
          peer_abort = std::max(peer_abort, (now() - x0) * 1e3);
          sh->flag[0] = 0;
          barrier(sh);
        }
      }
      if (rank == 0) {
        std::sort(ta.begin(), ta.end());
        std::sort(ts.begin(), ts.end());
        out("%-32s %zu of %d: call returns %.1f ms median, %.1f worst; stream free %.1f median, %.1f worst; context "
            "usable %d; init of %d %.0f ms\n",
            tag, ta.size(), reps, ta[ta.size() / 2], ta.back(), ts[ts.size() / 2], ts.back(), alive, n,
            init / reps * 1e3);
      } else
        out("%-32s idle rank's abort at worst %.1f ms\n", tag, peer_abort);
      _exit(0);
    }
  int st[2] = {-1, -1}, left = 2;
  double t0 = now();
  while (left && now() - t0 < 28) {
    for (int i = 0; i < 2; ++i)
      if (st[i] == -1 && waitpid(pid[i], &st[i], WNOHANG) == pid[i]) {
        --left;
        if (i == 0 && sh->flag[0] == 2)
          out("%-32s FAILED; the process was gone %.0f ms after _exit\n", tag, (now() - sh->value[0]) * 1e3);
      }
    if (sh->flag[0] == 2 && now() - sh->value[0] > 8 && st[0] == -1) {
      out("%-32s FAILED; not gone after 8 s, SIGKILL\n", tag);
      kill(pid[0], SIGKILL);
      sh->value[0] = now() + 1e6;
    }
    usleep(500);
  }
  for (int i = 0; i < 2; ++i)
    if (st[i] == -1) kill(pid[i], SIGKILL);
  _exit(0);
}
