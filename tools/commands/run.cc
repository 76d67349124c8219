// stringline run: trains a model with a schedule, and compares the run with the simulation. Files
// and folders are tried before the training starts. TrainIntoFolders trains; here its result is
// printed, as text or as JSON.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/checkpoint/model_folder.h"
#include "executor/engine/available_memory.h"
#include "executor/engine/link.h"
#include "executor/engine/lost_process.h"
#include "executor/engine/repeated_step.h"
#include "executor/processes/identity.h"
#include "executor/run/run_config.h"
#include "executor/run/sample_file.h"
#include "executor/run/train.h"
#include "executor/training/data.h"
#include "executor/training/trainer.h"
#include "schedlang/ask/session.h"
#include "schedlang/base/made_folders.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/median.h"
#include "schedlang/orders/only_forwards.h"
#include "tools/commands/command.h"
#include "tools/io/json.h"
#include "tools/io/requests.h"
#include "tools/io/stop_signals.h"
#include "tools/training/agreement.h"
#include "tools/training/choose_backend.h"
#include "tools/training/healing_run.h"
#include "tools/training/local_processes.h"
#include "tools/training/recorded_run.h"
#include "tools/training/restarts.h"
#include "tools/training/strict_plan.h"
#include "tools/view/compare.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

// The run file with the command line's wishes.
absl::StatusOr<RunConfig> LoadConfig(const Flags& flags) {
  SL_ASSIGN_OR_RETURN(RunConfig config, ReadRunConfig(flags.file));
  if (flags.evaluate) {
    config.evaluate.alone = true;
    config.evaluate.every = 0;
    if (config.evaluate.data.text.empty() && config.evaluate.data.tokens.empty() &&
        config.evaluate.data.samples.empty()) {
      config.evaluate.data = config.data;
    }
  }
  if (!flags.text.empty()) {
    DataFiles& data = flags.evaluate ? config.evaluate.data : config.data;
    if (!data.packed.lengths.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--text: 'packed' of ", flags.file,
                       " has the lengths of other documents; {end: TOKEN} would help"));
    }
    const absl::Status takes = CheckTakesTexts(config.shape);
    if (!takes.ok()) return absl::InvalidArgumentError(absl::StrCat("--text: ", takes.message()));
    data = {.text = flags.text, .packed = data.packed};
  }
  if (!flags.load.empty()) {  // their sizes are read, their values not wanted
    config.model_folder.clear();
    config.model_export.clear();
  }
  const std::string& origin = flags.load.empty() ? config.model_folder : flags.load;
  if (!origin.empty()) SL_RETURN_IF_ERROR(KeepGiven(origin, &config.shape));
  if (flags.steps > 0) config.steps = flags.steps;
  config.resume = flags.resume;
  if (config.resume == kResumeAuto && config.checkpoint.every == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--resume auto: ", flags.file, " says no checkpoint.folder"));
  }
  if (flags.mesh_data > 0) SL_RETURN_IF_ERROR(UseFewerCopies(flags.mesh_data, &config));
  if (!flags.layout.empty()) config.layout = LayoutOf(flags);
  if (!flags.link.empty()) {
    const absl::StatusOr<LinkSpeed> link = ParseLinkSpeed(flags.link);
    if (!link.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--link: ", link.status().message()));
    }
    config.link = *link;
  }
  config.strict = flags.strict;
  return config;
}

// --out, or out/NAME where NAME is the run file's folder.
std::string OutputFolder(const Flags& flags) {
  if (!flags.out.empty()) return flags.out;
  std::error_code error;
  const fs::path file = fs::absolute(flags.file, error);
  return (fs::path("out") / file.parent_path().filename()).string();
}

std::string PrintLeft(double seconds) {
  const int64_t whole = std::llround(seconds);
  if (whole < 60) return absl::StrCat(whole, " s");
  return absl::StrFormat("%d min %02d s", whole / 60, whole % 60);
}

// The data of a run, held for the whole run.
class LoadedData {
 public:
  static absl::StatusOr<LoadedData> Load(const DataFiles& files, const AnyShape& shape) {
    LoadedData loaded;
    if (!files.samples.empty()) {
      SL_ASSIGN_OR_RETURN(SampleFile samples, SampleFile::Open(files.samples, shape.sample()));
      loaded.samples_.emplace(std::move(samples));
    } else if (files.tokens.empty()) {
      SL_ASSIGN_OR_RETURN(loaded.text_, ReadCorpus(files.text));
      loaded.entropy_ = ConditionalEntropy(loaded.text_);
    } else {
      SL_ASSIGN_OR_RETURN(TokenFile tokens,
                          TokenFile::Open(files.tokens, files.dtype, shape.vocabulary()));
      loaded.tokens_.emplace(std::move(tokens));
    }
    if (files.packed.end >= 0) {
      loaded.documents_ = Documents::EndingWith(files.packed.end);
    } else if (files.packed.wanted()) {
      SL_ASSIGN_OR_RETURN(loaded.documents_,
                          Documents::Read(files.packed.lengths, loaded.data().size()));
    }
    return loaded;
  }
  TrainingData data() const {
    if (samples_) return *samples_;
    const TrainingData whole = tokens_ ? TrainingData(*tokens_) : TrainingData(text_);
    return documents_ ? whole.PackedOf(*documents_) : whole;
  }
  // Null where the data is not packed.
  const Documents* documents() const { return documents_ ? &*documents_ : nullptr; }
  // The text's order-1 conditional entropy.
  std::optional<double> entropy() const { return entropy_; }

 private:
  std::string text_;
  std::optional<TokenFile> tokens_;
  std::optional<SampleFile> samples_;
  std::optional<Documents> documents_;
  std::optional<double> entropy_;
};

// A line about a file of parameters that no config is saved beside.
std::string WithoutConfig(const RunConfig& config) {
  if (!config.model_export.empty()) return "without a config.json, under the program's own names\n";
  const std::string why = WhySavedWithoutConfig(config.shape);
  return why.empty() ? "" : absl::StrCat("without a config.json, for --load alone: ", why, "\n");
}

void PrintBeginning(const Plan& plan, const RunConfig& config, const LoadedData& loaded, bool saves,
                    const std::string& places, std::ostream& out) {
  out << plan.schedule << " " << PrintParameters(plan) << ": " << plan.stages.size()
      << " stages on " << plan.ranks() << (plan.ranks() == 1 ? " rank" : " ranks")
      << (config.shape.dtype == DType::kBF16 ? ", in bf16\n" : "\n");
  if (!places.empty()) out << places << "\n";
  if (!config.deterministic) {
    out << "not deterministic: gradients of attention are added up in any order\n";
  }
  if (saves && !WithoutConfig(config).empty()) out << "--save:  " << WithoutConfig(config);
  const int64_t size = loaded.data().size();
  if (loaded.entropy()) {
    out << absl::StreamFormat(
        "text: %s, %d bytes\nits order-1 conditional entropy: %.4f nats per byte; a model that "
        "sees "
        "one byte back cannot get below\n\n",
        config.data.text, size, *loaded.entropy());
  } else if (!config.data.samples.empty()) {
    out << absl::StreamFormat("samples: %s, %d of them\n\n", config.data.samples, size);
  } else {
    out << absl::StreamFormat("tokens: %s, %d of them\n\n", config.data.tokens, size);
  }
  if (loaded.documents()) {
    out << "packed: " << loaded.documents()->Describe()
        << "; the last token of a document predicts nothing\n\n";
  }
  out << std::flush;
}

void PrintResumed(const ResumedRun& resumed, const Output& output) {
  for (const std::string& why : resumed.skipped) {
    output.err << "stringline: warning: a checkpoint is not whole and is passed over: " << why
               << "\n";
  }
  if (output.json) return;
  output.out << "going on after step " << resumed.step << ": " << resumed.folder << "\n\n"
             << std::flush;
}

// The words for what is predicted and for what is counted, of which one has so many tokens with a
// target.
struct Units {
  const char* target;
  const char* counted;
  int64_t tokens;
};
Units UnitsOf(const DataFiles& data, const AnyShape& shape) {
  if (!data.samples.empty()) return {"target", "samples", shape.sample().targets};
  return {data.tokens.empty() ? "byte" : "token", "tokens", 1};
}

void PrintProgress(const TrainProgress& progress, const Units& units, std::ostream& out) {
  const std::string steps = absl::StrCat(progress.steps);
  out << absl::StreamFormat("step %*d/%s   loss %.4f   %6.0f %s/s   bubble %4.1f %%   %s left",
                            static_cast<int>(steps.size()), progress.step, steps,
                            progress.loss_nats,
                            progress.tokens_per_second / static_cast<double>(units.tokens),
                            units.counted, 100 * progress.bubble, PrintLeft(progress.left_s));
  if (progress.validation_nats) {
    out << absl::StreamFormat("   validation %.4f", *progress.validation_nats);
  }
  out << "\n" << std::flush;
}

// The share of the all-to-alls hidden under computation, if any ran, and the tokens that experts
// dropped.
void PrintExperts(const TrainResult& result, std::ostream& out) {
  const NetworkSums& network = result.network;
  if (network.network_ns > 0) {
    out << absl::StreamFormat(
        "all-to-alls of these steps: on average %s on all ranks, %s of it waiting for partners, "
        "%.1f %% of the transfer under computation\n",
        PrintTime(network.network_ns), PrintTime(network.waiting_ns), 100 * network.hidden_share());
  }
  if (result.dropped > 0) {
    out << absl::StreamFormat(
        "dropped: %d slots beyond the capacity of their experts, in %d steps\n", result.dropped,
        result.steps);
  }
}

void PrintEnd(const Plan& plan, const RunConfig& config, const RecordedRun& run,
              std::optional<double> entropy, const Output& output) {
  std::ostream& out = output.out;
  const TrainResult& result = run.result;
  const RunFiles& files = *run.files;
  const Units units = UnitsOf(config.data, config.shape);
  out << absl::StreamFormat(
      "\n%d parameters, %d steps of %d %s in %s: %.0f %s/s\n", result.params, result.steps,
      result.tokens_per_step / units.tokens, units.counted, PrintLeft(result.elapsed_s),
      result.tokens_per_second / static_cast<double>(units.tokens), units.counted);
  out << absl::StreamFormat("loss %.4f -> %.4f nats per %s", result.first_loss_nats,
                            result.final_loss_nats, units.target);
  if (entropy) {
    out << absl::StreamFormat(", %s the text's order-1 conditional entropy of %.4f",
                              result.final_loss_nats < *entropy ? "below" : "not yet below",
                              *entropy);
  }
  if (!result.evaluations.empty()) {
    const Evaluated& last = result.evaluations.back();
    out << absl::StreamFormat(", validation loss %.4f on %d sequences", last.loss_nats,
                              last.sequences);
  }
  out << "\n\n";
  const bool is_terminal = &out == &std::cout && isatty(STDOUT_FILENO) != 0;
  Picture picture;
  picture.width = TerminalWidth();
  picture.colors = ChooseColors("auto", is_terminal);
  const bool one = plan.steps == 1;
  out << (one ? "The last step" : absl::StrCat("The last ", plan.steps, " steps"))
      << ", and what the simulator makes of the costs measured in this run:\n\n"
      << Compare(result.measured, result.simulated, picture);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (plan.ranks() > cores) {
    out << absl::StreamFormat(
        "(%d ranks share %d cores here: what an action took includes waiting for one)\n",
        plan.ranks(), cores);
  }
  const auto simulated_ns = static_cast<double>(MeasureBubbles(result.simulated).makespan_ns);
  const int64_t median_ns = MedianOf(result.makespans_ns);
  out << absl::StreamFormat("the median of the %d %s that gave the costs took %s: %.1f %% off\n",
                            result.makespans_ns.size(), one ? "steps" : "runs of the schedule",
                            PrintTime(median_ns),
                            100 * std::fabs(simulated_ns / static_cast<double>(median_ns) - 1));
  PrintExperts(result, out);
  if (config.data.packed.wanted()) {
    out << "the costs are means over microbatches, whose documents differ: `microbatch.tokens` in "
           "a "
           "cost file says their lengths\n";
  }
  const std::string host = Describe(result.host, result.not_captured);
  if (!host.empty()) out << "host: " << host << "\n";
  out << "\nwritten: " << files.measured << "\n         " << files.simulated << "\n         "
      << files.costs << "\n         " << files.losses << "\n";
  if (!result.checkpoint.empty()) out << "checkpoint: " << result.checkpoint << "\n";
  if (!run.saved.empty()) out << "saved:   " << run.saved << "\n";
  if (!run.saved.empty() && !WithoutConfig(config).empty()) {
    out << "         " << WithoutConfig(config);
  }
  out << "next:    stringline show " << files.measured << "\n         stringline sim "
      << config.schedule_file << " " << PrintParameters(plan) << " --costs " << files.costs
      << (config.layout == CommLayout::kEdge ? ""
                                             : absl::StrCat(" --layout ", NameOf(config.layout)))
      << "\n";
}

// The training had ended before, and was killed before all of it was saved.
void PrintFinished(const RecordedRun& run, const Output& output) {
  output.out << "nothing is left to train: all " << run.result.steps
             << " steps are in the checkpoint\nwritten: " << run.losses << "\n";
  if (!run.saved.empty()) output.out << "saved:   " << run.saved << "\n";
}

// "stopped by SIGINT after step 12 of 300"
std::string PrintStop(const RunConfig& config, const RecordedRun& run) {
  return absl::StrCat("stopped by ", run.signal == 0 ? "another process" : NameOfSignal(run.signal),
                      " after step ", run.result.steps, " of ", config.steps);
}

// On standard output as well: the run was asked to end, and did.
void PrintStopped(const RunConfig& config, const RecordedRun& run, const Output& output) {
  output.out << "\n"
             << PrintStop(config, run) << "\nwritten: " << run.losses << ", up to this step\n";
  if (!run.result.checkpoint.empty()) {
    output.out << "checkpoint: " << run.result.checkpoint << "\nnext:    the same with --resume "
               << config.checkpoint.folder << " goes on after this step\n";
    if (!run.saved.empty()) output.out << "saved:   " << run.saved << "\n";
  } else if (run.saved.empty()) {
    output.out << "no parameters are saved: they are with --save FOLDER\n";
  } else {
    output.out << "saved:   " << run.saved
               << "\nnext:    the same with --load FOLDER goes on with these parameters\n";
  }
}

// A list whatever their number: braces with two texts are a key and its value.
Json ListOf(const std::vector<std::string>& files) { return files; }

Json RankBytesAsJson(const std::vector<RankBytes>& ranks) {
  Json list = Json::array();
  for (const RankBytes& rank : ranks) {
    list.push_back(Json{{"planned", rank.planned}, {"allocated", rank.allocated}});
  }
  return list;
}

// Host times by kind of step, each null if no such step was given to the devices; null for other
// devices.
Json HostAsJson(const TrainResult& result) {
  const HostTime& host = result.host;
  if (host.captured_steps + host.issued_steps == 0) return nullptr;
  return {{"captured", host.captured_steps > 0 ? Json(Microseconds(host.captured())) : Json()},
          {"issued", host.issued_steps > 0 ? Json(Microseconds(host.issued())) : Json()}};
}

// A time of every step, in microseconds.
Json StepTimesAsJson(const TrainResult& result, int64_t StepTime::*time) {
  Json list = Json::array();
  for (const StepTime& step : result.step_times) list.push_back(Microseconds(step.*time));
  return list;
}

Json ValidationsAsJson(const std::vector<Evaluated>& evaluations) {
  Json list = Json::array();
  for (const Evaluated& one : evaluations) {
    list.push_back(
        {{"step", one.step}, {"loss_nats", one.loss_nats}, {"sequences", one.sequences}});
  }
  return list;
}

Json ResumedAsJson(const ResumedRun& resumed) {
  if (resumed.folder.empty()) return nullptr;
  return {{"folder", resumed.folder}, {"step", resumed.step}, {"skipped", ListOf(resumed.skipped)}};
}

// The figures of a run, finished or stopped.
Json StepsAsJson(const Plan& plan, const RecordedRun& run, std::optional<double> entropy) {
  const TrainResult& result = run.result;
  return {{"schedule", plan.schedule},
          {"parameters", ParametersAsJson(plan.parameters)},
          {"params", result.params},
          {"steps", result.steps},
          {"tokens_per_step", result.tokens_per_step},
          {"tokens_per_second", result.tokens_per_second},
          {"elapsed_s", result.elapsed_s},
          {"steps_us", StepTimesAsJson(result, &StepTime::wall_ns)},
          {"processor_us", StepTimesAsJson(result, &StepTime::processor_ns)},
          {"resident_bytes", PeakResidentBytes()},
          {"first_loss_nats", result.first_loss_nats},
          {"final_loss_nats", result.final_loss_nats},
          {"order_1_entropy_nats", entropy ? Json(*entropy) : Json(nullptr)},
          {"losses", result.losses_nats},
          {"validations", ValidationsAsJson(result.evaluations)},
          {"aux_loss", result.aux_loss_nats},
          {"dropped", result.dropped},
          {"peak_bytes", RankBytesAsJson(result.rank_bytes)},
          {"host_us", HostAsJson(result)},
          {"not_captured", result.not_captured.empty() ? Json() : Json(result.not_captured)},
          {"resumed", ResumedAsJson(result.resumed)},
          {"checkpoint", result.checkpoint.empty() ? Json() : Json(result.checkpoint)},
          {"saved", run.saved.empty() ? Json::array() : ListOf({run.saved})}};
}

Json StoppedAsJson(const Plan& plan, const RunConfig& config, const RecordedRun& run,
                   std::optional<double> entropy) {
  Json json = {{"ok", false},
               {"error", PrintStop(config, run)},
               {"findings", Json::array()},
               {"stopped",
                {{"signal", run.signal == 0 ? Json() : Json(NameOfSignal(run.signal))},
                 {"step", run.result.steps}}}};
  json.update(StepsAsJson(plan, run, entropy));
  json["files"] = ListOf({run.losses});
  return json;
}

// A run that had nothing left to train has no measured step.
Json FinishedAsJson(const Plan& plan, const RecordedRun& run, std::optional<double> entropy) {
  Json json = {{"ok", true}};
  json.update(StepsAsJson(plan, run, entropy));
  json["stopped"] = nullptr;
  json["files"] = ListOf({run.losses});
  return json;
}

Json ResultAsJson(const Plan& plan, const RecordedRun& run, std::optional<double> entropy) {
  if (!run.files) return FinishedAsJson(plan, run, entropy);
  const Bubbles measured = MeasureBubbles(run.result.measured);
  const Bubbles simulated = MeasureBubbles(run.result.simulated);
  const RunFiles& files = *run.files;
  const std::vector<int64_t>& steps_ns = run.result.makespans_ns;
  const double mean_ns =
      std::accumulate(steps_ns.begin(), steps_ns.end(), 0.0) / static_cast<double>(steps_ns.size());
  Json json = {{"ok", true}};
  json.update(StepsAsJson(plan, run, entropy));
  json.update(
      Json{{"measured_us", Microseconds(measured.makespan_ns)},
           {"measured_bubble", measured.rate},
           {"reconstructed", ReconstructionAsJson(run.result.measured)},
           {"simulated_us", Microseconds(simulated.makespan_ns)},
           {"simulated_bubble", simulated.rate},
           {"misprediction", Misprediction(run.result.measured, run.result.simulated)},
           {"step_us",
            {{"mean", Microseconds(std::llround(mean_ns))},
             {"median", Microseconds(MedianOf(run.result.makespans_ns))},
             {"last", Microseconds(measured.makespan_ns)}}},
           {"predicted_us", Microseconds(simulated.makespan_ns)},
           {"network_us", Microseconds(run.result.network.network_ns)},
           {"waiting_us", Microseconds(run.result.network.waiting_ns)},
           {"hidden_us", Microseconds(run.result.network.hidden_ns)},
           {"exposed_us", Microseconds(run.result.network.exposed_ns)},
           {"stopped", nullptr},
           {"files", ListOf({files.measured, files.simulated, files.costs, files.losses})}});
  return json;
}

// The status that a shell sees for a process ended by the signal.
int StatusOfSignal(int signal) { return 128 + signal; }

// The choices of the GPU's libraries; the CPU's kernels have nothing to choose.
void PrintChosen(const Trainer& trainer, std::ostream& out) {
  const std::string chosen = trainer.DescribeKernels();
  out << (chosen.empty() ? "--verbose: nothing was chosen for the CPU\n" : chosen) << "\n"
      << std::flush;
}

// The identity of this process among several.
absl::StatusOr<Identity> IdentityOf(const Flags& flags) {
  IdentityFlags said;
  if (flags.rank >= 0) said.rank = flags.rank;
  if (flags.ranks >= 0) said.ranks = flags.ranks;
  if (flags.local_rank >= 0) said.local_rank = flags.local_rank;
  said.master = flags.master;
  said.run_id = flags.run_id;
  const auto environment = [](const char* name) -> const char* { return std::getenv(name); };
  SL_ASSIGN_OR_RETURN(Identity identity, FindIdentity(said, environment));
  SL_ASSIGN_OR_RETURN(identity.secret, FindSecret(identity, environment));
  return identity;
}

// The data of evaluations, if the run has some.
absl::StatusOr<std::optional<LoadedData>> LoadValidation(const RunConfig& config) {
  if (!config.evaluate.wanted()) return std::nullopt;
  SL_ASSIGN_OR_RETURN(LoadedData loaded, LoadedData::Load(config.evaluate.data, config.shape));
  return loaded;
}

// The plans of a run.
struct RunPlans {
  Plan plan;
  std::optional<Plan> of_evaluations;
};

// The exit status, or nothing where the run goes on with other processes; where processes of a run
// that heals have lost each other, the error.
absl::StatusOr<std::optional<int>> TrainAndReport(const RunConfig& config, const RunPlans& plans,
                                                  const RunFolders& folders,
                                                  const Identity& identity, const Heals& heals,
                                                  bool verbose, const Output& output) {
  const Plan& plan = plans.plan;
  const IgnoredSignal file_limit(SIGXFSZ);  // a write past the limit is an error, not the end
  const absl::StatusOr<LoadedData> loaded = LoadedData::Load(config.data, config.shape);
  const absl::StatusOr<std::optional<LoadedData>> validation = LoadValidation(config);
  absl::Status ready = loaded.ok() ? validation.status() : loaded.status();
  const bool first = identity.process == 0;
  MadeFolders made;  // removes empty folders at the end
  for (const std::string& folder : {folders.out, folders.save}) {
    if (first && !folder.empty() && ready.ok()) ready = TryFolder(folder, &made);
  }
  if (!ready.ok()) {
    const int status = Fail(output, ready.message());
    TellOthers(config, identity, ready);
    return status;
  }
  const std::optional<double> entropy = loaded->entropy();
  const auto begin = [&](const Trainer& trainer) {
    if (output.json || identity.healed > 0) return;
    PrintBeginning(plan, config, *loaded, !folders.save.empty(), trainer.DescribePlaces(),
                   output.out);
    const std::string groups = trainer.DescribeGroups();
    if (!groups.empty()) output.out << groups << "\n\n" << std::flush;
    if (verbose) PrintChosen(trainer, output.out);
  };
  const auto resumed = [&](const ResumedRun& from) { PrintResumed(from, output); };
  const auto report = [&](const TrainProgress& progress) {
    if (!output.json) PrintProgress(progress, UnitsOf(config.data, config.shape), output.out);
  };
  const auto warn = [&](const std::string& what) {
    output.err << "stringline: warning: " << what << "\n" << std::flush;
  };
  std::optional<EvaluationOfRun> evaluation;
  if (plans.of_evaluations) {
    evaluation.emplace(EvaluationOfRun{*plans.of_evaluations, (*validation)->data()});
  }
  const absl::StatusOr<RecordedRun> run =
      TrainIntoFolders(config, plan, loaded->data(), evaluation, folders, identity, begin, resumed,
                       report, warn, heals);
  if (!run.ok()) {
    if (heals.healing != nullptr && IsLost(run.status())) return run.status();
    const int status = Fail(output, run.status().message());
    return IsLost(run.status()) ? kLost : status;
  }
  if (run->result.changes) return std::optional<int>();
  const bool stopped = run->result.stopped;
  if (!first) {
    // The first process tells.
  } else if (output.json) {
    WriteJson(output.out, stopped ? StoppedAsJson(plan, config, *run, entropy)
                                  : ResultAsJson(plan, *run, entropy));
  } else if (stopped) {
    PrintStopped(config, *run, output);
  } else if (!run->files) {
    PrintFinished(*run, output);
  } else {
    PrintEnd(plan, config, *run, entropy, output);
  }
  return stopped ? StatusOfSignal(run->signal == 0 ? SIGTERM : run->signal) : kOk;
}

// run --evaluate.
int EvaluateAndReport(const RunConfig& config, const Plan& plan, const Plan& of_evaluations,
                      const RunFolders& folders, const Identity& identity, bool verbose,
                      const Output& output) {
  SetBlocked(SIGUSR2, false);  // an evaluation records nothing
  const absl::StatusOr<std::optional<LoadedData>> validation = LoadValidation(config);
  if (!validation.ok()) {
    const int status = Fail(output, validation.status().message());
    TellOthers(config, identity, validation.status());
    return status;
  }
  const auto begin = [&](const Trainer& trainer) {
    if (verbose && !output.json) PrintChosen(trainer, output.out);
  };
  const auto resumed = [&](const ResumedRun& from) {
    if (!output.json) output.out << "parameters of " << from.folder << "\n";
  };
  const absl::StatusOr<Evaluated> evaluated = EvaluateAlone(
      config, plan, {of_evaluations, (*validation)->data()}, folders, identity, begin, resumed);
  if (!evaluated.ok()) return Fail(output, evaluated.status().message());
  if (identity.process != 0) return kOk;  // the first process tells
  if (output.json) {
    WriteJson(output.out, {{"ok", true},
                           {"schedule", of_evaluations.schedule},
                           {"parameters", ParametersAsJson(of_evaluations.parameters)},
                           {"validations", ValidationsAsJson({*evaluated})}});
    return kOk;
  }
  const DataFiles& data = config.evaluate.data;
  output.out << absl::StreamFormat(
      "validation loss %.4f nats per %s: %d %s of %s\n", evaluated->loss_nats,
      UnitsOf(data, config.shape).target, evaluated->sequences,
      data.samples.empty() ? absl::StrCat("sequences of ", config.shape.context(), " tokens")
                           : "samples",
      absl::StrCat(data.text, data.tokens, data.samples));
  return kOk;
}

// The strict executor's observation, in its words; then the checker's finding.
int TellHang(const StrictPlan& strict, const Output& output) {
  const Session& session = strict.session;
  const std::string said = absl::StrCat(session.plan->schedule, " hangs in layout ",
                                        NameOf(session.checked_for.layout), ": ", strict.hang);
  if (output.json) {
    WriteJson(output.out, {{"ok", false},
                           {"hang", said},
                           {"findings", FindingsAsJson(session.diagnostics, session.source)}});
  } else {
    output.err << "stringline: " << said << "\n" << Render(session.diagnostics, session.source);
  }
  return kFindings;
}

// The checked plan; with --strict, also performed once by the strict executor.
absl::StatusOr<StrictPlan> OpenRunPlan(const RunConfig& config, bool again) {
  const PlanRequest request = {.file = config.schedule_file,
                               .schedule = config.schedule_name,
                               .parameters = config.parameters,
                               .again = again};
  const CheckRequest check = {.layout = config.layout, .collectives = CollectivesOf(config)};
  if (config.strict) return OpenStrictPlan(request, check);
  SL_ASSIGN_OR_RETURN(Session session, OpenCheckedPlan(request, check));
  SL_RETURN_IF_ERROR(RefuseIssued(session, "a run"));
  return StrictPlan{std::move(session), ""};
}

// The plan of the run's evaluations, lowered and checked: that of a schedule of its own, or the
// forwards of the training's.
absl::StatusOr<Session> OpenEvaluationPlan(const RunConfig& config, const Plan& plan) {
  const CheckRequest check = {.layout = config.layout,
                              .collectives = {.gathers = CollectivesOf(config).gathers}};
  if (!config.evaluate.schedule_file.empty()) {
    SL_ASSIGN_OR_RETURN(Session session, OpenCheckedPlan({.file = config.evaluate.schedule_file,
                                                          .schedule = "",
                                                          .offered = config.parameters},
                                                         check));
    SL_RETURN_IF_ERROR(RefuseIssued(session, "a run"));
    return session;
  }
  if (!plan.rows.actions.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluate: ", plan.schedule,
                     " has actions of its own, so its forwards alone are no schedule"));
  }
  Session forwards = {.source = Source(config.schedule_file, "")};
  forwards.plan = OnlyForwards(plan);
  return CheckedSession(std::move(forwards), check);
}

// The plans of the run; without them the exit status, once the reason is told.
int OpenPlans(const RunConfig& config, bool again, const Output& output, RunPlans* plans) {
  const absl::StatusOr<StrictPlan> opened = OpenRunPlan(config, again);
  if (!opened.ok()) return Fail(output, opened.status().message());
  if (!opened->hang.empty()) return TellHang(*opened, output);
  const Session& session = opened->session;
  if (!session.plan || !session.diagnostics.empty()) {
    return ShowFindings(output, output.err, session.diagnostics, session.source);
  }
  plans->plan = *session.plan;
  if (!config.evaluate.wanted()) return kOk;
  const absl::StatusOr<Session> evaluation = OpenEvaluationPlan(config, *session.plan);
  if (!evaluation.ok()) return Fail(output, evaluation.status().message());
  if (!evaluation->plan || !evaluation->diagnostics.empty()) {
    return ShowFindings(output, output.err, evaluation->diagnostics, evaluation->source);
  }
  plans->of_evaluations = evaluation->plan;
  return kOk;
}

// Trains until the run's end, whatever processes it loses, or gets back.
int TrainAndHeal(const RunConfig& config, RunPlans plans, const RunFolders& folders,
                 const Identity& identity, const Flags& flags, const Output& output) {
  const absl::Status heals = CheckHeals(config, identity.processes);
  if (!heals.ok()) return Fail(output, heals.message());
  ConfigLines agreement;
  if (config.heal_return) {
    const Plan* const evaluation = plans.of_evaluations ? &*plans.of_evaluations : nullptr;
    agreement = AgreementOf(config, plans.plan, folders, evaluation);
  }
  PartOfRun part;
  part.plan = [&](const RunConfig& now) { return OpenPlans(now, /*again=*/false, output, &plans); };
  part.train = [&](const RunConfig& now, const Identity& as, const Heals& with) {
    return TrainAndReport(now, plans, folders, as, with, flags.verbose, output);
  };
  return TrainAndHeal(config, identity, agreement, flags.comes_back, part, output);
}

}  // namespace

int RunTraining(const Flags& flags, const Output& output) {
  SetBlocked(SIGUSR2, true);  // a wish for records waits until there is something to record
  const bool starts_others = flags.processes > 1 || flags.restarts > 0;
  const absl::StatusOr<RunConfig> config = LoadConfig(flags);
  if (!config.ok()) return Fail(output, config.status().message());
  if (flags.comes_back && !config->heal_return) {
    return Fail(output, absl::StrCat("--return: ", flags.file,
                                     " says no heal: {return: true}, so its run takes no process "
                                     "back"));
  }
  if (starts_others && flags.restarts == 0) {
    const absl::StatusOr<LocalRun> run =
        RunLocalProcesses(flags.processes, ArgumentsOfEach(flags), SecretForProcesses(),
                          LocalSettingsOf(*config, /*holds_output=*/false));
    return run.ok() ? EndOf(*run, output) : Fail(output, run.status().message());
  }
  if (starts_others) {
    const absl::StatusOr<int> status = RunWithRestarts(flags, *config, output);
    return status.ok() ? *status : Fail(output, status.status().message());
  }
  RunPlans plans;
  if (const int status = OpenPlans(*config, flags.again, output, &plans); status != kOk) {
    return status;
  }
  const absl::StatusOr<Identity> identity = IdentityOf(flags);
  if (!identity.ok()) return Fail(output, identity.status().message());
  const RunFolders folders = {OutputFolder(flags), flags.save, flags.load};
  if (config->evaluate.alone) {
    return EvaluateAndReport(*config, plans.plan, *plans.of_evaluations, folders, *identity,
                             flags.verbose, output);
  }
  if (config->heal_every > 0) {
    return TrainAndHeal(*config, std::move(plans), folders, *identity, flags, output);
  }
  return **TrainAndReport(*config, plans, folders, *identity, {}, flags.verbose, output);
}

}  // namespace stringline
