// The table defines all subcommands: their words, their options and their functions.
#include "tools/commands/command.h"

#include <algorithm>
#include <new>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/base/diagnostics.h"
#include "tools/io/output_paths.h"
#include "tools/io/picture_options.h"
#include "tools/io/requests.h"

namespace stringline {
namespace {

// A FILE for a schedule may be the name of a schedule in the library.
#define SL_LIBRARY_NAMES "; a schedule of the library by its name (1f1b; stringline schedules)"
constexpr const char* kScheduleOrPlan =
    "A schedule (.sched), a plan (.plan) or one of torch's (.csv)" SL_LIBRARY_NAMES;
constexpr const char* kScheduleOrTimeline =
    "A schedule (.sched), a plan (.plan), one of torch's (.csv) or a recorded timeline "
    "(.timeline)" SL_LIBRARY_NAMES;

constexpr const char* kReported =
    "A schedule (.sched), a plan (.plan), one of torch's (.csv), a recorded timeline (.timeline), "
    "a "
    "trace of torch's profiler (.json, .json.gz) or a folder with one a rank, or its memory "
    "timeline (….raw.json.gz)" SL_LIBRARY_NAMES;

// The meaning of report's figures of traces.
constexpr const char* kReportedTraces =
    "Of traces it says what GPUs did, as Holistic Trace Analysis counts: idle time of streams by\n"
    "cause, kernels and their times, launches, queues, rates of copies, memory, the ranks that "
    "others\n"
    "wait for. A pipeline's timeline of them is 'stringline import'.";

// The meaning of the two columns in lint's table.
constexpr const char* kLintTimes =
    "Both columns are times of a step in a runtime that performs each rank's list in order.\n"
    "  this order       where sends and receives stand in the file: what 'stringline sim FILE\n"
    "                   --messages as-written --layout LAYOUT' says, too. A compute form gets\n"
    "                   sends, receives and waits where torch 2.15 puts them\n"
    "  order of export  the same computations with sends and receives where 'stringline export\n"
    "                   --to torch-comms' puts them at these costs\n"
    "'stringline sim FILE' without --messages is as fast as messages allow wherever they stand.";

// The meaning of import's figures of traces.
constexpr const char* kTraceFigures =
    "Of traces the timeline is what happened in one step, by the ranges PP:… that torch's "
    "pipeline\n"
    "runtime writes: for report, compare, calibrate and show. On a GPU an action is what ran of\n"
    "all that its range launched; without one the range, from when it has what it waits for.\n"
    "Beside it, on standard error or with --out on standard output, for every rank as Holistic\n"
    "Trace Analysis counts: the time with a computation, with something but no computation "
    "(memory,\n"
    "communication), with nothing; all communication, and how much of it lies under computations.";

// The dumps that diagnose reads, and its verdict.
constexpr const char* kDiagnoseMeaning =
    "torch writes dumps when a collective times out (TORCH_NCCL_DUMP_ON_TIMEOUT=1, into\n"
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE and the rank), or when asked (_dump_nccl_trace, "
    "_dump_fr_trace).\n"
    "Nothing in a pickle is executed. Exit status 0: no rank is behind, and calls agree; 1: "
    "something\n"
    "was found; 2: a file is no dump. Dumps have to be of one moment, as those of a timeout are.";

// The measurements and verdicts of bench.
constexpr const char* kBenchMeaning =
    "Every repetition of a case is a training run in a process of its own; all cases take turns, "
    "so that\n"
    "what the machine does meanwhile meets all of them. The results are in one JSON file, "
    "out/bench "
    "and\n"
    "the suite's name, or --out. It is whole after every repetition: after Ctrl-C the same command "
    "goes on\n"
    "where it was. --compare takes a repetition's median step as one value, and two lists of them "
    "by "
    "their\n"
    "ranks: a change is one where the 95 % interval of the ratio leaves 1 out, and that is over 1 "
    "%.\n"
    "Where the interval holds 1 and reaches beyond 5 %, or what --fail-slower asks, noise hides "
    "the "
    "change,\n"
    "and the answer says so; --fail-slower does not pass a case of which the figures cannot tell.\n"
    "tools/README.md says what a suite is and what the results hold.";

// The answer of search.
constexpr const char* kSearchMeaning =
    "The search is stopped by its time, by the bound (then nothing better exists for these "
    "stages),\n"
    "or by Ctrl-C, and answers with the best that it has found. Its order is checked and simulated "
    "as\n"
    "any other, and its value is the simulated one: where costs have collectives, receive buffers "
    "or\n"
    "shared links, with --jitter, and for a period, orders are simulated during the search, too, "
    "and\n"
    "the best of these is the answer. The bound is for any order of these stages at these costs,\n"
    "within this memory, whether or not ranks also wait for collectives, buffers and shared "
    "links.\n\n"
    "With --for, as --for P=4,8 --for 'M=3*P', it looks for one text that is good at all these "
    "sizes:\n"
    "of the library's schedules and of families of orders, whose other parameters become functions "
    "of\n"
    "P; or with --from FILE of that text alone. The worst gap to a bound decides. The text is "
    "proven,\n"
    "as by check, for every value from the smallest to the largest of the first range.";

// The answer of tune.
constexpr const char* kTuneMeaning =
    "All meshes that divide the GPUs (tp x cp x pp x dp, and ep), microbatch sizes, shardings, "
    "with and\n"
    "without recomputation, and the library's schedules with several numbers of stages and two "
    "splits\n"
    "of the layers are considered. What cannot fit, and what a lower bound of its step rules out, "
    "is\n"
    "left out; the rest is simulated, the most promising first, until the time is over, nothing "
    "is left,\n"
    "or Ctrl-C. The table has the best choice of each mesh. The bound is of all choices that were\n"
    "considered. MFU counts the model's operations, none that are done again.";

// The table of watch.
constexpr const char* kWatchMeaning =
    "The rank that computes most stands first: the others wait for it, directly or through others. "
    "'for'\n"
    "is the rank whose value a rank awaited longest. In a terminal the table is drawn again with "
    "every\n"
    "step that the run notes, until Ctrl-C; elsewhere it is printed once.";

// The places from which shells read completions.
constexpr const char* kCompletionPlaces =
    "In this shell alone:  source <(stringline completion bash)\n"
    "For all to come:\n"
    "  bash  stringline completion bash > ~/.local/share/bash-completion/completions/stringline\n"
    "  zsh   stringline completion zsh > FOLDER/_stringline, a FOLDER of $fpath, before compinit\n"
    "  fish  stringline completion fish > ~/.config/fish/completions/stringline.fish";

constexpr Command kCommands[] = {
    {"check", "Prove that a schedule is complete and ends, or say what is wrong and where",
     kScheduleOrPlan, "stringline check schedules/1f1b.sched P=4 M=8",
     kPlanOptions | kForOption | kLayoutOption | kCheckOptions | kCostOptions, RunCheck},
    {"plan", "Print what each rank does, in order", kScheduleOrPlan,
     "stringline plan schedules/zb_v.sched P=2 M=4 --lowered",
     kPlanOptions | kLoweredOption | kLayoutOption, RunPlan},
    {"program", "Print what each stage computes: forward, input gradient, weight gradient",
     "A run file (.yaml), for its model and schedule; or a text that this command printed, which "
     "is "
     "checked and printed again",
     "stringline program examples/01_train/run.yaml --stage 1", kOutOption | kStageOption,
     RunProgram},
    {"show", "Draw the timeline: in the terminal, as SVG, as an HTML page, or as a trace",
     kScheduleOrTimeline,
     "stringline show schedules/dualpipe_v.sched P=4 M=10 --cost F=10,I=10,W=10,FB=24",
     kPlanOptions | kCostOptions | kLayoutOption | kMessagesOption | kPictureOptions | kSlowOption,
     RunShow},
    {"sim", "Simulate a schedule: how long a step takes, and who waits",
     "A schedule (.sched), a plan (.plan) or one of torch's (.csv); with --for one schedule or "
     "more" SL_LIBRARY_NAMES,
     "stringline sim schedules/zb_h1.sched P=8 M=24 --cost F=18522,I=18086,W=9337,p2p=601",
     kManyFiles | kPlanOptions | kCostOptions | kLayoutOption | kMessagesOption | kTimelineOption |
         kSlowOption | kForOption | kPlotOption | kJitterOptions,
     RunSim},
    {"report",
     "Say where a step's time goes, how far it is from the best possible, what would help",
     kReported,
     "stringline report schedules/zb_h1.sched P=8 M=24 --cost F=18522,I=18086,W=9337,p2p=601",
     kPlanOptions | kCostOptions | kLayoutOption | kMessagesOption | kSlowOption |
         kVariationOptions | kKernelOptions,
     RunReport, kReportedTraces},
    {"compare", "Compare two steps, simulated or recorded: where their difference comes from",
     "Two of: a schedule (.sched), a plan (.plan), one of torch's (.csv), a timeline (.timeline); "
     "behind -- the second one with parameters and options of its own, where they "
     "differ" SL_LIBRARY_NAMES,
     "stringline compare schedules/interleaved.sched P=4 M=8 --work model -- "
     "schedules/interleaved.sched V=4",
     kManyFiles | kTwoSides | kPlanOptions | kCostOptions | kLayoutOption | kMessagesOption |
         kPictureOptions,
     RunCompare},
    {"search", "Find a schedule: the best order there is time for, beside a bound for any order",
     "", "stringline search P=8 M=24 --cost F=18522,I=18086,W=9337,p2p=601 --activations 8",
     kSearchOptions | kForOption | kCostOptions | kSlowOption, RunSearch, kSearchMeaning},
    {"tune",
     "Choose mesh, microbatch, schedule, sharding and recomputation for a model on a cluster",
     "The model (MODEL.yaml: a cost file with 'model' and 'precision') and the cluster "
     "(CLUSTER.yaml: 'hardware', 'gpus', and keys in place of the hardware's)",
     "stringline tune examples/17_plan/llama3_8b.yaml examples/17_plan/cluster.yaml "
     "--global-batch 128 --evaluations 100",
     kManyFiles | kTuneOptions, RunTune, kTuneMeaning},
    {"explain", "Say why an action starts when it does, and what waits for it", kScheduleOrPlan,
     "stringline explain schedules/1f1b.sched 1B2 P=4 M=8 --cost F=10,B=20,p2p=1",
     kPlanOptions | kActionArgument | kCostOptions | kLayoutOption, RunExplain},
    {"export", "Write a schedule as torch.distributed.pipelining reads it", kScheduleOrPlan,
     "stringline export schedules/zb_v.sched P=2 M=4 --to torch-compute",
     kPlanOptions | kCostOptions | kToOption | kOutOption, RunExport},
    {"import",
     "Print one of torch's schedules or Megatron's order as a plan, one of torch's models as a "
     "graph, or a step that its profiler traced as a timeline",
     "A schedule of torch's (.csv); Megatron's arguments (.yaml), with others behind it as "
     "world_size=16; a model of torch.export.save's (.pt2); or traces of torch's profiler, one a "
     "rank (.json, .json.gz), or a folder of them",
     "stringline import tests/golden/torch/zbvzerobubble_p2_v2_m4_compute.csv",
     kManyFiles | kOutOption | kStepOption, RunImport, kTraceFigures},
    {"fmt", "Lay out schedule files; only white space changes",
     "Schedules (.sched); '-' reads standard input and writes standard output",
     "stringline fmt --check schedules/1f1b.sched schedules/zb_v.sched",
     kManyFiles | kFormatOptions, RunFormat},
    {"lsp", "Serve an editor over standard input and output: findings, completion, names, hover",
     "", "stringline lsp", kNoFile | kNoJson, RunLanguageServer},
    {"lint", "Say what is wrong or slow with one of torch's schedules",
     "A schedule of torch's (.csv)",
     "stringline lint tests/golden/torch/interleaved1f1b_p4_v2_m8_comms.csv", kCostOptions, RunLint,
     kLintTimes},
    {"diagnose", "Say what is wrong in the dumps that flight recorders left of a hang",
     "Dumps of torch's flight recorder, one a rank, as pickles or JSON, the rank at the end of the "
     "name; or a folder of them",
     "stringline diagnose tests/golden/diagnose/ended --schedule 1f1b P=2 M=2",
     kManyFiles | kDiagnoseOptions, RunDiagnose, kDiagnoseMeaning},
    {"rehearse",
     "Perform a schedule for real with programs that only take time, beside the simulation",
     kScheduleOrPlan,
     "stringline rehearse schedules/1f1b.sched P=4 M=8 --cost F=4ms,B=8ms --link 5us,2GB/s "
     "--message 1MB",
     kPlanOptions | kCostOptions | kTimelineOption | kLayoutOption | kSlowOption | kLinkOptions,
     RunRehearsal},
    {"calibrate", "Say what the actions of a recorded run cost, as a cost file",
     "A recorded timeline (.timeline)", "stringline calibrate tests/golden/show/measured.timeline",
     kOutOption, RunCalibrate},
    {"bench",
     "Measure models with schedules, meshes and precisions, also beside torch; compare two results",
     "A suite (.yaml); results (.json), to look at them; with --compare two results, the older one "
     "first",
     "stringline bench tools/bench/suite.yaml --list", kManyFiles | kOutOption | kBenchOptions,
     RunBench, kBenchMeaning},
    {"run", "Train a model with a schedule, and compare what happened with the simulation",
     "A run file (.yaml)", "stringline run examples/01_train/run.yaml",
     kTrainingOptions | kLayoutOption, RunTraining},
    {"watch", "Show a running training: its speed, who is slow, and for whom the others wait",
     "The folder of the run's results, or its file of metrics; a run has one if its run file says "
     "'metrics'",
     "stringline watch examples/01_train/metrics.jsonl", 0, RunWatch, kWatchMeaning},
    {"schedules", "List the library: its schedules, their parameters, what each is", "",
     "stringline schedules", kNoFile, RunSchedules},
    {"completion", "Print a script that completes command lines in bash, zsh or fish", "",
     "stringline completion bash", kShellArgument | kNoJson, RunCompletion, kCompletionPlaces},
    {"man", "Print the manual page", "", "stringline man", kNoFile | kNoJson, RunManual,
     "stringline man | man -l -    shows it."},
};
#undef SL_LIBRARY_NAMES

void PrintOverview(std::ostream& out) {
  out << "stringline: pipeline-parallel schedules, from a text to a trained model\n\n"
         "Usage: stringline COMMAND FILE [options]\n\nCommands:\n";
  for (const Command& command : kCommands) {
    out << absl::StreamFormat("  %-10s %s\n", command.name, command.summary);
  }
  out << "\nstringline COMMAND --help says more; stringline --version prints the version.\n"
         "A file called - is standard input where it is read, standard output where it is "
         "written.\n"
         "Start with: "
      << kCommands[2].example << "\n";
}

int UnknownCommand(const std::string& name, const Output& output) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.push_back(command.name);
  const std::string close = ClosestName(name, names);
  return Fail(output, absl::StrCat("unknown command '", name, "'; ",
                                   close.empty() ? "stringline --help lists them"
                                                 : absl::StrCat("did you mean '", close, "'?")));
}

int RunCommand(const Command& command, const std::vector<std::string>& args, Output output) {
  absl::StatusOr<Flags> flags = ParseFlags(command, args);
  if (!flags.ok()) return Fail(output, flags.status().message());
  if (flags->help) {
    output.out << HelpOf(command);
    return kOk;
  }
  output.json = flags->json;
  const absl::Status outputs = CheckOutputPaths(*flags);
  if (!outputs.ok()) return Fail(output, outputs.message());
  if (command.options & kPictureOptions) {
    const absl::Status pictures = CheckPictureOptions(PictureQuestionOf(*flags));
    if (!pictures.ok()) return Fail(output, pictures.message());
  }
  if (!WritesToStandardOutput(*flags)) return command.run(*flags, output);
  if (command.options & kTrainingOptions) {
    return Fail(output, "--out -: a folder cannot be standard output");
  }
  return command.run(*flags, {output.err, output.err, /*json=*/false, &output.out});
}

}  // namespace

absl::Span<const Command> Commands() { return kCommands; }

int RunTool(const std::vector<std::string>& args, std::ostream& out, std::ostream& err) {
  const Output output{out, err, std::find(args.begin(), args.end(), "--json") != args.end()};
  if (args.empty()) {
    PrintOverview(err);
    return kUsage;
  }
  const std::string& name = args[0];
  if (name == "--help" || name == "-h" || name == "help") {
    PrintOverview(out);
    return kOk;
  }
  for (const Command& command : kCommands) {
    if (name != command.name) continue;
    try {
      return RunCommand(command, std::vector<std::string>(args.begin() + 1, args.end()), output);
    } catch (const std::bad_alloc&) {
      return Fail(output, "not enough memory for this plan");
    }
  }
  return UnknownCommand(name, output);
}

}  // namespace stringline
