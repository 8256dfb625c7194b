#include "comm/launch.h"

#include <charconv>

#include "base/error.h"

namespace zoetrope {
namespace {

constexpr uint16_t default_port = 29500;

std::string text(const Facts& facts, const char* key) {
  const auto found = facts.find(key);
  return found == facts.end() ? "" : found->second;
}

int number(const Facts& facts, const char* key, int least, int most) {
  const std::string value = text(facts, key);
  int parsed = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  require(error == std::errc() && end == value.data() + value.size() && parsed >= least && parsed <= most, key, "=",
          value.substr(0, 32), ": a number from ", least, " to ", most, " is needed");
  return parsed;
}

// The three variables of one kind of launcher.
struct Names {
  Launch::By by;
  const char *rank, *world, *local;
};
constexpr Names variables{Launch::By::variables, "RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr Names mpirun{Launch::By::mpirun, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                       "OMPI_COMM_WORLD_LOCAL_RANK"};
constexpr Names slurm{Launch::By::slurm, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"};

std::optional<Launch> read(const Facts& facts, const Names& names) {
  const bool has_rank = facts.contains(names.rank), has_world = facts.contains(names.world);
  // salloc sets SLURM_NTASKS in a shell that is no task.
  if (!has_rank && (!has_world || names.by == Launch::By::slurm)) return std::nullopt;
  require(has_rank && has_world, has_rank ? names.rank : names.world, " is set but ",
          has_rank ? names.world : names.rank, " is not: a launcher sets both, or unset it");
  Launch launch;
  launch.by = names.by;
  launch.world = number(facts, names.world, 1, 65536);
  launch.rank = number(facts, names.rank, 0, launch.world - 1);
  launch.local_rank = facts.contains(names.local) ? number(facts, names.local, 0, launch.world - 1) : launch.rank;
  return launch;
}

void refuse_conflict(const std::optional<Launch>& a, const Names& names_a, const std::optional<Launch>& b,
                     const Names& names_b) {
  if (!a || !b || (a->rank == b->rank && a->world == b->world)) return;
  fail(Code::invalid, names_a.rank, "=", a->rank, " of ", a->world, " but ", names_b.rank, "=", b->rank, " of ",
       b->world, ": two launchers disagree; unset the variables of one");
}

bool loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

uint16_t port_of(const Facts& facts) {
  if (facts.contains("MASTER_PORT")) return static_cast<uint16_t>(number(facts, "MASTER_PORT", 1, 65535));
  if (!facts.contains("SLURM_JOB_ID")) return default_port;
  return static_cast<uint16_t>(20000 + number(facts, "SLURM_JOB_ID", 0, INT32_MAX) % 12000);
}

void find_rank_0(const Facts& facts, Launch& launch) {
  launch.host = text(facts, "MASTER_ADDR");
  const std::string nodes = text(facts, "SLURM_JOB_NODELIST");
  if (launch.host.empty() && launch.by != Launch::By::variables && !nodes.empty()) launch.host = first_host(nodes);
  if (launch.host.empty() && launch.by == Launch::By::mpirun) launch.host = "127.0.0.1";
  require(!launch.host.empty(), "MASTER_ADDR is not set: rank ", launch.rank, " of ", launch.world,
          " does not know where rank 0 listens");
  launch.port = port_of(facts);
}

}  // namespace

std::optional<Launch> read_launch(const Facts& facts) {
  const auto by_variables = read(facts, variables), by_mpirun = read(facts, mpirun);
  const auto by_slurm = by_mpirun ? std::nullopt : read(facts, slurm);
  refuse_conflict(by_variables, variables, by_mpirun, mpirun);
  refuse_conflict(by_variables, variables, by_slurm, slurm);
  std::optional<Launch> launch = by_variables ? by_variables : by_mpirun ? by_mpirun : by_slurm;
  if (!launch) return launch;
  launch->token = text(facts, "ZOETROPE_TOKEN");
  if (launch->world == 1) return launch;
  find_rank_0(facts, *launch);
  require(!launch->token.empty() || loopback(launch->host), "ZOETROPE_TOKEN is not set: anybody could join the ",
          launch->world, " ranks at ", launch->host, ":", launch->port,
          "; give all ranks one secret, e.g. export ZOETROPE_TOKEN=$(openssl rand -hex 16)");
  return launch;
}

std::string first_host(std::string_view list) {
  std::string host;
  for (size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const size_t close = list.find(']', i);
    require(close != std::string_view::npos, "SLURM_JOB_NODELIST=", list.substr(0, 64), ": a bracket stays open");
    const std::string_view inside = list.substr(i + 1, close - i - 1);
    host += inside.substr(0, inside.find_first_of(",-"));
    i = close;
  }
  const bool fine = !host.empty() && host.find_first_not_of(
                                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                         "0123456789.-_") == std::string::npos;
  require(fine, "SLURM_JOB_NODELIST=", list.substr(0, 64), ": no host name can be read from it");
  return host;
}

bool may_start_mpi(const Facts& facts) { return facts.contains(mpirun.rank); }

}  // namespace zoetrope
