#include "cli/progress.h"

#include <cstdio>

namespace zoetrope::cli {
namespace {

std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", value);
  return text;
}

std::string times(const Progress& now) {
  std::string text = seconds(now.seconds);
  if (now.done > 0 && now.done < now.total)
    text += ", " + seconds(now.seconds / now.done * (now.total - now.done)) + " left";
  return text;
}

}  // namespace

std::string bar(const Progress& now, int width) {
  char head[32];
  std::snprintf(head, sizeof head, "%-12s", name(now.stage));
  if (now.total == 0) return std::string(head) + "...";
  const int full = static_cast<int>(static_cast<int64_t>(width) * now.done / now.total);
  const std::string filled(static_cast<size_t>(full), '#'), rest(static_cast<size_t>(width - full), '-');
  return std::string(head) + "[" + filled + rest + "] " + std::to_string(now.done) + "/" + std::to_string(now.total) +
         "  " + times(now);
}

std::string progress_line(const Progress& now) {
  std::string text = name(now.stage);
  if (now.total == 0) return text + " ...";
  return text + " " + std::to_string(now.done) + "/" + std::to_string(now.total) + ", " + times(now);
}

void ProgressPrinter::operator()(const Progress& now) {
  if (quiet_) return;
  if (!now.note.empty()) {
    close_line();
    std::fprintf(stderr, "%s\n", now.note.c_str());
    return;
  }
  if (!terminal_) {
    std::fprintf(stderr, "%s\n", progress_line(now).c_str());
    return;
  }
  if (open_ && now.stage != stage_) close_line();
  std::fprintf(stderr, "\r\033[K%s", bar(now, 30).c_str());
  std::fflush(stderr);
  stage_ = now.stage;
  open_ = true;
}

void ProgressPrinter::close_line() {
  if (open_) std::fputc('\n', stderr);
  open_ = false;
}

}  // namespace zoetrope::cli
