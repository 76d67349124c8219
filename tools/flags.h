// What a command line asks for: every option of every subcommand. Each has one meaning, but
// --ranks: of `run` it is how many there are, of a picture which of them it shows.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stringline {

struct Command;

struct Flags {
  std::string file;                     // FILE
  std::vector<std::string> files;       // FILE …, for a command that takes many
  std::string action;                   // ACTION: 3B7
  bool all = false;                     // --all: of explain
  std::vector<std::string> parameters;  // NAME=VALUE …, as written
  std::string schedule;                 // --schedule: which one of the file; "" for its last
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
  std::string color = "auto";           // --color auto|always|never
  std::string text;                     // --text FILE
  std::string out;                      // --out FOLDER, or FILE for a command that writes one
  int step = -1;                        // --step N: of a trace; -1: the last whole one
  std::string to;                       // --to torch-compute|torch-comms|torch-comms-2.14
  std::string save;                     // --save FOLDER
  std::string load;                     // --load FOLDER
  std::string resume;                   // --resume FOLDER|auto
  int restarts = 0;                     // --restarts N
  int mesh_data = 0;                    // --mesh-data N; 0: what the run file says
  int steps = 0;                        // --steps; 0: what the run file says
  bool check = false;                   // --check: of fmt
  bool to_stdout = false;               // --stdout
  std::string layout;                   // --layout shared|updown|pair|edge; "": not said
  std::string messages;                 // --messages early|as-written; "": not said
  int buffers = 0;                      // --buffers
  bool lazy = false;                    // --lazy
  int activations = -1;                 // --activations; -1: no limit
  std::string memory;                   // --memory 80GiB
  std::string model;                    // --model RUN.yaml
  std::string link;                     // --link 5us,2GB/s
  bool verbose = false;                 // --verbose
  bool strict = false;                  // --strict
  int rank = -1;                        // --rank; -1: as whatever started it says
  int ranks = -1;                       // --ranks N: of run
  int local_rank = -1;                  // --local-rank
  int processes = 0;                    // --processes; 0: this one alone
  std::vector<std::string> arguments;   // all of them, as written, for other processes
  std::string master;                   // --master HOST:PORT
  std::string run_id;                   // --run-id
  std::string message;                  // --message 1MB
  std::string svg;                      // --svg OUT.svg
  std::string picture;                  // --picture OUT.pdf
  bool force = false;                   // --force
  bool no_title = false;                // --no-title
  std::string palette = "color";        // --palette color|grey
  std::string html;                     // --html OUT.html
  std::string perfetto;                 // --perfetto OUT.pftrace
  std::string chrome;                   // --chrome OUT.json
  std::string plot;                     // --plot OUT.svg
  std::vector<std::string> slow;        // --slow 3=10%
  int runs = 0;                         // --runs; 0: as many as the command likes
  int seed = 1;                         // --seed
  std::string from;                     // --from FILE
  std::string emit;                     // --emit OUT.sched
  std::string place;                    // --place line|v|loop N|wave N|any
  std::string split;                    // --split any
  int layers = -1;                      // --layers N
  std::string minimize = "makespan";    // --minimize makespan|span|period
  std::string kinds;                    // --kinds F,I,W; "": F, B, I and W
  bool pairs = false;                   // --pairs
  std::string recompute;                // --recompute none|all|any; "": as the costs say
  double seconds = 10;                  // --seconds
  int iterations = 0;                   // --iterations; 0: as many as there is time for
  bool compare = false;                 // --compare: of bench
  std::string fail_slower;              // --fail-slower 5%
  std::string page;                     // --page FILE.md
  bool list = false;                    // --list
  bool help = false;                    // --help
  // What stands behind `--`, for a command with two sides: with the first one's parameters, as
  // offered, and its options where it says nothing else. At most one.
  std::vector<Flags> second_side;
  std::vector<std::string> offered;  // NAME=VALUE: for a schedule that has such a parameter
};

// Reads the arguments that follow the command's name. Errors: InvalidArgument for an option the
// command does not have, or a value that cannot be.
absl::StatusOr<Flags> ParseFlags(const Command& command, const std::vector<std::string>& args);

// The text of `stringline COMMAND --help`.
std::string HelpOf(const Command& command);

}  // namespace stringline
