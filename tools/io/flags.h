// The values of a command line: every option of every subcommand. Each option has a single meaning,
// except --ranks: for `run` and `diagnose` the number of ranks, for a picture the ranks shown; and
// --schedule: a schedule of FILE, for `diagnose` the schedule's own file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stringline {

struct Output;

struct Flags {
  std::string file;                     // FILE
  std::vector<std::string> files;       // FILE …, for a command with many files
  std::string action;                   // ACTION: 3B7
  std::string shell;                    // SHELL: bash, zsh or fish
  bool all = false;                     // --all: of explain
  std::vector<std::string> parameters;  // NAME=VALUE …, as written
  std::string schedule;                 // --schedule: a schedule of the file; "" for its last
  std::string dumped_schedule;          // --schedule FILE: of diagnose
  bool again = false;                   // --again
  std::vector<std::string> ranges;      // --for NAME=FIRST..LAST, as written
  bool json = false;                    // --json
  bool lowered = false;                 // --lowered
  std::string cost;                     // --cost F=1,B=2ms
  std::string cost_file;                // --costs FILE.yaml
  std::string work;                     // --work stage|rank|model; "": as the cost file says
  std::string mesh;                     // --mesh data=8,shard=4; "": as the cost file says
  std::string sharding;                 // --sharding parameters; the same
  std::string bucket;                   // --bucket 25MiB; the same
  std::string timeline_out;             // --timeline FILE
  int width = 0;                        // --width; 0: as wide as the terminal
  bool fold = false;                    // --fold
  bool lanes = false;                   // --lanes
  std::string shown_ranks;              // --ranks 0..15: of a picture
  std::string shown_time;               // --time 0..200ms
  std::string shown_microbatches;       // --microbatches 0..7
  std::string color;                    // --color auto|always|never; "": auto
  std::string text;                     // --text FILE
  std::string out;                      // --out FOLDER, or FILE for a command that writes a single
                                        // file
  int plan_steps = 0;                   // --steps N: of a plan; 0: as its parameters say
  int step = -1;                        // --step N: of a trace; -1: the last whole step
  std::string operator_part;            // --operator NAME: of a trace
  std::string against;                  // --against TRACES
  std::string counters;                 // --counters FOLDER
  int top = 12;                         // --top N
  std::string stage;                    // --stage 2, or up[1]; "": all
  std::string to;                       // --to torch-compute|torch-comms|torch-comms-2.14
  std::string save;                     // --save FOLDER
  std::string load;                     // --load FOLDER
  std::string resume;                   // --resume FOLDER|auto
  bool evaluate = false;                // --evaluate
  int restarts = 0;                     // --restarts N
  int mesh_data = 0;                    // --mesh-data N; 0: as in the run file
  int steps = 0;                        // --steps; 0: as in the run file
  bool check = false;                   // --check: of fmt
  bool to_stdout = false;               // --stdout
  std::string layout;                   // --layout shared|updown|pair|edge; "": not said
  std::string messages;                 // --messages early|as-written; "": not said
  int buffers = 0;                      // --buffers
  bool lazy = false;                    // --lazy
  int activations = -1;                 // --activations; -1: no limit
  std::string most_activations;         // --activations of a search, over its parameters
  std::string memory;                   // --memory 80GiB
  std::string host_memory;              // --host-memory 500GB
  std::string model;                    // --model RUN.yaml
  std::string link;                     // --link 5us,2GB/s
  bool verbose = false;                 // --verbose
  bool strict = false;                  // --strict
  int rank = -1;                        // --rank; -1: from the launcher's environment
  int ranks = -1;                       // --ranks N: of run and diagnose
  int local_rank = -1;                  // --local-rank
  int processes = 0;                    // --processes; 0: this process alone
  std::vector<std::string> arguments;   // all of them, as written, for other processes
  std::string master;                   // --master HOST:PORT
  std::string run_id;                   // --run-id
  bool comes_back = false;              // --return
  std::string message;                  // --message 1MB
  std::string svg;                      // --svg OUT.svg
  std::string picture;                  // --picture OUT.pdf
  bool force = false;                   // --force
  bool no_title = false;                // --no-title
  std::string palette;                  // --palette color|grey; "": color
  std::string html;                     // --html OUT.html
  std::string perfetto;                 // --perfetto OUT.pftrace
  std::string chrome;                   // --chrome OUT.json
  std::string plot;                     // --plot OUT.svg
  std::vector<std::string> slow;        // --slow 3=10%, 3-4=50%
  std::string jitter;                   // --jitter 30%
  int seeds = 0;                        // --seeds; 0: as many as the command likes
  std::string expect;                   // --expect mean
  int runs = 0;                         // --runs; 0: as many as the command likes
  int seed = 1;                         // --seed
  std::string from;                     // --from FILE
  std::string emit;                     // --emit OUT.sched, or FOLDER of tune
  std::vector<std::string> pins;        // --pin tp=4,pp=8
  int global_batch = 1024;              // --global-batch
  int evaluations = 0;                  // --evaluations; 0: as many as the time allows
  std::string place;                    // --place line|v|loop N|wave N|any
  std::string split;                    // --split any
  int layers = -1;                      // --layers N
  std::string minimize = "makespan";    // --minimize makespan|span|period
  std::string kinds;                    // --kinds F,I,W; "": F, B, I and W
  bool pairs = false;                   // --pairs
  std::string recompute;                // --recompute none|all|any; "": as the costs say
  std::string offload;                  // --offload none|all|any; "": none
  double seconds = 10;                  // --seconds
  int iterations = 0;                   // --iterations; 0: as many as the time allows
  bool compare = false;                 // --compare: of bench
  std::string fail_slower;              // --fail-slower 5%
  std::string page;                     // --page FILE.md
  bool list = false;                    // --list
  bool help = false;                    // --help
  // The side behind `--`, for a command with two sides: with the first side's parameters as
  // `offered`, and the first side's options as defaults. At most one.
  std::vector<Flags> second_side;
  std::vector<std::string> offered;  // NAME=VALUE: for schedules with a parameter of this name
};

// Groups of a command's options, beside FILE, --json and --help; combine with |.
enum OptionSet : unsigned {
  kPlanOptions = 1 << 0,      // NAME=VALUE …, --schedule
  kLoweredOption = 1 << 1,    // --lowered
  kCostOptions = 1 << 2,      // --cost, --costs
  kTimelineOption = 1 << 3,   // --timeline
  kPictureOptions = 1 << 4,   // --width, --svg, --html, --ranks, …
  kTrainingOptions = 1 << 5,  // --text, --out, --steps, --save, --load
  kToOption = 1 << 6,         // --to
  kOutOption = 1 << 7,        // --out
  kManyFiles = 1 << 8,        // FILE … instead of a single FILE
  kTwoSides = 1 << 19,        // FILE … -- FILE …: the second with options of its own
  kFormatOptions = 1 << 9,    // --check, --stdout
  kForOption = 1 << 10,       // --for
  kActionArgument = 1 << 11,  // ACTION behind FILE
  kNoFile = 1 << 12,          // no FILE
  kNoJson = 1 << 24,          // no --json
  kShellArgument = 1 << 25,   // no FILE; SHELL
  kLayoutOption = 1 << 13,    // --layout
  kCheckOptions = 1 << 14,    // --buffers, --lazy, --activations, --memory, --host-memory, --model
  kLinkOptions = 1 << 15,     // --link, --message, --steps
  kSlowOption = 1 << 16,      // --slow
  kVariationOptions = 1 << 17,  // --runs, --seed
  kPlotOption = 1 << 18,        // --plot
  kJitterOptions = 1 << 27,     // --jitter, --seeds
  kMessagesOption = 1 << 20,    // --messages
  kStepOption = 1 << 23,        // --step
  kKernelOptions = 1 << 29,     // --step, --operator, --against, --counters, --html, --top
  kStageOption = 1 << 26,       // --stage, --again
  kSearchOptions = 1 << 21,     // no FILE; --from, --emit, --place, --minimize, --seconds, …
  kDiagnoseOptions = 1 << 28,   // --schedule FILE NAME=VALUE …, --layout, --ranks
  kTuneOptions = 1 << 30,       // MODEL CLUSTER, --global-batch, --pin, --seconds, …
  kBenchOptions = 1 << 22,      // --compare, --fail-slower, --page, --list, --again
};

struct Command {
  const char* name;
  const char* summary;  // a single line
  const char* file;     // kinds of FILE; "" without FILE
  const char* example;  // a line that works from the top of the repository
  unsigned options;
  int (*run)(const Flags& flags, const Output& output);
  const char* more = "";  // text of --help behind the example
};

// Reads the arguments behind the command's name. Errors: InvalidArgument for an option that the
// command lacks, or an invalid value.
absl::StatusOr<Flags> ParseFlags(const Command& command, const std::vector<std::string>& args);

// An option or argument of a command, for completions and the manual page.
struct OptionRow {
  std::vector<std::string> names;    // "--help", "-h"; none: an argument
  std::string value;                 // "OUT.svg", "auto|always|never"; "" for a flag
  std::vector<std::string> choices;  // the allowed values; none: not a fixed list
  std::string meaning;
};
// In the order in which --help lists them.
std::vector<OptionRow> OptionsOf(const Command& command);

// The text of `stringline COMMAND --help`.
std::string HelpOf(const Command& command);

}  // namespace stringline
