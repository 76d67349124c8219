// The tool's subcommands, in one table, and the function that runs one of them.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tools/flags.h"
#include "tools/output.h"

namespace stringline {

// Which options a command has, beside FILE, --json and --help; combine with |.
enum OptionSet : unsigned {
  kPlanOptions = 1 << 0,        // NAME=VALUE …, --schedule
  kLoweredOption = 1 << 1,      // --lowered
  kCostOptions = 1 << 2,        // --cost, --costs
  kTimelineOption = 1 << 3,     // --timeline
  kPictureOptions = 1 << 4,     // --width, --svg, --html, --ranks, …
  kTrainingOptions = 1 << 5,    // --text, --out, --steps, --save, --load
  kToOption = 1 << 6,           // --to
  kOutOption = 1 << 7,          // --out
  kManyFiles = 1 << 8,          // FILE … instead of one
  kTwoSides = 1 << 19,          // FILE … -- FILE …: the second with options of its own
  kFormatOptions = 1 << 9,      // --check, --stdout
  kForOption = 1 << 10,         // --for
  kActionArgument = 1 << 11,    // ACTION behind FILE
  kNoFile = 1 << 12,            // no FILE, and no --json
  kLayoutOption = 1 << 13,      // --layout
  kCheckOptions = 1 << 14,      // --buffers, --lazy, --activations, --memory, --model
  kLinkOptions = 1 << 15,       // --link, --message, --steps
  kSlowOption = 1 << 16,        // --slow
  kVariationOptions = 1 << 17,  // --runs, --seed
  kPlotOption = 1 << 18,        // --plot
  kMessagesOption = 1 << 20,    // --messages
  kStepOption = 1 << 23,        // --step
  kSearchOptions = 1 << 21,     // no FILE; --from, --emit, --place, --minimize, --seconds, …
  kBenchOptions = 1 << 22,      // --compare, --fail-slower, --page, --list, --again
};

struct Command {
  const char* name;
  const char* summary;  // one line
  const char* file;     // what FILE may be; "" with kNoFile
  const char* example;  // a line that works from the top of the repository
  unsigned options;
  int (*run)(const Flags& flags, const Output& output);
  const char* more = "";  // what --help says behind the example
};

absl::Span<const Command> Commands();

// Runs the tool: args are those of the command line without the program's name. Returns the exit
// status (ExitStatus). Reads no global state but the environment, so tests call it in-process.
int RunTool(const std::vector<std::string>& args, std::ostream& out, std::ostream& err);

int RunBench(const Flags& flags, const Output& output);
int RunCalibrate(const Flags& flags, const Output& output);
int RunCheck(const Flags& flags, const Output& output);
int RunCompare(const Flags& flags, const Output& output);
int RunCheckFor(const Flags& flags, const Output& output);  // check, with --for
int RunExplain(const Flags& flags, const Output& output);
int RunExport(const Flags& flags, const Output& output);
int RunFormat(const Flags& flags, const Output& output);
int RunImport(const Flags& flags, const Output& output);
int RunLint(const Flags& flags, const Output& output);
int RunLanguageServer(const Flags& flags, const Output& output);
int RunRehearsal(const Flags& flags, const Output& output);
int RunPlan(const Flags& flags, const Output& output);
int RunReport(const Flags& flags, const Output& output);
int RunSearch(const Flags& flags, const Output& output);
int RunShow(const Flags& flags, const Output& output);
int RunSimFor(const Flags& flags, const Output& output);  // sim, with --for
int RunSim(const Flags& flags, const Output& output);
int RunTraining(const Flags& flags, const Output& output);

}  // namespace stringline
