// doctor: one line a check, PASS, FIX with what to do, or INFO about what nobody needs.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/units.h"
#include "cli/commands.h"
#include "engine/memory.h"
#include "io/mp4.h"
#include "ops/cpu/backend.h"
#include "ops/cpu/version.h"
#include "ops/cuda/backend.h"
#include "version.h"

namespace zoetrope::cli {
namespace {

struct Check {
  std::string name;
  std::optional<bool> pass;  // none: neither good nor bad
  std::string what;          // what was found, or the command that mends it
};

const char* verdict(const Check& check) {
  if (!check.pass) return "INFO";
  return *check.pass ? "PASS" : "FIX ";
}

Check check_encoder(const World& world) {
  try {
    return {"mp4 encoder", true, check_mp4_helper(find_mp4_helper(world.program_folder, world.path))};
  } catch (const Error& error) {
    return {"mp4 encoder", false, error.what()};
  }
}

Check check_memory_size() {
  const int64_t free = available_memory();
  const bool enough = free >= int64_t{2} << 30;
  return {"memory", enough,
          enough ? human_bytes(free) + " free" : human_bytes(free) + " free; close other programs, toys need 2 GiB"};
}

Check check_cpu() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2");
  return {"cpu", true,
          cat(std::thread::hardware_concurrency(), " threads, ",
              __builtin_cpu_supports("avx512f") ? "AVX-512"
              : avx2                            ? "AVX2"
                                                : "no AVX2 (slow)")};
#else
  return {"cpu", true, cat(std::thread::hardware_concurrency(), " threads")};
#endif
}

Check check_hub(const World& world) {
  const auto folder = world.hub.folder();
  const bool there = !folder.empty() && std::filesystem::is_directory(folder);
  if (!there) return {"hub cache", std::nullopt, "none yet; models are then given as folders"};
  return {"hub cache", true, folder.string()};
}

Check check_cuda() {
  try {
    const CudaFacts gpu = cuda_devices()[0];
    return {"cuda", true,
            cat(gpu.name, ", driver for CUDA ", gpu.driver, ", cuDNN ", gpu.cudnn, ", cuBLAS ", gpu.cublas)};
  } catch (const Error& error) {
    if (error.code() == Code::unsupported) return {"cuda", std::nullopt, "not in this build; --device cpu works"};
    return {"cuda", std::nullopt, error.what()};  // a machine without a GPU needs no mending
  }
}

std::vector<Check> checks(const World& world) {
  return {{"zoetrope", true, ZOETROPE_VERSION " (" ZOETROPE_GIT ")"},
          check_cpu(),
          {"oneDNN", true, onednn_version()},
          check_cuda(),
          check_encoder(world),
          check_memory_size(),
          check_hub(world)};
}

int doctor(const World& world, bool json) {
  bool all = true;
  OrderedJson list = OrderedJson::array();
  for (const Check& check : checks(world)) {
    all = all && check.pass.value_or(true);
    if (json)
      list.push_back({{"check", check.name}, {"pass", check.pass ? Json(*check.pass) : Json()}, {"what", check.what}});
    else
      std::printf("%s  %-12s %s\n", verdict(check), check.name.c_str(), check.what.c_str());
  }
  if (json) std::printf("%s\n", list.dump(2).c_str());
  return all ? 0 : 2;
}

}  // namespace

void add_doctor(CLI::App& app, const World& world, Action& chosen) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("doctor", "check this machine and installation");
  command->add_flag("--json", *json, "print JSON");
  command->callback([json, &world, &chosen] { chosen = [json, &world] { return doctor(world, *json); }; });
}

}  // namespace zoetrope::cli
