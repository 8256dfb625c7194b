// Communicators: the ranks of one mesh axis and the verbs between them.
//
// A verb checks its arguments, takes its result from c.scratch() unless the caller passes one, counts itself and issues
// its work on c's stream; buffers must live until that work is done. All ranks of a communicator issue the same verbs
// with equal shapes in the same order, on streams that run in that order; ranks that disagree all get
// Error(comm) with both calls named, before any data moves. At size 1 a verb returns its input and issues nothing.
//
// P ranks, |x| bytes of this rank's x. `bytes` counts what crosses this rank's wire in its busier direction when every
// pair of ranks has a wire of its own: docs/parallelism.md has steps and bytes of each verb.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/call.h"
#include "core/ctx.h"

namespace zoetrope {

// One issued collective, for tests and the planner.
struct Record {
  Verb verb;
  std::string axis;
  int64_t bytes;
  Shape shape;  // of x; exchange: of what goes to the next rank, or to the previous where nothing goes to the next

  friend bool operator==(const Record&, const Record&) = default;
};

struct Traffic {
  int64_t calls = 0, bytes = 0;
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

// What all communicators of one rank share; owned by the transport's world.
struct Session {
  Waits waits;
  std::vector<Record>* log = nullptr;  // each collective in the order of issue, if wanted
};

// Why a group was aborted. `rank` is a world rank, or -1 where the text names those concerned.
struct Cause {
  int rank = -1;
  Code code = Code::comm;
  std::string text;

  std::string words() const;  // "rank 3: out of scratch"; the text alone without a rank, or where it was cancelled
};

Cause current_cause(int rank);  // of the exception being handled

class Comm {
 public:
  virtual ~Comm() = default;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  const std::string& axis() const { return axis_; }
  const std::vector<int>& members() const { return members_; }  // world ranks, by rank of this communicator
  int world_rank() const { return members_[static_cast<size_t>(rank_)]; }

  // x[P*n, ...] -> [P*n, ...]: rows [p*n, (p+1)*n) go to rank p; those of the result came from rank p.
  // User: Ulysses, and the outputs of Attention2D.
  Tensor all_to_all(Ctx& c, const Tensor& x, const Tensor& out = {});

  // x[n, ...] -> [P*n, ...] in rank order. x may be the rank's own rows of `out`. User: Attention2D, guidance, VAE.
  Tensor all_gather(Ctx& c, const Tensor& x, const Tensor& out = {});

  // x, fp32, in place: the sum over ranks 0, 1, .. P-1 in that order, so the bits depend on nothing else. User: TP,
  // norms over split channels, and agreement (a sum of flags or of non-finite counts: hence no max).
  Tensor all_reduce(Ctx& c, const Tensor& x);

  // send.prev goes to the rank before, send.next to the one after; the result holds what came from there, and is
  // undefined where nothing did. An undefined side sends nothing, on all ranks alike. User: ring, VAE halos.
  Sides exchange(Ctx& c, const Sides& send, Ends ends, const Sides& out = {});

  // x[n, ...] -> [P*n, ...] on the root, undefined elsewhere. User: frames to rank 0.
  Tensor gather(Ctx& c, const Tensor& x, int root, const Tensor& out = {});

  void broadcast(Ctx& c, const Tensor& x, int root);  // in place. User: requests, embeddings
  void barrier(Ctx& c);                               // returns after all have issued it. User: deferred exchange slots

  // Collective over this communicator, on the host: each rank names the group it is in (ranks of this communicator,
  // ascending), or none and gets nullptr. The result must not outlive this one's world.
  virtual std::unique_ptr<Comm> split(const std::string& axis, const std::vector<int>& group) = 0;

  // Frees all ranks of the world from their waits; the first cause counts, each gets Error(comm) with its words.
  virtual void abort(const Cause& cause) noexcept = 0;

  virtual bool capturable() const = 0;  // may be issued while a graph is being captured

  Session& session() const { return *session_; }
  Waits& waits() const { return session_->waits; }
  const Traffic& traffic(Verb verb) const { return traffic_[static_cast<size_t>(verb)]; }
  void reset_traffic() { traffic_ = {}; }

 protected:
  Comm(std::string axis, int rank, std::vector<int> members, Session& session);

  // Runs on the stream's thread, in the order of issue; on a device the stream's earlier work may still be under way.
  // The front has checked the call against this rank's own buffers.
  virtual void carry_out(Stream& stream, const Call& call) = 0;

  std::vector<int> world_ranks(const std::vector<int>& group) const;  // checks a group handed to split
  int64_t issued_ = 0;                                                // number of the last call

 private:
  void issue(Ctx& c, Call call);

  std::string axis_;
  int rank_;
  std::vector<int> members_;
  Session* session_;
  std::array<Traffic, verb_count> traffic_{};
};

// A communicator of one rank: axes of degree 1 need no transport.
std::unique_ptr<Comm> solo(std::string axis, int world_rank, Session& session);

}  // namespace zoetrope
