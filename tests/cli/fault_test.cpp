// A fault of the device in the middle of a job: exit status 4, one line, no file, and the next process is not harmed.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/json.h"
#include "cli/command.h"
#include "cli/edge.h"
#include "cli/program.h"

namespace zoetrope {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The program, with a rank whose device fails at a named place. In a process of its own, which ends as the program
// does.
TEST(Child, DISABLED_MeetsAFaultOfTheDevice) {
  Words words = Words{"zoetrope"} + generate(variable("FAULT_MODEL"), variable("FAULT_OUT")) +
                Words{"--quiet", "--ranks", variable("FAULT_RANKS")};
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  const int count = static_cast<int>(pointers.size());
  cli::World world = cli::World::from_environment(count, pointers.data());
  world.program_folder = std::filesystem::path(program_file).parent_path();  // where the encoder lies
  world.prepare = [](EngineConfig& config) {
    config.prepare = [victim = config.ranks - 1, place = variable("FAULT_AT")](Rank& rank, int number) {
      if (number != victim) return;
      rank.tap = [place](Ctx&, std::string_view name, const Tensor&) {
        if (name == place) fail(Code::device, "cuda: an illegal instruction was encountered\n(linear.cpp:1)");
      };
    };
  };
  std::exit(cli::guarded([&] { return cli::run_program(world, count, pointers.data()); }));
}

struct Fault {
  const char *at, *ranks, *out, *said;
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.at << " of " << fault.ranks << ", " << fault.out; }

class DeviceFault : public testing::TestWithParam<Fault> {};

TEST_P(DeviceFault, EndsTheProgramWithOneLineAndNoFile) {
  const TempFolder folder;
  const Ran ran =
      run_program("/proc/self/exe", {"--gtest_filter=Child.*FaultOfTheDevice", "--gtest_also_run_disabled_tests"},
                  {.input = {},
                   .environment = {{"FAULT_MODEL", toy().string()},
                                   {"FAULT_OUT", (folder / GetParam().out).string()},
                                   {"FAULT_AT", GetParam().at},
                                   {"FAULT_RANKS", GetParam().ranks}},
                   .folder = {}});
  EXPECT_EQ(ran.status, 4);
  EXPECT_EQ(ran.err,
            cat("zoetrope: ", GetParam().said, "cuda: an illegal instruction was encountered?(linear.cpp:1)\n"));
  EXPECT_EQ(folder.count(), 0u);
  if (std::string(GetParam().out) != "x.mp4") return;
  std::string hashes[2];
  for (std::string& hash : hashes) {
    EXPECT_EQ(zoetrope(generate(toy().string(), (folder / "y.safetensors").string()) +
                       Words{"--report", (folder / "r.json").string()})
                  .status,
              0);
    hash = read_json(folder / "r.json").at("output").at("sha256_frames");
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

INSTANTIATE_TEST_SUITE_P(Places, DeviceFault,
                         testing::Values(Fault{"block.1", "1", "x.mp4", ""}, Fault{"video.1", "1", "x.mp4", ""},
                                         Fault{"video.1", "1", "frames", ""},
                                         Fault{"video.1", "1", "x.safetensors", ""},
                                         Fault{"block.1", "2", "x.safetensors", "rank 1: "}),
                         [](const auto& info) {
                           std::string name = cat(info.param.at, "_", info.param.ranks, "_", info.param.out);
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace zoetrope
