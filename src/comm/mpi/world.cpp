#include "comm/mpi/world.h"

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "comm/message.h"

namespace zoetrope {

struct MpiWorld::State {
  Session session;
  std::function<int(Code)> status;
  int rank = 0, size = 1;

  [[noreturn]] void end_job(const Cause& cause) const noexcept {
    const int code = status ? status(cause.code) : 4;
    std::fprintf(stderr, "zoetrope: %s\n", cause.words().c_str());
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }
};

namespace {

constexpr int64_t most_bytes = int64_t{1} << 30;  // counts are int

class MpiComm final : public MessageComm {
 public:
  MpiComm(std::string axis, int rank, std::vector<int> members, MpiWorld::State& state, MPI_Comm comm)
      : MessageComm(std::move(axis), rank, std::move(members), state.session), state_(state), comm_(comm) {}
  ~MpiComm() override {
    if (comm_ != MPI_COMM_WORLD) MPI_Comm_free(&comm_);
  }

  std::unique_ptr<Comm> split(const std::string& axis, const std::vector<int>& group) override;
  void abort(const Cause& cause) noexcept override { state_.end_job(cause); }
  bool capturable() const override { return false; }

 private:
  void transfer(std::span<const Outgoing> out, std::span<const Incoming> in, const Call& call) override;

  MpiWorld::State& state_;
  MPI_Comm comm_;
};

std::unique_ptr<Comm> MpiComm::split(const std::string& axis, const std::vector<int>& group) {
  const std::vector<int> world = world_ranks(group);
  agree({.verb = Verb::split, .number = issued_, .limit = waits().limit(Wait::bootstrap)});
  const auto place = static_cast<int>(std::ranges::find(group, rank()) - group.begin());
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_split(comm_, group.empty() ? MPI_UNDEFINED : group.front(), place, &made);
  if (group.empty()) return nullptr;
  int size = 0;
  MPI_Comm_size(made, &size);
  std::vector<int> came(static_cast<size_t>(size));
  const int me = world_rank();
  MPI_Allgather(&me, 1, MPI_INT, came.data(), 1, MPI_INT, made);
  if (came != world)
    abort({me, Code::comm, cat("axis ", this->axis(), ": split into ", axis, ": the ranks name different groups")});
  return std::make_unique<MpiComm>(axis, place, world, state_, made);
}

// Polls with pauses: MPI_Wait would keep a core busy that the ranks of this host need.
void MpiComm::transfer(std::span<const Outgoing> out, std::span<const Incoming> in, const Call& call) {
  std::vector<MPI_Request> requests;
  std::vector<int> peers;  // world rank of each request
  const auto each_piece = [&](int peer, int64_t bytes, auto&& start) {
    for (int64_t from = 0; from < bytes; from += most_bytes) {
      start(from, static_cast<int>(std::min(most_bytes, bytes - from)), &requests.emplace_back());
      peers.push_back(members()[static_cast<size_t>(peer)]);
    }
  };
  for (const Incoming& m : in)
    each_piece(m.peer, m.bytes, [&](int64_t from, int n, MPI_Request* request) {
      MPI_Irecv(static_cast<std::byte*>(m.data) + from, n, MPI_BYTE, m.peer, 0, comm_, request);
    });
  for (const Outgoing& m : out)
    each_piece(m.peer, m.bytes, [&](int64_t from, int n, MPI_Request* request) {
      MPI_Isend(static_cast<const std::byte*>(m.data) + from, n, MPI_BYTE, m.peer, 0, comm_, request);
    });
  const Deadline deadline = deadline_of(call.limit);
  for (auto pause = std::chrono::microseconds(5);; pause = std::min(2 * pause, std::chrono::microseconds(1000))) {
    int done = 0;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    if (done) return;
    if (deadline.passed()) break;
    std::this_thread::sleep_for(pause);
  }
  std::vector<int> missing;
  for (size_t i = 0; i < requests.size(); ++i) {
    int done = 0;
    MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE);
    if (!done && !std::ranges::count(missing, peers[i])) missing.push_back(peers[i]);
  }
  std::ranges::sort(missing);
  abort({-1, Code::comm, stall(axis(), call, missing)});
}

}  // namespace

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  return std::string(text).substr(0, std::string_view(text).find(','));  // "Open MPI v4.1.4"
}

MpiWorld::MpiWorld(const Facts& facts, const Waits& waits, std::function<int(Code)> status)
    : state_(std::make_unique<State>(State{{waits, nullptr}, std::move(status), 0, 1})) {
  require(may_start_mpi(facts), "mpi: this process was not started by mpirun; start it so, or use --ranks");
  int before = 0, level = 0;
  MPI_Initialized(&before);
  require(!before, "mpi: initialised already, a process has one world");
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &state_->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &state_->size);
  if (level < MPI_THREAD_MULTIPLE) abort({state_->rank, Code::unsupported, "this MPI is not safe for several threads"});
}

MpiWorld::~MpiWorld() { MPI_Finalize(); }

int MpiWorld::rank() const { return state_->rank; }
int MpiWorld::size() const { return state_->size; }
Session& MpiWorld::session(int) { return state_->session; }
void MpiWorld::abort(const Cause& cause) noexcept { state_->end_job(cause); }

std::unique_ptr<Comm> MpiWorld::comm(int) {
  std::vector<int> members(static_cast<size_t>(size()));
  std::iota(members.begin(), members.end(), 0);
  return std::make_unique<MpiComm>("world", rank(), std::move(members), *state_, MPI_COMM_WORLD);
}

}  // namespace zoetrope
