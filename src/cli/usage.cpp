#include "cli/usage.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "config/fields.h"

namespace zoetrope::cli {
namespace {

const CLI::App* chosen_command(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? nullptr : commands[0];
}

std::string help_of(const CLI::App& app) {
  const CLI::App* command = chosen_command(app);
  return cat("zoetrope ", command ? command->get_name() + " " : "", "--help");
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  return names;
}

// "; the nearest is X", or nothing where no name is near: a hint at something else is worse than none.
std::string hint(const std::string& word, const std::vector<std::string>& known, const std::string& dashes = "") {
  const std::string near = nearest(word, std::vector<std::string_view>(known.begin(), known.end()), word.size() / 2);
  return near.empty() ? "" : cat("; the nearest is ", dashes, near);
}

[[noreturn]] void fail_unknown_option(const CLI::App& app, const std::string& typed) {
  const CLI::App* command = chosen_command(app);
  const std::string word = typed.substr(0, typed.find('='));
  const std::string name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  fail(Code::invalid, "option ", word, " is not known", hint(name, option_names(command ? *command : app), "--"), " (",
       help_of(app), " lists all)");
}

[[noreturn]] void fail_unknown_word(const CLI::App& app, const std::string& word) {
  if (const CLI::App* command = chosen_command(app))
    fail(Code::invalid, command->get_name(), ": \"", word,
         "\" was not expected here; a value with spaces needs quotes around it");
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  fail(Code::invalid, "command \"", word, "\" is not known", hint(word, names), " (", help_of(app), " lists all)");
}

// "Could not convert: --threads = x" and "--steps: 1 required N missing" are the library's words for these.
[[noreturn]] void fail_value(const CLI::App& app, const CLI::ParseError& error) {
  const std::string said = error.what(), convert = "Could not convert: ";
  if (const size_t at = said.find(" = "); said.starts_with(convert) && at != said.npos)
    fail(Code::invalid, "option ", said.substr(convert.size(), at - convert.size()), ": \"", said.substr(at + 3),
         "\" is not a whole number");
  if (error.get_name() == "ArgumentMismatch" && said.find("missing") != said.npos)
    fail(Code::invalid, "option ", said.substr(0, said.find(':')), " needs a value (", help_of(app), " says which)");
  if (error.get_name() == "ArgumentMismatch")
    fail(Code::invalid, "option ", said.substr(0, said.find(':')), " is given more than once");
  fail(Code::invalid, said, "; ", help_of(app), " says more");
}

}  // namespace

void require_values(const CLI::App& app) {
  const CLI::App* command = chosen_command(app);
  if (!command) return;
  for (const CLI::Option* option : command->get_options()) {
    if (option->count() == 0 || option->get_lnames().empty() || !option->results()[0].empty()) continue;
    const std::string name = option->get_lnames()[0];
    require(name == "prompt" || name == "negative-prompt", "option --", name,
            ": its value is empty; give one, or leave the option out");
  }
}

void fail_usage(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) fail_value(app, error);
  const std::vector<std::string> left = app.remaining(true);
  const std::string word = left.empty() ? "" : left[0];
  if (word.starts_with('-')) fail_unknown_option(app, word);
  fail_unknown_word(app, word);
}

}  // namespace zoetrope::cli
