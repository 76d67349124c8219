// Options come in groups, and a command's row lists its groups, so an option is declared once for
// all commands. The side behind `--` is parsed over the values of the first side, and overrides
// them.
#include "tools/io/flags.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/status.h"
#include "schedlang/base/written_out.h"
#include "tools/io/declared_options.h"

namespace stringline {
namespace {

void DeclareAgain(CLI::App& app, Flags& flags) {
  app.add_flag("--again", flags.again,
               "Search for the orders of search blocks anew, instead of taking those that were "
               "found before and lie beside the file (FILE.found)");
}

void DeclareScheduleOption(CLI::App& app, Flags& flags) {
  app.add_option("--schedule", flags.schedule, "Which schedule of the file; its last by default")
      ->type_name("NAME");
}

void DeclareActivationsOption(CLI::App& app, Flags& flags) {
  app.add_option("--activations", flags.activations, "Most stage activations that a rank may hold")
      ->check(CLI::Range(0, 1'000'000'000))
      ->type_name("N");
}

void DeclareMemoryOption(CLI::App& app, Flags& flags, const std::string& or_model) {
  app.add_option(
         "--memory", flags.memory,
         absl::StrCat("Most bytes that a rank may hold, as 80GB; 80GB,80GB,40GB by rank, or "
                      "0:80GB,3:40GB for some; needs ",
                      or_model,
                      "costs with a model's shape or memory.* keys; by default the "
                      "capacity that the costs or their hardware file name"))
      ->type_name("BYTES");
}

void DeclareHostMemoryOption(CLI::App& app, Flags& flags) {
  app.add_option("--host-memory", flags.host_memory,
                 "Most bytes of copies (D) that a rank may hold on its host, given as --memory is; "
                 "by default the costs' host.capacity")
      ->type_name("BYTES");
}

void DeclareSeedOption(CLI::App& app, Flags& flags, const std::string& what) {
  app.add_option("--seed", flags.seed, absl::StrCat("What ", what, " is drawn from; 1 by default"))
      ->check(CLI::Range(0, 1'000'000'000))
      ->type_name("N");
}

void DeclareKernelOptions(CLI::App& app, Flags& flags) {
  app.add_option(
         "--step", flags.step,
         "Only this step of traces, as the profiler counts (ProfilerStep#N); by default all "
         "but the last, whose work may be cut")
      ->check(CLI::Range(0, 2'000'000'000))
      ->type_name("N");
  app.add_option("--operator", flags.operator_part,
                 "Also the sequences of kernels that operators with this in their name launch in "
                 "traces")
      ->type_name("NAME");
  app.add_option("--against", flags.against,
                 "Also the differences by name between traces and these others")
      ->type_name("FILE");
  app.add_option("--counters", flags.counters,
                 "Write traces again into this folder, with queues and rates of copies as counters "
                 "for ui.perfetto.dev")
      ->type_name("FOLDER");
  app.add_option("--html", flags.html, "Also write a page of traces, with curves and kernels")
      ->type_name("OUT.html");
  app.add_option("--top", flags.top, "Rows in tables of names in traces; 12 by default")
      ->check(CLI::Range(1, 1'000'000'000))
      ->type_name("N");
}

void DeclarePlanOptions(CLI::App& app, Flags& flags) {
  app.add_option("PARAMETERS", flags.parameters, "Of the schedule: NAME=VALUE, as P=4 M=8");
  DeclareScheduleOption(app, flags);
  DeclareAgain(app, flags);
}

// `--steps`, for commands that give it no other meaning; `steps=N` among the parameters is the same
// everywhere.
void DeclarePlanStepsOption(CLI::App& app, Flags& flags) {
  app.add_option("--steps", flags.plan_steps,
                 "So many steps of training, one after the other on each rank, without a wait of "
                 "all ranks between them; the same as steps=N among the parameters")
      ->check(CLI::Range(1, 10'000))
      ->type_name("N");
}

void DeclareCostOptions(CLI::App& app, Flags& flags) {
  CLI::Option* cost = app.add_option(
      "--cost", flags.cost,
      "What actions cost, as F=10,B=20,p2p=1 (microseconds; or 2ms, 500ns), by the keys below; "
      "F=[1,2] gives a value per stage. Without any: F=I=W=1ms, B=2ms, p2p=0");
  cost->type_name("COSTS");
  app.add_option("--costs", flags.cost_file, "The same from a YAML file")
      ->type_name("FILE")
      ->excludes(cost);
  app.add_option("--work", flags.work,
                 "What F, B, I, W, collectives and memory are given for: each stage (the default), "
                 "a rank's stages together, or the whole model, divided by the layers that the "
                 "schedule's split gives them; so schedules with more stages do the same work")
      ->check(CLI::IsMember({"stage", "rank", "model"}))
      ->type_name("stage|rank|model");
  app.add_option("--mesh", flags.mesh,
                 "How many copies of the pipeline there are, as data=16,shard=8: instead of what "
                 "the cost file's mesh says; the other keys stay")
      ->type_name("KEY=N,…");
  app.add_option("--sharding", flags.sharding,
                 "What copies share out: nothing, the optimizer's state (ZeRO-1), gradients too "
                 "(ZeRO-2), or parameters too (ZeRO-3, FSDP); a schedule that does not gather and "
                 "reduce itself does so where it can. Instead of the cost file's")
      ->check(CLI::IsMember({"none", "optimizer", "gradients", "parameters"}))
      ->type_name("none|optimizer|gradients|parameters");
  app.add_option("--bucket", flags.bucket,
                 "Bytes of gradients that are reduced at once, as 25MiB (the default), instead of "
                 "the cost file's")
      ->type_name("BYTES");
}

void DeclareLayoutOption(CLI::App& app, Flags& flags) {
  app.add_option("--layout", flags.layout,
                 "Which messages share a communicator: all of them (shared), all to higher ranks "
                 "and all to lower ones (updown), those between two ranks (pair), those of one "
                 "direction between two (edge, the default)")
      ->check(CLI::IsMember({"shared", "updown", "pair", "edge"}))
      ->type_name("LAYOUT");
}

void DeclareMessagesOption(CLI::App& app, Flags& flags) {
  app.add_option("--messages", flags.messages,
                 "When a send or a receive begins: as soon as its communicator and its value are "
                 "there (early, the default), or only when all that its rank lists before it has "
                 "ended, as in a runtime that performs one list in order (as-written; the times "
                 "that lint gives). as-written is for a .csv in comms form, whose waits count too, "
                 "and for a lowered plan")
      ->check(CLI::IsMember({"early", "as-written"}))
      ->type_name("early|as-written");
}

void DeclareCheckOptions(CLI::App& app, Flags& flags) {
  app.add_option("--buffers", flags.buffers,
                 "Messages a channel holds that are sent and not received; 0, the default: a send "
                 "waits for its receive")
      ->check(CLI::Range(0, 1'000'000))
      ->type_name("K");
  app.add_flag("--lazy", flags.lazy,
               "Communicators connect at their first call, and block the host meanwhile");
  DeclareActivationsOption(app, flags);
  DeclareMemoryOption(app, flags, "--model, or ");
  DeclareHostMemoryOption(app, flags);
  app.add_option(
         "--model", flags.model,
         "The run file whose model the stages hold: bytes are those that a run on the CPU takes")
      ->type_name("RUN.yaml");
}

// The processes of a run, and this one's place among them.
void DeclareProcessOptions(CLI::App& app, Flags& flags) {
  CLI::Option* processes =
      app.add_option("--processes", flags.processes,
                     "Share the ranks out to so many processes of this host, started from here");
  processes->check(CLI::Range(1, 4096))->type_name("N");
  CLI::Option* rank = app.add_option("--rank", flags.rank,
                                     "Of several processes this one's number; mpirun, srun and "
                                     "torchrun say it by themselves, and the four that follow");
  CLI::Option* ranks = app.add_option("--ranks", flags.ranks, "How many processes there are");
  rank->check(CLI::Range(0, 1'000'000))->type_name("N")->needs(ranks)->excludes(processes);
  rank->excludes("--restarts");
  ranks->check(CLI::Range(1, 1'000'000))->type_name("N")->needs(rank);
  app.add_option("--local-rank", flags.local_rank, "This one's number on its host: which GPU")
      ->check(CLI::Range(0, 1'000'000))
      ->type_name("N");
  app.add_option("--master", flags.master,
                 "Where process 0 listens, as 10.0.0.1:29500; other than on the loopback the run "
                 "needs STRINGLINE_SECRET")
      ->type_name("HOST:PORT");
  app.add_option("--run-id", flags.run_id, "The same for all processes of this start, and no other")
      ->type_name("TEXT");
}

void DeclareTrainingOptions(CLI::App& app, Flags& flags) {
  DeclareAgain(app, flags);
  app.add_option("--text", flags.text, "Train on this text file instead, or evaluate on it")
      ->type_name("FILE");
  app.add_option("--out", flags.out, "Write results into this folder instead")->type_name("FOLDER");
  app.add_option("--steps", flags.steps, "Train this many steps instead")
      ->check(CLI::Range(1, 1'000'000'000))
      ->type_name("N");
  app.add_option(
         "--save", flags.save,
         "At the end, or after Ctrl-C, write the model into this folder, as transformers "
         "reads it: config.json, model.safetensors; a model that it does not know without a "
         "config.json, for --load; the optimizer's moments are in checkpoints only (--resume)")
      ->type_name("FOLDER");
  CLI::Option* load = app.add_option(
      "--load", flags.load,
      "Begin with the parameters in this folder, whatever schedule and P saved them; "
      "moments, learning rate and data begin anew");
  load->type_name("FOLDER");
  app.add_option(
         "--resume", flags.resume,
         "Go on from this checkpoint, or from the newest whole one in this folder, with any "
         "schedule, P, mesh and number of processes; auto: from the run file's "
         "checkpoint.folder, or from the start where it has none")
      ->type_name("FOLDER|auto")
      ->excludes(load);
  CLI::Option* evaluate = app.add_flag(
      "--evaluate", flags.evaluate,
      "Train nothing, and print the loss on the data of the run file's evaluate, or else of data: "
      "of "
      "the parameters of --load or --resume, or of those with which the training would begin");
  for (const char* const training : {"--out", "--steps", "--save"}) evaluate->excludes(training);
  app.add_option(
         "--restarts", flags.restarts,
         "When a process is lost, start all of them again from the last checkpoint, at most "
         "so many times; where the run file says 'elastic: true' on fewer copies of "
         "mesh.data")
      ->check(CLI::Range(0, 1'000'000))
      ->type_name("N")
      ->excludes(evaluate);
  app.add_option("--mesh-data", flags.mesh_data,
                 "Run with so many copies instead of mesh.data, of which it is a divisor; M of the "
                 "schedule grows, so that a step has as many sequences as before")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N");
  app.add_option("--link", flags.link,
                 "Make messages and all-to-alls between ranks this slow: latency and bandwidth, as "
                 "50us,2GB/s; what they wait for costs no processor")
      ->type_name("LINK");
  app.add_flag("--strict", flags.strict,
               "Perform the order without mercy: a message also waits for all that its rank lists "
               "before it, and the checker does not stop a plan whose ranks wait for each other. "
               "One that hangs under --layout hangs here, and is told so (exit status 1); one that "
               "ends gives the same losses");
  app.add_flag("--verbose", flags.verbose,
               "Also print which algorithms of the GPU's libraries were chosen, by size");
  DeclareProcessOptions(app, flags);
  CLI::Option* returns = app.add_flag(
      "--return", flags.comes_back,
      "Come back as a lost process of a run with heal: {return: true} that goes on without it; the "
      "rest of the command is that with which this process was started");
  for (const char* const starts : {"--processes", "--restarts"}) returns->excludes(starts);
  returns->excludes(evaluate);
}

void DeclareRehearsalOptions(CLI::App& app, Flags& flags) {
  app.add_option("--link", flags.link,
                 "How fast messages are: latency and bandwidth, as 5us,2GB/s, both of which occupy "
                 "the channel; by default as the costs say, where a latency does not")
      ->type_name("LINK");
  app.add_option("--message", flags.message, "Bytes of every message, as 1MB; none by default")
      ->type_name("BYTES");
  app.add_option("--steps", flags.steps,
                 "Perform this many steps and take the median; 5 by default")
      ->check(CLI::Range(1, 10'000))
      ->type_name("N");
}

void DeclarePictureOptions(CLI::App& app, Flags& flags) {
  app.add_option(
         "--width", flags.width,
         "Columns of the picture (the terminal's by default), or points of --svg and --picture")
      ->check(CLI::Range(40, 10'000))
      ->type_name("N");
  app.add_flag("--fold", flags.fold,
               "Fold the picture into as many bands as it takes to tell actions apart");
  app.add_flag(
      "--lanes", flags.lanes,
      "Draw on lines below every rank what it may wait for, where it takes time: messages on their "
      "way to it, collectives, copies to and from its host, and all-to-alls; where parts have "
      "costs "
      "or were recorded, computations are drawn part by part");
  app.add_option("--ranks", flags.shown_ranks, "Draw only these ranks, as 0..15 or 3")
      ->type_name("RANGE");
  app.add_option("--time", flags.shown_time,
                 "Draw only this stretch of the step, as 0..200ms; figures stay those of all of it")
      ->type_name("RANGE");
  app.add_option("--microbatches", flags.shown_microbatches,
                 "Draw only these, numbered through the whole step, as 0..7")
      ->type_name("RANGE");
  app.add_option("--color", flags.color, "Colours in the terminal: auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN");
  app.add_option("--svg", flags.svg, "Draw it into this file instead; --width is in points then")
      ->type_name("OUT.svg");
  app.add_option("--picture", flags.picture,
                 "The same as PDF, PNG or SVG, by the file's ending; PDF and PNG need librsvg")
      ->type_name("OUT.pdf");
  app.add_flag("--no-title", flags.no_title,
               "Of --svg and --picture: leave out the title, where a paper has a caption");
  app.add_option(
         "--palette", flags.palette,
         "Of --svg and --picture: color, which the colour-blind can tell apart, or grey, for print")
      ->check(CLI::IsMember({"color", "grey"}))
      ->type_name("color|grey");
  app.add_option("--html", flags.html, "Write a page to look at it in a browser instead")
      ->type_name("OUT.html");
  app.add_option("--perfetto", flags.perfetto, "Write a trace for ui.perfetto.dev instead")
      ->type_name("OUT.pftrace");
  app.add_option("--chrome", flags.chrome, "Write a trace in Chrome's JSON format instead")
      ->type_name("OUT.json");
  app.add_flag("--force", flags.force, "Write a page or a trace of more than 100 MB all the same");
}

void DeclareVariationOptions(CLI::App& app, Flags& flags) {
  app.add_option("--runs", flags.runs,
                 "With a jitter among the costs: simulate so many steps; 200 by default")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N");
  DeclareSeedOption(app, flags, "the first of them");
}

void DeclareJitterOptions(CLI::App& app, Flags& flags) {
  app.add_option("--jitter", flags.jitter,
                 "Also simulate steps whose computations take times drawn from normal "
                 "distributions around their costs with this standard deviation; of a schedule "
                 "with a window in the order of its lists and in ready order. In place of a "
                 "jitter among the costs")
      ->type_name("SHARE");
  app.add_option("--seeds", flags.seeds, "So many of them; 20 by default")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N");
}

void DeclareExpectations(CLI::App& app, Flags& flags) {
  app.add_option("--jitter", flags.jitter,
                 "Minimize the makespan of steps whose computations take times drawn from normal "
                 "distributions around their costs with this standard deviation: the draws of sim "
                 "--jitter. In place of a jitter among the costs")
      ->type_name("SHARE");
  app.add_option("--seeds", flags.seeds, "So many of them; 20 by default")
      ->check(CLI::Range(1, 1'000))
      ->type_name("N");
  app.add_option("--expect", flags.expect,
                 "Which of them is to be short: mean, all on average (the default); or worst, the "
                 "longest")
      ->check(CLI::IsMember({"mean", "worst"}))
      ->type_name("mean|worst");
}

void DeclareSearchOptions(CLI::App& app, Flags& flags) {
  CLI::Option* from = app.add_option(
      "--from", flags.from,
      "Begin with this schedule's order, and keep its stages where they are; of the library by its "
      "name. PARAMETERS are its own, then");
  from->type_name("FILE");
  DeclareScheduleOption(app, flags);
  app.add_option(
         "--place", flags.place,
         "Where stages live: line, v, 'loop N' or 'wave N' (N stages a rank); the rank of each "
         "stage, as [0,1,1,0]; any: the best of the words, which needs costs of the whole model. "
         "line by default")
      ->type_name("PLACE")
      ->excludes(from);
  app.add_option("--split", flags.split,
                 "any: also find which layers each stage holds, for costs of the whole model. "
                 "Otherwise as the schedule says, or evenly")
      ->check(CLI::IsMember({"any"}))
      ->type_name("any");
  app.add_option("--layers", flags.layers,
                 "How many layers --split any shares out, where no model's shape says it")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  app.add_option("--minimize", flags.minimize,
                 "makespan: the end of the last rank. span: the most that one rank takes, from its "
                 "first action to its last; and period: a further step, where every rank begins it "
                 "as soon as it has ended the one before, with its updates, as sim --steps 8 says. "
                 "Both only where a rank's optimizer step need not wait for the others'")
      ->check(CLI::IsMember({"makespan", "span", "period"}))
      ->type_name("makespan|span|period");
  DeclareExpectations(app, flags);
  app.add_option("--activations", flags.most_activations,
                 "Most stage activations that a rank may hold: a number, or of P and M, as 2*P")
      ->type_name("N");
  DeclareMemoryOption(app, flags, "");
  DeclareHostMemoryOption(app, flags);
  app.add_option("--kinds", flags.kinds,
                 "What may be used: F,B (no split of the backward), F,I,W (always split) or "
                 "F,B,I,W (the default)")
      ->check(CLI::IsMember({"F,B", "F,I,W", "F,B,I,W"}))
      ->type_name("F,B|F,I,W|F,B,I,W");
  app.add_flag("--pairs", flags.pairs,
               "F & B and F & I may share a rank, and take what the costs say (FB, or parts); a "
               "search knows no other groups, as F & F or B & B");
  app.add_option("--recompute", flags.recompute,
                 "Which stages recompute: none, all, or any, those for which what is found is "
                 "best; by default as the costs say (recompute). The costs with "
                 "recompute=[1,1,0,0] are then those of what was found")
      ->check(CLI::IsMember({"none", "all", "any"}))
      ->type_name("none|all|any");
  app.add_option("--offload", flags.offload,
                 "Which stages copy what their F keeps to the host until its backward: none (the "
                 "default); all, of every microbatch that waits long enough; or any, those for "
                 "which what is found is best, and no more than --memory asks for. Needs D, or "
                 "host.bandwidth, among the costs")
      ->check(CLI::IsMember({"none", "all", "any"}))
      ->type_name("none|all|any");
  app.add_option("--seconds", flags.seconds, "How long to search at most; 10 by default")
      ->check(CLI::Range(0.1, 1e6))
      ->type_name("S");
  app.add_option("--iterations", flags.iterations,
                 "Instead of a time: so many, which give the same result on every machine")
      ->check(CLI::Range(1, 2'000'000'000))
      ->type_name("N");
  DeclareSeedOption(app, flags, "chance");
  app.add_option("--emit", flags.emit, "Write the schedule that was found into this file")
      ->type_name("OUT.sched");
}

void DeclareTuneOptions(CLI::App& app, Flags& flags) {
  flags.seconds = 60;
  app.add_option("--global-batch", flags.global_batch,
                 "Sequences of a step, over all copies; 1024 by default")
      ->check(CLI::Range(1, 1'000'000'000))
      ->type_name("N");
  app.add_option("--pin", flags.pins,
                 "What is given, as tp=4,pp=8: of tp, cp, pp, ep, dp, vp (stages of a rank), "
                 "microbatch (sequences), recompute, sharding, schedule, split (even or "
                 "light-ends)")
      ->expected(1)
      ->take_all()
      ->type_name("KEY=VALUE,…");
  app.add_option("--seconds", flags.seconds, "How long to plan at most; 60 by default")
      ->check(CLI::Range(0.1, 1e6))
      ->type_name("S");
  app.add_option("--evaluations", flags.evaluations,
                 "Instead of a time: so many simulations, which give the same answer on every "
                 "machine")
      ->check(CLI::Range(1, 2'000'000'000))
      ->type_name("N");
  app.add_option("--jitter", flags.jitter,
                 "Judge the best choices by the mean of 20 steps whose computations take times "
                 "drawn from normal distributions around their costs with this standard deviation")
      ->type_name("SHARE");
  app.add_option("--slow", flags.slow,
                 "A GPU of the cluster that computes more slowly, as 3=10%; GPUs are numbered "
                 "along tp, cp, dp and then pp")
      ->expected(1)
      ->take_all()
      ->type_name("GPU=SHARE");
  app.add_option("--top", flags.top, "Rows of the table, each of another mesh; 12 by default")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N");
  app.add_option("--emit", flags.emit,
                 "Write the best choice into this new folder: run.yaml, costs.yaml with "
                 "hardware.yaml, schedule.sched, and the flags of Megatron-LM and TorchTitan")
      ->type_name("FOLDER");
  app.add_option("--svg", flags.svg,
                 "Also draw throughput over memory, with the choices that no other is better than "
                 "in both")
      ->type_name("OUT.svg");
  app.add_option("--html", flags.html, "Also write a page with that picture and the table")
      ->type_name("OUT.html");
}

void DeclareBenchOptions(CLI::App& app, Flags& flags) {
  CLI::Option* list = app.add_flag("--list", flags.list,
                                   "Only say which cases there are, and why one cannot be run");
  CLI::Option* again = app.add_flag(
      "--again", flags.again,
      "Use nothing of before: measure all cases anew, also those that the results hold, and search "
      "for the orders of search blocks anew");
  CLI::Option* page = app.add_option("--page", flags.page,
                                     "Also write the tables as a page, our figures beside torch's");
  page->type_name("FILE.md");
  CLI::Option* compare =
      app.add_flag("--compare", flags.compare, "Compare two results: FILE before, and FILE after");
  compare->excludes(list)->excludes(again)->excludes(page);
  app.add_option("--fail-slower", flags.fail_slower,
                 "Exit status 1 if one of our cases is slower, and by more than this, as 5%, or if "
                 "the figures cannot tell")
      ->type_name("SHARE")
      ->needs(compare);
}

void DeclareDiagnoseOptions(CLI::App& app, Flags& flags) {
  CLI::Option* schedule = app.add_option(
      "--schedule", flags.dumped_schedule,
      "The schedule that the ranks performed, or its name in the library: messages are named by "
      "its actions and lines");
  schedule->type_name("FILE");
  app.add_option("PARAMETERS", flags.parameters, "Of the schedule: NAME=VALUE, as P=4 M=8");
  app.add_option("--layout", flags.layout,
                 "Which messages outside of batches share a communicator, as for check; pair, the "
                 "default, is torch's with NCCL, and shared that where the group was given a "
                 "device_id")
      ->check(CLI::IsMember({"shared", "updown", "pair", "edge"}))
      ->type_name("LAYOUT");
  app.add_option("--ranks", flags.ranks,
                 "How many ranks the job had, where the dumps do not say it (gloo)")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N");
}

// FILE and what else stands without a name, with the options of a command that reads no FILE.
void DeclareArguments(const Command& command, CLI::App& app, Flags& flags) {
  if (command.options & kShellArgument) {
    app.add_option("SHELL", flags.shell, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  } else if (command.options & kSearchOptions) {
    app.add_option("PARAMETERS", flags.parameters, "NAME=VALUE: P=8 M=32");
    DeclareSearchOptions(app, flags);
  } else if (command.options & kManyFiles) {
    app.add_option("FILE", flags.files, command.file)->required();
  } else if ((command.options & kNoFile) == 0) {
    app.add_option("FILE", flags.file, command.file)->required();
  }
  if (command.options & kActionArgument) {
    app.add_option("ACTION", flags.action, "Stage, kind and microbatch, as plans print it: 3B7")
        ->required();
    app.add_flag("--all", flags.all, "Show every link of the chain, however many");
  }
}

// The form of what a command writes, its file, and the part of the input that is written.
void DeclareForms(const Command& command, CLI::App& app, Flags& flags) {
  if (command.options & kToOption) {
    app.add_option("--to", flags.to,
                   "torch-compute: what a rank computes; torch-comms: with messages, collectives "
                   "and waits, for torch 2.15 and later; torch-comms-2.14: without waits, for "
                   "torch before that")
        ->required()
        ->check(CLI::IsMember({"torch-compute", "torch-comms", "torch-comms-2.14"}))
        ->type_name("FORM");
  }
  if (command.options & kOutOption) {
    app.add_option("--out", flags.out, "Write into this file instead")->type_name("FILE");
  }
  if (command.options & kStepOption) {
    app.add_option("--step", flags.step,
                   "Of traces: which step, as the profiler counts (ProfilerStep#N), or from 0; by "
                   "default the last that is whole on every rank")
        ->check(CLI::Range(0, 2'000'000'000))
        ->type_name("N");
  }
  if (command.options & kKernelOptions) DeclareKernelOptions(app, flags);
  if (command.options & kStageOption) {
    app.add_option("--stage", flags.stage, "Only this stage, as plans print it: 2, or up[1]")
        ->type_name("STAGE");
    DeclareAgain(app, flags);
  }
}

}  // namespace

void DeclareOptions(const Command& command, CLI::App& app, Flags& flags) {
  app.set_help_flag();
  DeclareArguments(command, app, flags);
  if (command.options & kPlanOptions) DeclarePlanOptions(app, flags);
  if (command.options & kPlanOptions && !(command.options & (kTrainingOptions | kLinkOptions))) {
    DeclarePlanStepsOption(app, flags);
  }
  if (command.options & kLoweredOption) {
    app.add_flag("--lowered", flags.lowered, "With the sends and receives that the actions imply");
  }
  if (command.options & kCostOptions) DeclareCostOptions(app, flags);
  if (command.options & kTimelineOption) {
    app.add_option("--timeline", flags.timeline_out, "Also write the timeline to this file")
        ->type_name("FILE");
  }
  if (command.options & kPictureOptions) DeclarePictureOptions(app, flags);
  DeclareForms(command, app, flags);
  if (command.options & kForOption) {
    app.add_option("--for", flags.ranges,
                   "For all these values, as --for P=2..64 --for M=P..4*P; also "
                   "FIRST..LAST..STEP and lists with commas. A range may use the parameters before")
        ->expected(1)
        ->take_all()
        ->type_name("NAME=RANGE");
  }
  if (command.options & kLayoutOption) DeclareLayoutOption(app, flags);
  if (command.options & kMessagesOption) DeclareMessagesOption(app, flags);
  if (command.options & kSlowOption) {
    app.add_option(
           "--slow", flags.slow,
           "A rank that computes more slowly, as 3=10%, or a link between two ranks whose messages "
           "take longer, as 3-4=50% (3->4=50% in one direction)")
        ->expected(1)
        ->take_all()
        ->type_name("RANK=SHARE|LINK=SHARE");
  }
  if (command.options & kJitterOptions) DeclareJitterOptions(app, flags);
  if (command.options & kVariationOptions) DeclareVariationOptions(app, flags);
  if (command.options & kPlotOption) {
    app.add_option("--plot", flags.plot, "With --for: also draw the bubbles into this file")
        ->type_name("OUT.svg");
  }
  if (command.options & kCheckOptions) DeclareCheckOptions(app, flags);
  if (command.options & kFormatOptions) {
    app.add_flag("--check", flags.check, "Change nothing; say what would change, exit status 1");
    app.add_flag("--stdout", flags.to_stdout, "Print the result instead");
  }
  if (command.options & kTrainingOptions) DeclareTrainingOptions(app, flags);
  if (command.options & kBenchOptions) DeclareBenchOptions(app, flags);
  if (command.options & kTuneOptions) DeclareTuneOptions(app, flags);
  if (command.options & kDiagnoseOptions) DeclareDiagnoseOptions(app, flags);
  if (command.options & kLinkOptions) DeclareRehearsalOptions(app, flags);
  if ((command.options & kNoJson) == 0) {
    app.add_flag("--json", flags.json, "Answer with one JSON object; tools/JSON.md lists its keys");
  }
  app.add_flag("-h,--help", flags.help, "Print this");
}

namespace {

// "unknown option '--widht'; did you mean '--width'?" or "" if every option is known.
std::string UnknownOption(const CLI::App& app, const std::vector<std::string>& args) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (const std::string& arg : args) {
    const std::string name = arg.substr(0, arg.find('='));
    if (name.size() < 2 || name[0] != '-' || name == "-h" || absl::ascii_isdigit(name[1])) continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string close = ClosestName(name, known);
    return absl::StrCat("unknown option '", name, "'",
                        close.empty() ? "" : absl::StrCat("; did you mean '", close, "'?"));
  }
  return "";
}

// "; write 1000000" if the refusal names a value of the arguments like 1e6; otherwise empty.
std::string HintForNumber(const std::string& refusal, const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    const std::string value = arg.substr(arg.find('=') + 1);
    const std::string whole = WrittenOut(value);
    if (!whole.empty() && refusal.find(value) != std::string::npos) {
      return absl::StrCat("; write ", whole);
    }
  }
  return "";
}

// A word NAME=VALUE is a parameter, unless its name has a slash or it is the path of a file.
bool IsParameter(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || word.find('/') < equals) return false;
  std::error_code unknown;
  return !std::filesystem::exists(word, unknown);
}

// FILE … NAME=VALUE …, in any order.
void SplitFilesAndParameters(Flags* flags) {
  std::vector<std::string> words = std::move(flags->files);
  words.insert(words.end(), flags->parameters.begin(), flags->parameters.end());
  flags->files.clear();
  flags->parameters.clear();
  for (std::string& word : words) {
    (IsParameter(word) ? flags->parameters : flags->files).push_back(std::move(word));
  }
  if (!flags->files.empty()) flags->file = flags->files.front();
}

}  // namespace

namespace {

absl::StatusOr<Flags> ParseSide(const Command& command, Flags flags,
                                const std::vector<std::string>& args) {
  CLI::App app;
  DeclareOptions(command, app, flags);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::RequiredError&) {
    const char* const what = command.options & kShellArgument            ? "a shell"
                             : flags.file.empty() && flags.files.empty() ? "a file"
                             : command.options & kActionArgument         ? "an action"
                                                                         : "--to";
    return absl::InvalidArgumentError(
        absl::StrCat("'", command.name, "' needs ", what, ", as in: ", command.example));
  } catch (const CLI::ParseError& error) {
    const std::string unknown = UnknownOption(app, args);
    const std::string refusal = error.what();
    return absl::InvalidArgumentError(
        unknown.empty() ? absl::StrCat(refusal, HintForNumber(refusal, args)) : unknown);
  }
  constexpr uint32_t kTakesParameters = kPlanOptions | kDiagnoseOptions | kStepOption;
  if ((command.options & kManyFiles) && (command.options & kTakesParameters)) {
    SplitFilesAndParameters(&flags);
    if (flags.files.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", command.name, "' needs a file, as in: ", command.example));
    }
  } else if (command.options & kManyFiles) {
    flags.file = flags.files.front();
  }
  return flags;
}

// The options of the second side, and else those of the first.
absl::StatusOr<Flags> ParseSecondSide(const Command& command, const Flags& first,
                                      const std::vector<std::string>& args) {
  SL_ASSIGN_OR_RETURN(const Flags said, ParseSide(command, {}, args));
  Flags inherited = first;
  inherited.offered = std::move(inherited.parameters);
  inherited.files.clear();
  inherited.parameters.clear();
  inherited.schedule.clear();
  if (!said.cost.empty()) inherited.cost_file.clear();
  if (!said.cost_file.empty()) inherited.cost.clear();
  return ParseSide(command, std::move(inherited), args);
}

// Output options count for both sides, on whichever side they stand.
void ShareOutput(const Flags& second, Flags* first) {
  for (bool Flags::*const flag :
       {&Flags::json, &Flags::fold, &Flags::lanes, &Flags::no_title, &Flags::force}) {
    first->*flag = second.*flag;
  }
  for (std::string Flags::*const option :
       {&Flags::svg, &Flags::picture, &Flags::html, &Flags::perfetto, &Flags::chrome, &Flags::color,
        &Flags::palette, &Flags::shown_ranks, &Flags::shown_time, &Flags::shown_microbatches}) {
    first->*option = second.*option;
  }
  first->width = second.width;
}

}  // namespace

absl::StatusOr<Flags> ParseFlags(const Command& command, const std::vector<std::string>& args) {
  Flags flags;
  for (const std::string& arg : args) {
    if (arg == "--help" || arg == "-h") {
      flags.help = true;
      return flags;
    }
  }
  const auto sides =
      command.options & kTwoSides ? std::find(args.begin(), args.end(), "--") : args.end();
  SL_ASSIGN_OR_RETURN(flags, ParseSide(command, {}, {args.begin(), sides}));
  flags.arguments = args;
  if (sides == args.end()) return flags;
  SL_ASSIGN_OR_RETURN(Flags second, ParseSecondSide(command, flags, {sides + 1, args.end()}));
  ShareOutput(second, &flags);
  flags.second_side.push_back(std::move(second));
  return flags;
}

}  // namespace stringline
