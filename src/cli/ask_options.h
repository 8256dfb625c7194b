// The options of a request, made from the table of fields.
#pragma once
#include <CLI/App.hpp>
#include <map>
#include <string>

#include "config/request.h"

namespace zoetrope::cli {

// Keeps what was typed until ask() turns it into a request; must outlive the parse.
class AskOptions {
 public:
  void add(CLI::App& command);
  Ask ask() const;  // Error names the option

 private:
  std::map<std::string, std::string> typed_;  // field -> text
  std::map<std::string, CLI::Option*> options_;
  std::string size_;
};

}  // namespace zoetrope::cli
