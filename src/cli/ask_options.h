// The options of a request, made from the table of fields.
#pragma once
#include <CLI/App.hpp>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "config/request.h"

namespace zoetrope::cli {

// Keeps what was typed until ask() turns it into a request; must outlive the parse.
class AskOptions {
 public:
  // Of all fields, or of those that are named.
  void add(CLI::App& command, std::initializer_list<std::string_view> only = {});
  Ask ask() const;  // Error names the option

 private:
  std::map<std::string, std::string> typed_;  // field -> text
  std::map<std::string, CLI::Option*> options_;
  std::string size_;
};

}  // namespace zoetrope::cli
