// The store against friends, strangers and vandals; what launchers say.
#include "comm/store.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <random>
#include <thread>

#include "base/error.h"
#include "support/words.h"

namespace zoetrope {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct StoreTest : testing::Test {
  StoreTest() {
    launch.world = 3, launch.host = "127.0.0.1", launch.token = "open sesame";
    server = std::make_unique<StoreServer>(launch);
    launch.port = server->port();
  }
  Launch as(int rank) const {
    Launch other = launch;
    other.rank = rank;
    return other;
  }
  std::string refusal(const Launch& other) const {
    const std::string text = words([&] { Store store(other, in(2)); });
    return text.substr(std::min(text.size(), cat("store at 127.0.0.1:", launch.port, ": ").size()));
  }
  static Deadline in(int s) { return Deadline::in(seconds(s)); }

  Launch launch;
  std::unique_ptr<StoreServer> server;
};

TEST_F(StoreTest, HandsValuesFromRankToRank) {
  Store a(as(0), in(2)), b(as(1), in(2));
  a.set("x", std::string(Store::most_value, 'v'), in(2));
  EXPECT_EQ(b.get("x", in(2)), std::string(Store::most_value, 'v'));
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(50));
    a.set("y", "", in(2));
  });
  EXPECT_EQ(b.get("y", in(2)), "");
  late.join();
  EXPECT_EQ(b.get("never", Deadline::in(milliseconds(50))), std::nullopt);
}

TEST_F(StoreTest, RefusesWhoDoesNotBelong) {
  Launch other = as(1);
  other.token = "open barley";
  EXPECT_EQ(refusal(other), "refused: the token is not that of rank 0");
  other = as(1), other.world = 4;
  EXPECT_EQ(refusal(other), "refused: rank 1 was started for 4 ranks, rank 0 for 3");
  EXPECT_EQ(refusal(as(3)), "refused: there is no rank 3 among 3");
  Store first(as(1), in(2));
  EXPECT_EQ(refusal(as(1)), "refused: there are two of rank 1");
  EXPECT_EQ(words([&] { first.set(std::string(300, 'k'), "", in(2)); }).substr(0, 17), "store: key kkkkkk");
}

TEST_F(StoreTest, OutlivesVandals) {
  std::mt19937 engine(7);
  std::vector<Fd> held;
  for (int i = 0; i < 200; ++i) {
    Fd fd = connect_to(launch.host, launch.port, in(2));
    std::string noise(engine() % 300, ' ');
    for (char& c : noise) c = static_cast<char>(engine());
    if (i % 4 == 0) noise = std::string("\xFF\xFF\xFF\x7F", 4);                     // 2 GiB follow
    if (i % 4 == 1) noise = std::string("\x08\0\0\0\xFF\xFF\xFF\xFF\0\0\0\0", 12);  // a field longer than its frame
    send_some(fd, noise.data(), noise.size());
    if (i % 20 == 0) held.push_back(std::move(fd));  // and says nothing more
  }
  Store a(as(0), in(10)), b(as(1), in(10));
  a.set("x", "1", in(2));
  EXPECT_EQ(b.get("x", in(2)), "1");
}

TEST_F(StoreTest, DropsAStrangerWhoSaysNothing) {
  const Fd fd = connect_to(launch.host, launch.port, in(2));
  EXPECT_TRUE(wait_for(fd, POLLIN, in(8)));
  char byte;
  EXPECT_EQ(receive_some(fd, &byte, 1), -1);
}

TEST(Store, SaysWhoIsNotThere) {
  Launch launch;
  launch.world = 2, launch.rank = 1, launch.host = "127.0.0.1", launch.port = port_of(listen_at("127.0.0.1", 0));
  EXPECT_EQ(words([&] { Store store(launch, Deadline::in(milliseconds(100))); }),
            cat("nobody listens at 127.0.0.1:", launch.port));
}

TEST(Frames, AreReadByTheirLengths) {
  EXPECT_EQ(unpack(pack({"a", "", "ccc"}), 3), (std::vector<std::string>{"a", "", "ccc"}));
  for (const std::string& bad : {std::string(), std::string("\x05\0\0\0ab", 6), pack({"a"}), pack({"a", "b", "c"}),
                                 std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8)})
    EXPECT_EQ(words([&] { unpack(bad, 2); }), "connection: a frame that is not ours");
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_TRUE(same_secret("", ""));
  for (const char* other : {"abd", "ab", "abcd", "", "abcabc"}) EXPECT_FALSE(same_secret("abc", other));
}

TEST(Launch, ReadsEveryLauncher) {
  EXPECT_EQ(read_launch({}), std::nullopt);
  EXPECT_EQ(read_launch({{"SLURM_NTASKS", "4"}}), std::nullopt);  // a shell of salloc

  const auto torch = read_launch({{"RANK", "3"},
                                  {"WORLD_SIZE", "8"},
                                  {"LOCAL_RANK", "1"},
                                  {"MASTER_ADDR", "10.0.0.1"},
                                  {"MASTER_PORT", "1234"},
                                  {"ZOETROPE_TOKEN", "t"}});
  EXPECT_EQ(torch->by, Launch::By::variables);
  EXPECT_EQ(torch->rank, 3);
  EXPECT_EQ(torch->world, 8);
  EXPECT_EQ(torch->local_rank, 1);
  EXPECT_EQ(torch->host, "10.0.0.1");
  EXPECT_EQ(torch->port, 1234);
  EXPECT_EQ(torch->token, "t");

  const auto slurm = read_launch({{"SLURM_PROCID", "5"},
                                  {"SLURM_NTASKS", "8"},
                                  {"SLURM_LOCALID", "1"},
                                  {"SLURM_JOB_NODELIST", "gpu[07-08]"},
                                  {"SLURM_JOB_ID", "12001"},
                                  {"ZOETROPE_TOKEN", "t"}});
  EXPECT_EQ(slurm->by, Launch::By::slurm);
  EXPECT_EQ(slurm->rank, 5);
  EXPECT_EQ(slurm->local_rank, 1);
  EXPECT_EQ(slurm->host, "gpu07");
  EXPECT_EQ(slurm->port, 20001);

  const auto mpi = read_launch({{"OMPI_COMM_WORLD_RANK", "1"},
                                {"OMPI_COMM_WORLD_SIZE", "4"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                {"SLURM_PROCID", "0"},
                                {"SLURM_NTASKS", "2"}});
  EXPECT_EQ(mpi->by, Launch::By::mpirun);
  EXPECT_EQ(mpi->rank, 1);
  EXPECT_EQ(mpi->host, "127.0.0.1");
}

TEST(Launch, RefusesWhatCannotBeByItsWords) {
  const auto why = [](const Facts& facts) { return words([&] { read_launch(facts); }); };
  EXPECT_EQ(why({{"RANK", "0"}}), "RANK is set but WORLD_SIZE is not: a launcher sets both, or unset it");
  EXPECT_EQ(why({{"WORLD_SIZE", "2"}}), "WORLD_SIZE is set but RANK is not: a launcher sets both, or unset it");
  EXPECT_EQ(why({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), "RANK=2: a number from 0 to 1 is needed");
  EXPECT_EQ(why({{"RANK", "1x"}, {"WORLD_SIZE", "2"}}), "RANK=1x: a number from 0 to 1 is needed");
  EXPECT_EQ(why({{"RANK", ""}, {"WORLD_SIZE", "2"}}), "RANK=: a number from 0 to 1 is needed");
  EXPECT_EQ(why({{"RANK", "0"}, {"WORLD_SIZE", "99999999999"}}),
            "WORLD_SIZE=99999999999: a number from 1 to 65536 is needed");
  EXPECT_EQ(why({{"RANK", "1"}, {"WORLD_SIZE", "2"}}),
            "MASTER_ADDR is not set: rank 1 of 2 does not know where rank 0 listens");
  EXPECT_EQ(why({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}),
            "RANK=1 of 2 but SLURM_PROCID=0 of 2: two launchers disagree; unset the variables of one");
  EXPECT_EQ(why({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h1"}, {"MASTER_PORT", "70000"}}),
            "MASTER_PORT=70000: a number from 1 to 65535 is needed");
  EXPECT_EQ(
      why({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h1"}, {"MASTER_PORT", "99"}}),
      "ZOETROPE_TOKEN is not set: anybody could join the 2 ranks at h1:99; give all ranks one secret, e.g. export "
      "ZOETROPE_TOKEN=$(openssl rand -hex 16)");
}

TEST(Launch, StartsMpiUnderMpirunAlone) {
  EXPECT_TRUE(may_start_mpi({{"OMPI_COMM_WORLD_RANK", "0"}, {"SLURM_PROCID", "0"}}));
  EXPECT_FALSE(may_start_mpi({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}));
  EXPECT_FALSE(may_start_mpi({}));
}

TEST(Launch, FindsTheFirstHost) {
  for (const auto& [list, host] : {std::pair("n1", "n1"),
                                   {"n1,n2", "n1"},
                                   {"gpu[003-010,12],login1", "gpu003"},
                                   {"r[1-2]n[3,5]-ib", "r1n3-ib"},
                                   {"a.b.c,d", "a.b.c"}})
    EXPECT_EQ(first_host(list), host);
  for (const char* bad : {"", ",n2", "n[1-2", "n;rm -rf", "n 1", "[]"})
    EXPECT_NE(words([&] { first_host(bad); }).find("SLURM_JOB_NODELIST="), std::string::npos) << bad;
}

}  // namespace
}  // namespace zoetrope
