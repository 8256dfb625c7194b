#include "repo/rules.h"

#include <algorithm>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace zoetrope::repo {
namespace {

std::string join(const std::set<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out.empty() ? "nothing" : out;
}

std::string place(const File& file, size_t line) { return file.path + ":" + std::to_string(line + 1) + ": "; }

// "left  -> a b c" per line of the fenced block of that name; '#' begins a comment.
std::map<std::string, std::set<std::string>> read_block(std::string_view page, const std::string& name) {
  const std::string fence = "```" + name + "\n";
  const size_t begin = page.find(fence);
  if (begin == std::string_view::npos) throw std::runtime_error("no block ```" + name);
  const size_t end = page.find("\n```", begin + fence.size());
  if (end == std::string_view::npos) throw std::runtime_error("block ```" + name + " does not end");
  std::map<std::string, std::set<std::string>> rows;
  for (std::string_view line : lines_of(page.substr(begin + fence.size(), end - begin - fence.size()))) {
    std::istringstream words{std::string(line.substr(0, line.find('#')))};
    std::string left, arrow, word;
    if (!(words >> left)) continue;
    if (!(words >> arrow) || arrow != "->") throw std::runtime_error(name + ": no '->' after '" + left + "'");
    auto [row, fresh] = rows.try_emplace(left);
    if (!fresh) throw std::runtime_error(name + ": '" + left + "' twice");
    while (words >> word) row->second.insert(word);
  }
  return rows;
}

bool starts(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }
bool within(std::string_view path, std::string_view folder) {
  return path == folder || (starts(path, folder) && path.size() > folder.size() && path[folder.size()] == '/');
}

// The layer of a path: the longest row that is a folder of it. "" where none is.
std::string layer_of(const Rules& rules, std::string_view path) {
  if (starts(path, "src/")) path.remove_prefix(4);
  std::string best;
  for (const auto& [layer, allowed] : rules.layers)
    if (within(path, layer) && layer.size() > best.size()) best = layer;
  return best;
}

// A layer that is allowed a library allows it to its sub-layers.
bool may_use(const std::set<std::string>& users, std::string_view layer) {
  return std::any_of(users.begin(), users.end(), [&](const std::string& user) { return within(layer, user); });
}

bool is_system(const std::string& header) {
  static const std::regex standard(
      "[a-z_0-9]+"                        // C++
      "|(sys|linux|netinet|arpa|net)/.*"  // the system
      "|(unistd|fcntl|signal|poll|spawn|dlfcn|pthread|sched|netdb|termios|errno|time|ctype|limits|stdint|stddef|stdlib"
      "|string|stdio|math|fenv|locale|getopt|pwd|dirent|elf|link|execinfo|syscall|immintrin|x86intrin|cpuid)\\.h");
  return std::regex_match(header, standard);
}

struct Include {
  size_t line;
  std::string header;
  bool quoted;
};

std::vector<Include> includes_of(const File& file) {
  static const std::regex form(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<Include> found;
  const std::string code = code_only(file.text);  // an include in a comment is none; string contents are blanked, so:
  const auto blanked = lines_of(code), lines = lines_of(file.text);
  for (size_t i = 0; i < lines.size(); ++i) {
    std::match_results<std::string_view::const_iterator> match;
    if (blanked[i].find('#') == std::string_view::npos) continue;
    if (std::regex_search(lines[i].begin(), lines[i].end(), match, form))
      found.push_back({i, match[2].str(), match[1].str() == "\""});
  }
  return found;
}

void check_own(const Rules& rules, const File& file, const std::string& from, const Include& include,
               Complaints& complaints) {
  if (include.header == "version.h") return;  // generated, no layer
  // Paths are written from src/; only a program of its own under tools/ names its own files plainly.
  const bool plain = starts(from, "tools/") && include.header.find('/') == std::string::npos;
  const std::string to = plain ? from : layer_of(rules, include.header);
  const auto& allowed = rules.layers.at(from);
  if (to.empty())
    complaints.push_back(place(file, include.line) + "includes \"" + include.header + "\", which lies in no layer");
  else if (to != from && to != "base" && !allowed.count(to) && !allowed.count("*"))
    complaints.push_back(place(file, include.line) + from + " includes \"" + include.header + "\" of " + to +
                         ", but may include only base and " + join(allowed));
}

void check_library(const Rules& rules, const File& file, const std::string& from, const Include& include,
                   Complaints& complaints) {
  const std::pair<const std::string, std::set<std::string>>* best = nullptr;
  for (const auto& row : rules.libraries)
    if (starts(include.header, row.first) && (!best || row.first.size() > best->first.size())) best = &row;
  const std::string what = place(file, include.line) + from + " includes <" + include.header + ">, ";
  if (!best && !is_system(include.header)) complaints.push_back(what + "a library that no row names");
  if (best && !may_use(best->second, from)) complaints.push_back(what + "which is for " + join(best->second));
}

}  // namespace

Rules read_rules(std::string_view page) {
  Rules rules{read_block(page, "layers"), read_block(page, "libraries")};
  for (const auto& [layer, allowed] : rules.layers)
    for (const std::string& other : allowed)
      if (other != "*" && !rules.layers.count(other))
        throw std::runtime_error("layers: '" + layer + "' names '" + other + "', which has no row");
  return rules;
}

Complaints check_includes(const Rules& rules, const std::vector<File>& files) {
  Complaints complaints;
  for (const File& file : files) {
    if (!is_code(file.path)) continue;
    const std::string from = layer_of(rules, file.path);
    if (from.empty()) {
      complaints.push_back(file.path + ": lies in no layer");
      continue;
    }
    for (const Include& include : includes_of(file))
      (include.quoted ? check_own : check_library)(rules, file, from, include, complaints);
  }
  return complaints;
}

Complaints check_words(const std::vector<File>& files) {
  static const std::regex word(R"(\b(secure_)?getenv\b|\bthread_local\b|^\s*#\s*pragma\s+omp\b)");
  Complaints complaints;
  for (const File& file : files) {
    if (!is_code(file.path)) continue;
    const std::string code = code_only(file.text);
    const auto lines = lines_of(code);
    for (size_t i = 0; i < lines.size(); ++i) {
      std::match_results<std::string_view::const_iterator> match;
      if (!std::regex_search(lines[i].begin(), lines[i].end(), match, word)) continue;
      const bool reads_environment = match.str().find("getenv") != std::string::npos;
      if (reads_environment && starts(file.path, "src/cli/")) continue;
      complaints.push_back(place(file, i) + (reads_environment ? "getenv below cli" : match.str()));
    }
  }
  return complaints;
}

Complaints check_places(const std::vector<File>& files) {
  // Written in pieces, so that this file does not complain about itself.
  static const std::regex machine("(^|[^A-Za-z0-9_.}*)>~-])/(work|root|home/[a-z][a-z0-9_-]*|Users/[A-Za-z]+)(/|\\b)");
  static const std::regex host(
      "\\b(deb\\.debian|security\\.debian|snapshot\\.debian|pypi\\.python|pypi|conda\\.anaconda)\\.org\\b"
      "|\\bpythonhosted\\.org\\b|\\b(archive|security)\\.ubuntu\\.com\\b|\\bregistry\\.npmjs\\.org\\b");
  Complaints complaints;
  for (const File& file : files) {
    const auto lines = lines_of(file.text);
    for (size_t i = 0; i < lines.size(); ++i) {
      std::match_results<std::string_view::const_iterator> match;
      if (std::regex_search(lines[i].begin(), lines[i].end(), match, machine))
        complaints.push_back(place(file, i) + "a path of somebody's machine: " + match.str());
      if (std::regex_search(lines[i].begin(), lines[i].end(), match, host))
        complaints.push_back(place(file, i) + "the host of a package registry: " + match.str());
    }
  }
  return complaints;
}

}  // namespace zoetrope::repo
