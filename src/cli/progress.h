// Progress on stderr: a bar with the time left on a terminal, a line a step otherwise.
#pragma once
#include <string>

#include "pipeline/hooks.h"

namespace zoetrope::cli {

class ProgressPrinter {
 public:
  ProgressPrinter(bool quiet, bool terminal) : quiet_(quiet), terminal_(terminal) {}
  ~ProgressPrinter() { close_line(); }

  void operator()(const Progress& now);
  void close_line();  // before anything else is written

 private:
  bool quiet_, terminal_;
  bool open_ = false;  // a bar stands on the current line
  Stage stage_ = Stage::load;
};

std::string bar(const Progress& now, int width);  // "denoise  [#####-----] 4/8  12.0 s, 12.0 s left"
std::string progress_line(const Progress& now);   // "denoise 4/8, 12.0 s, 12.0 s left"

}  // namespace zoetrope::cli
