#include "cli/ask_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"
#include "config/fields.h"

namespace zoetrope::cli {
namespace {

void set_size(Ask& ask, const std::string& size) {
  require(!ask.width && !ask.height, "size: --size excludes --width and --height; give one or the other");
  const size_t x = size.find_first_of("xX");
  require(x != std::string::npos && x > 0 && x + 1 < size.size(), "size: \"", size,
          "\" is not WIDTHxHEIGHT, as in 832x480");
  about("size", [&] {
    set(ask, request_field("width"), size.substr(0, x));
    set(ask, request_field("height"), size.substr(x + 1));
  });
}

}  // namespace

void AskOptions::add(CLI::App& command, std::initializer_list<std::string_view> only) {
  command.add_option("--size", size_, "width and height in one, such as 832x480")->type_name("WxH");
  for (const Field& field : request_fields()) {
    if (only.size() > 0 && std::ranges::find(only, field.name) == only.end()) continue;
    std::string option = cat("--", field.name);
    std::ranges::replace(option, '_', '-');
    std::string values = field.choices ? field.choices : "";
    if (values.empty()) values = std::holds_alternative<Field::Member<std::string>>(field.slot) ? "TEXT" : "N";
    options_[field.name] = command.add_option(option, typed_[field.name], field.meaning)->type_name(values);
  }
}

Ask AskOptions::ask() const {
  Ask ask;
  for (const auto& [name, option] : options_)
    if (option->count() > 0) set(ask, request_field(name), typed_.at(name));
  if (!size_.empty()) set_size(ask, size_);
  return ask;
}

}  // namespace zoetrope::cli
