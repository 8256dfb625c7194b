#include "cli/type_options.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "engine/engine.h"

namespace zoetrope::cli {

TypeOptions::TypeOptions() : dtype_(name(EngineConfig{}.dtype)) {}

void TypeOptions::add(CLI::App& command) {
  command.add_option("--dtype", dtype_, "type of weights and matrix products")
      ->type_name("fp32|bf16")
      ->capture_default_str();
  command.add_option("--vae-dtype", vae_dtype_, "the same for the VAE; default: as --dtype")->type_name("fp32|bf16");
}

DeviceKind parse_device(const std::string& text) {
  if (text == "cpu") return DeviceKind::cpu;
  if (text == "cuda") return DeviceKind::cuda;
  fail(Code::invalid, "device \"", text, "\" is not known; use cpu or cuda");
}

DType TypeOptions::dtype() const { return parse_dtype(dtype_); }

DType TypeOptions::vae_dtype() const { return vae_dtype_.empty() ? dtype() : parse_dtype(vae_dtype_); }

}  // namespace zoetrope::cli
