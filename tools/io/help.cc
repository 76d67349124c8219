// Declared options read back: as the text of --help, and as rows for completions and the manual
// page.
#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedlang/costs/cost_keys.h"
#include "tools/io/declared_options.h"
#include "tools/io/flags.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

// Descriptions of the checks of an option's value: "{color,grey}", "INT in [40 - 10000]".
std::vector<std::string> ChecksOf(CLI::Option* option) {
  std::vector<std::string> checks;
  try {
    for (int i = 0;; ++i) checks.push_back(option->get_validator(i)->get_description());
  } catch (const CLI::OptionNotFound&) {
    return checks;
  }
}

// "{color,grey}" -> its values; values with commas, as "F,I,W", would be split, so `value` lists
// them: "F,B|F,I,W".
std::vector<std::string> ChoicesIn(const std::string& check, const std::string& value) {
  if (check.size() < 2 || check.front() != '{') return {};
  if (value.find('|') != std::string::npos) return absl::StrSplit(value, '|');
  return absl::StrSplit(check.substr(1, check.size() - 2), ',');
}

}  // namespace

std::vector<OptionRow> OptionsOf(const Command& command) {
  Flags flags;
  CLI::App app;
  DeclareOptions(command, app, flags);
  std::vector<OptionRow> rows;
  for (CLI::Option* option : app.get_options()) {
    OptionRow row{.meaning = option->get_description()};
    for (const std::string& name : option->get_snames()) row.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) row.names.push_back("--" + name);
    if (option->get_items_expected_max() > 0) {
      const std::vector<std::string> checks = ChecksOf(option);
      row.value = option->get_type_name();
      for (auto check = checks.rbegin(); check != checks.rend(); ++check) {
        row.value = std::string(absl::StripSuffix(row.value, ":" + *check));
      }
      for (const std::string& check : checks) row.choices = ChoicesIn(check, row.value);
    }
    if (row.names.empty()) row.value = option->get_name(/*positional=*/true);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string HelpOf(const Command& command) {
  Flags flags;
  CLI::App app(command.summary, absl::StrCat("stringline ", command.name));
  DeclareOptions(command, app, flags);
  std::string footer = absl::StrCat("Example:\n  ", command.example);
  if (command.more[0] != '\0') absl::StrAppend(&footer, "\n\n", command.more);
  if (command.options & kCostOptions) {
    const bool has_bubbles = (command.options & kCheckOptions) == 0;
    absl::StrAppend(&footer, "\n\n", has_bubbles ? kBubbleMeaning : "", has_bubbles ? "\n" : "",
                    "Costs, in --cost and in cost files:\n");
    for (const CostKey& key : CostKeys()) {
      absl::StrAppendFormat(&footer, "  %-19s %s\n", key.name, key.meaning);
    }
  }
  if (command.options & kTrainingOptions) {
    absl::StrAppend(
        &footer,
        "\n\nCtrl-C (or SIGTERM) ends the run after the step that is under way: "
        "parameters are saved\n"
        "as at the end, the losses so far stay in losses.csv.part, and the exit status "
        "is 130 (143).\n"
        "A second Ctrl-C ends at once, and saves nothing. SIGHUP does as SIGTERM (129). "
        "SIGUSR1 writes a\n"
        "checkpoint after the step under way, and the run goes on. SIGUSR2 makes all processes "
        "write flight\n"
        "records at once, also of a run that hangs.\n");
  }
  app.footer(footer);
  return app.help();
}

}  // namespace stringline
