// --dtype and --vae-dtype, with one default for whatever computes and whatever counts; --device.
#pragma once
#include <CLI/App.hpp>
#include <string>

#include "core/dtype.h"
#include "core/traits.h"

namespace zoetrope::cli {

class TypeOptions {
 public:
  TypeOptions();
  void add(CLI::App& command);  // must outlive the parse
  DType dtype() const;
  DType vae_dtype() const;  // as dtype where it is not given

 private:
  std::string dtype_, vae_dtype_;
};

DeviceKind parse_device(const std::string& text);  // of --device

}  // namespace zoetrope::cli
