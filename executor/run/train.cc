// Data and least memory are checked before any large allocation. Then each step fills in data,
// computes gradients, updates, and calls the hooks. Steps before the last give the costs with which
// the last step is simulated and compared.
#include "executor/run/train.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/checkpoints.h"
#include "executor/checkpoint/held_state.h"
#include "executor/engine/available_memory.h"
#include "executor/run/build_stages.h"
#include "executor/run/copy_check.h"
#include "executor/run/run_start.h"
#include "executor/training/least_memory.h"
#include "executor/training/measured_costs.h"
#include "executor/training/trainer.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/lower/lower.h"
#include "schedlang/sim/ready_order.h"
#include "schedlang/sim/simulate.h"
#include "stages/models/model.h"

namespace stringline {
namespace {

// Costs are the medians over this many steps before the last.
constexpr int kMeasuredSteps = 20;

// The time of messages and exchanges over such links: an exchange takes as long as its member with
// the most bytes to or from others.
int64_t LinkNs(const void* self, absl::Span<const Call* const> met) {
  const auto& link = *static_cast<const LinkSpeed*>(self);
  return met.size() == 1 ? 0 : link.TransferNs(MostBytesOnTheWay(met));
}

// The memory of all places.
AvailableMemory AllMemory(Backend* backend) {
  if (backend == nullptr) return FindAvailableMemory();
  AvailableMemory all = backend->available(0);
  for (int place = 1; place < backend->device()->places(); ++place) {
    const AvailableMemory more = backend->available(place);
    all.bytes += std::min(more.bytes, std::numeric_limits<int64_t>::max() - all.bytes);
    absl::StrAppend(&all.limit, " and ", more.limit);
  }
  return all;
}

// The simulated step; in ready order that of the order that happens at these costs.
absl::StatusOr<Timeline> Predicted(const Plan& plan, const Wiring& links, const CostModel& costs) {
  if (plan.window == 0) return Simulate(plan, links, costs);
  return Simulate(Lower(PerformedAt(plan, costs)), costs);
}

class Run {
 public:
  // `data` is what it trains on, or evaluates alone.
  Run(const RunConfig& config, const TrainingData& data, std::unique_ptr<Trainer> trainer,
      const TrainHooks& hooks, const EvaluationOfRun* evaluation, const AvailableMemory& before)
      : config_(config),
        data_(data),
        trainer_(std::move(trainer)),
        hooks_(hooks),
        evaluation_(evaluation),
        before_(before),
        costs_(trainer_->plan()),
        copies_(trainer_.get()) {}
  ~Run() {
    if (hooks_.leave) hooks_.leave();
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  absl::StatusOr<TrainResult> AllSteps() { return OrFailure(Steps()); }

  absl::StatusOr<Evaluated> EvaluateAlone() {
    return OrFailure([this]() -> absl::StatusOr<Evaluated> {
      SL_RETURN_IF_ERROR(BeginAndStart());
      return EvaluateAt(start_.resumed.step);
    }());
  }

 private:
  template <typename Result>
  Result OrFailure(Result result) {
    if (result.ok()) return result;
    const absl::Status agreed = trainer_->GiveUp(result.status());
    return hooks_.failed ? hooks_.failed(agreed, *trainer_) : agreed;
  }

  absl::Status BeginAndStart() {
    if (evaluation_ != nullptr) SL_RETURN_IF_ERROR(Sequences().status());
    SL_ASSIGN_OR_RETURN(start_, StartRun(config_, data_, trainer_.get(), before_, hooks_.held));
    history_ = start_.resumed.history;
    if (hooks_.start) {
      SL_RETURN_IF_ERROR(hooks_.start(*trainer_));
      SL_RETURN_IF_ERROR(trainer_->RefreshWorking());
    }
    if (hooks_.resumed && !start_.resumed.folder.empty()) {
      SL_RETURN_IF_ERROR(hooks_.resumed(start_.resumed));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<TrainResult> Steps() {
    SL_RETURN_IF_ERROR(CheckCopiesAsked());
    SL_RETURN_IF_ERROR(BeginAndStart());
    result_.steps = reported_steps_ = start_.resumed.step;
    SL_RETURN_IF_ERROR(copies_.Compare(start_.resumed.step));
    SL_RETURN_IF_ERROR(HoldState(/*due=*/true));
    start_ns_ = reported_ns_ = NowNs();
    while (result_.steps < config_.steps && !result_.stopped && !result_.changes) {
      SL_RETURN_IF_ERROR(RunPlan(result_.steps));
      result_.steps += trainer_->plan().steps;
      SL_RETURN_IF_ERROR(HoldState(/*due=*/false));
      bool asked = false;
      if (result_.steps < config_.steps) {
        SL_ASSIGN_OR_RETURN(asked, AsksForCheckpoint());
      }
      const bool due =
          start_.checkpoints != nullptr && start_.checkpoints->IsDue(result_.steps, asked);
      SL_RETURN_IF_ERROR(CompareCopies(due));
      // A run that goes on from its memory does not go back behind a checkpoint.
      SL_RETURN_IF_ERROR(HoldState(due));
      if (due) SL_RETURN_IF_ERROR(start_.checkpoints->Take(result_.steps, history_));
    }
    if (result_.changes) return ChangeProcesses();
    // A process lost in the last update leaves no whole model: then no final result is written.
    if (World* const world = trainer_->world()) SL_RETURN_IF_ERROR(world->Sum({}));
    result_.elapsed_s = static_cast<double>(NowNs() - start_ns_) * 1e-9;
    if (start_.checkpoints != nullptr) {
      SL_RETURN_IF_ERROR(start_.checkpoints->Finish());
      result_.checkpoint = start_.checkpoints->newest();
    }
    if (hooks_.end) SL_RETURN_IF_ERROR(hooks_.end(result_.steps, *trainer_));
    result_.tokens_per_step = trainer_->tokens_per_step();
    result_.tokens_per_second =
        static_cast<double>(result_.tokens_per_step * (result_.steps - start_.resumed.step)) /
        result_.elapsed_s;
    result_.params = CountParams(config_.shape);
    result_.memory = trainer_->memory();
    result_.rank_bytes = trainer_->rank_bytes();
    result_.host = trainer_->repeated_step().host_time();
    result_.not_captured = trainer_->repeated_step().refusal();
    SummariseLosses();
    const bool whole = !result_.stopped && result_.trained();
    if (whole && is_first()) SL_RETURN_IF_ERROR(ComparePrediction());
    return std::move(result_);
  }

  // The run goes on with other processes, which take the state of this step from memory.
  absl::StatusOr<TrainResult> ChangeProcesses() {
    if (start_.checkpoints != nullptr) SL_RETURN_IF_ERROR(start_.checkpoints->Finish());
    SL_RETURN_IF_ERROR(hooks_.change(result_.steps, trainer_->world()));
    return std::move(result_);
  }

  // Keeps the state for the case that a process is lost.
  absl::Status HoldState(bool due) {
    if (config_.heal_every == 0 || hooks_.held == nullptr) return absl::OkStatus();
    if (!due && result_.steps % config_.heal_every != 0) return absl::OkStatus();
    return hooks_.held->Take(result_.steps, history_, trainer_.get());
  }

  // Called after the step: true if any process wants a checkpoint here, or to end the run, which is
  // then stopped. The news of a checkpoint travel along.
  absl::StatusOr<bool> AsksForCheckpoint() {
    Checkpoints::News news;
    if (start_.checkpoints != nullptr) news = start_.checkpoints->Report();
    const bool held = config_.heal_every > 0 && result_.steps % config_.heal_every == 0;
    // The numbers of processes that ask to end, that ask for a checkpoint, that have news, and that
    // ask for more processes.
    std::array<uint64_t, kWishWords> asked = {hooks_.stop && hooks_.stop(),
                                              hooks_.checkpoint && hooks_.checkpoint(),
                                              news.failed,
                                              news.written,
                                              news.visible,
                                              held && hooks_.grows && hooks_.grows()};
    World* const world = trainer_->world();
    if (world != nullptr) SL_RETURN_IF_ERROR(world->Sum(absl::MakeSpan(asked)));
    if (hooks_.held != nullptr) hooks_.held->NoteMeeting();
    const auto [stop, checkpoint, failed, written, visible, grows] = asked;
    result_.stopped = result_.stopped || stop > 0;
    result_.changes = grows > 0 && !result_.stopped;
    if (start_.checkpoints != nullptr) {
      SL_RETURN_IF_ERROR(start_.checkpoints->Hear({failed, written, visible}));
    }
    return stop > 0 || checkpoint > 0;
  }

  absl::Status CheckCopiesAsked() const {
    if (config_.check_copies == 0 || copies_.has_copies()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("`train.check_copies` is ", config_.check_copies,
                     ", but every parameter is in one place only: mesh.data would make copies, "
                     "unless its state is shared out over all of them"));
  }

  // No checkpoint, and no model, is written of copies that differ.
  absl::Status CompareCopies(bool checkpoint_due) {
    const int64_t step = result_.steps;
    const bool asked = config_.check_copies > 0 && step % config_.check_copies == 0;
    const bool last = step == config_.steps || result_.stopped;
    if (!asked && !last && !checkpoint_due) return absl::OkStatus();
    return copies_.Compare(step);
  }

  bool is_first() const { return IsFirst(trainer_->world()); }

  // True if process 0 looks at the times of the plan's run behind so many steps: for a report, for
  // metrics, or for the costs. The same in all processes.
  bool LooksAtTimes(int64_t step) const {
    const int64_t behind = step + trainer_->plan().steps;
    const auto is_due = [&](int64_t every) { return IsDue(every, step, behind); };
    return step == start_.resumed.step || behind == config_.steps || GivesCosts(step) ||
           is_due(config_.log_every) || is_due(config_.metrics.every) ||
           is_due(config_.evaluate.every);
  }

  // Performs the steps of the plan behind so many; one, for most plans.
  absl::Status RunPlan(int64_t step) {
    const StepTime began = {NowNs(), ProcessorNs()};
    const int steps = trainer_->plan().steps;
    for (int k = 0; k < steps; ++k) SL_RETURN_IF_ERROR(FillData(step, k));
    SL_ASSIGN_OR_RETURN(std::vector<TrainStep> done,
                        trainer_->performs_updates() ? PerformSteps(step) : PerformStep(step));
    const StepTime each = {(NowNs() - began.wall_ns) / steps,
                           (ProcessorNs() - began.processor_ns) / steps};
    result_.step_times.insert(result_.step_times.end(), static_cast<size_t>(steps), each);
    const bool looks = LooksAtTimes(step);
    if (looks) SL_RETURN_IF_ERROR(trainer_->GatherTimes());
    for (const TrainStep& one : done) {
      history_.grad_norms.push_back(one.grad_norm);
      history_.learning_rates.push_back(one.learning_rate);
    }
    KeepCosts(step);
    const int64_t behind = step + steps;
    if (evaluation_ != nullptr &&
        (behind % config_.evaluate.every == 0 || behind == config_.steps)) {
      SL_ASSIGN_OR_RETURN(const Evaluated evaluated, EvaluateAt(behind));
      done.back().validation_nats = evaluated.loss_nats;
      history_.validations_nats[behind] = evaluated.loss_nats;
      result_.evaluations.push_back(evaluated);
    }
    std::optional<TrainProgress> now;  // alike for all steps of the plan
    for (const TrainStep& one : done) {
      const bool first = one.step == start_.resumed.step + 1, last = one.step == config_.steps;
      const bool reports =
          first || last || one.validation_nats || one.step % config_.log_every == 0;
      if (reports && is_first()) {
        if (!now) now = ProgressAt(behind);
        static_cast<TrainStep&>(*now) = one;
        if (hooks_.report) hooks_.report(*now);
      }
      if (hooks_.after_step) SL_RETURN_IF_ERROR(hooks_.after_step(one, *trainer_));
    }
    return absl::OkStatus();
  }

  // The sequences of an evaluation: those of some runs of its plan.
  absl::StatusOr<int64_t> Sequences() const {
    Evaluation& evaluation = *trainer_->evaluation();
    const int64_t of_a_run = evaluation.microbatches() * config_.shape.microbatch();
    const int64_t wanted = config_.evaluate.sequences == 0 ? of_a_run : config_.evaluate.sequences;
    if (wanted % of_a_run == 0) return wanted;
    return absl::InvalidArgumentError(
        absl::StrCat("`evaluate.sequences` is ", wanted, ", but a run of the forwards has ",
                     of_a_run, ", ", evaluation.microbatches(), " microbatches of ",
                     config_.shape.microbatch(), " sequences: a multiple of that would help"));
  }

  // The tokens of so many sequences that only an encoder reads.
  int64_t WithoutTarget(int64_t rows) const { return rows * config_.shape.source(); }

  // Evaluates the parameters behind so many steps.
  absl::StatusOr<Evaluated> EvaluateAt(int64_t step) {
    Evaluation& evaluation = *trainer_->evaluation();
    SL_ASSIGN_OR_RETURN(const int64_t sequences, Sequences());
    const int context = config_.shape.context(), rows = config_.shape.microbatch();
    double sum = 0;
    int64_t targets = 0;
    for (int64_t first = 0; first < sequences;) {
      for (int32_t m = 0; m < evaluation.microbatches(); ++m, first += rows) {
        const MicrobatchId microbatch(m);
        SL_RETURN_IF_ERROR(evaluation_->data.FillEvenly(
            first, sequences, context, evaluation.tokens(microbatch),
            evaluation.targets(microbatch), evaluation.positions(microbatch)));
        targets += evaluation_->data.CountTargetsEvenly(first, sequences, context, rows) -
                   WithoutTarget(rows);
      }
      SL_RETURN_IF_ERROR(evaluation.Run());
      sum += evaluation.loss_sum();
    }
    if (targets == 0) return WithoutTargets("the evaluation", config_.evaluate.data);
    return Evaluated{sum / static_cast<double>(targets), sequences, step};
  }

  // A plan without UPDATE, and its update.
  absl::StatusOr<std::vector<TrainStep>> PerformStep(int64_t step) {
    SL_RETURN_IF_ERROR(trainer_->ComputeGradients());
    SL_ASSIGN_OR_RETURN(TrainStep done, ResultsOf(step, 0));
    if (hooks_.gradients) hooks_.gradients(step + 1, *trainer_);
    SL_ASSIGN_OR_RETURN(done.grad_norm, trainer_->Update(done.learning_rate));
    return std::vector<TrainStep>{done};
  }

  // A plan with UPDATEs. A loss that is not finite is told before a gradient that is not.
  absl::StatusOr<std::vector<TrainStep>> PerformSteps(int64_t step) {
    const int steps = trainer_->plan().steps;
    std::vector<double> rates;
    for (int k = 0; k < steps; ++k) rates.push_back(LearningRate(config_, step + k));
    const absl::StatusOr<std::vector<double>> norms = trainer_->PerformSteps(rates);
    if (!norms.ok() && !absl::IsOutOfRange(norms.status())) return norms.status();
    std::vector<TrainStep> done;
    for (int k = 0; k < steps; ++k) {
      SL_ASSIGN_OR_RETURN(TrainStep one, ResultsOf(step, k));
      if (norms.ok()) one.grad_norm = (*norms)[static_cast<size_t>(k)];
      done.push_back(one);
    }
    SL_RETURN_IF_ERROR(norms.status());
    return done;
  }

  // The targets of all processes are counted: the data of every microbatch is known to each.
  absl::Status FillData(int64_t step, int k) {
    const int context = config_.shape.context();
    int64_t targets = 0;
    for (int32_t m = 0; m < trainer_->microbatches(); ++m) {
      const MicrobatchId microbatch(m);
      const BatchKey key = {config_.seed, step + k, m};
      SL_RETURN_IF_ERROR(data_.Fill(key, context, trainer_->tokens(microbatch, k),
                                    trainer_->targets(microbatch, k),
                                    trainer_->positions(microbatch, k)));
      const int rows = config_.shape.microbatch();
      const int64_t before = (step + k) * trainer_->microbatches() + m;  // microbatches of the run
      trainer_->SetMaskKey(microbatch, {config_.seed, static_cast<uint64_t>(before * rows)}, k);
      targets += data_.CountTargets(key, context, rows) - WithoutTarget(rows);
    }
    if (targets == 0) return WithoutTargets(absl::StrCat("step ", step + k + 1), config_.data);
    trainer_->SetTargets(targets, k);
    return absl::OkStatus();
  }

  static absl::Status WithoutTargets(const std::string& what, const DataFiles& data) {
    if (!data.samples.empty()) {
      return absl::OutOfRangeError(absl::StrCat(
          what, " has no target: those of all its samples of ", data.samples, " are -100"));
    }
    return absl::OutOfRangeError(
        absl::StrCat(what, " has no token to predict: every document in it, of ",
                     data.packed.end >= 0 ? absl::StrCat("those that end with ", data.packed.end)
                                          : data.packed.lengths,
                     ", has a single token"));
  }

  // The losses of step k of the plan, which begins behind step `step`.
  absl::StatusOr<TrainStep> ResultsOf(int64_t step, int k) {
    const auto targets = static_cast<double>(trainer_->targets_per_step(k));
    TrainStep done;
    done.step = step + k + 1;
    done.loss_nats = trainer_->loss_sum(k) / targets;
    if (!std::isfinite(done.loss_nats)) {
      return absl::OutOfRangeError(absl::StrCat("step ", done.step, ": the loss is ",
                                                done.loss_nats, "; try a lower learning rate"));
    }
    history_.losses_nats.push_back(done.loss_nats);
    done.dropped = trainer_->dropped(k);
    SL_RETURN_IF_ERROR(CheckDropped(done.step, done.dropped));
    done.aux_loss_nats = trainer_->aux_loss_sum(k) / targets;
    result_.aux_loss_nats = done.aux_loss_nats;
    history_.dropped += done.dropped;
    done.learning_rate = LearningRate(config_, step + k);
    return done;
  }

  // The first run of the plan warms up memory and caches, the last is to be predicted; the shortest
  // runs measure these all the same.
  bool GivesCosts(int64_t step) const {
    const int steps = trainer_->plan().steps;
    const int64_t behind = (config_.steps - step) / steps - 1;  // runs of the plan
    const int64_t runs = (config_.steps - start_.resumed.step) / steps;
    const bool begins = step == start_.resumed.step;
    const bool inner = (!begins && behind > 0) || runs <= 2;
    return inner && behind <= kMeasuredSteps;
  }

  void KeepCosts(int64_t step) {
    if (!is_first() || !GivesCosts(step)) return;
    const Timeline measured = trainer_->Measured();
    costs_.Add(measured);
    networks_.Add(MeasureNetwork(trainer_->plan(), measured, trainer_->links()).all);
    result_.makespans_ns.push_back(MeasureBubbles(measured).makespan_ns);
  }

  // An expert's rows beyond its capacity end the run if the run file says so.
  absl::Status CheckDropped(int64_t step, int64_t dropped) const {
    const auto* const decoder = std::get_if<DecoderShape>(&config_.shape.family);
    if (decoder == nullptr || decoder->moe.overflow != Overflow::kError) return absl::OkStatus();
    if (dropped == 0) return absl::OkStatus();
    return absl::OutOfRangeError(
        absl::StrCat("step ", step, ": ", dropped,
                     " slots are beyond the capacity of their experts (", decoder->moe.capacity,
                     " times the even share); a larger model.capacity, 'dropless', or "
                     "'exceeded: drop' would help"));
  }

  // The speed since the last report, and the time left, when so many steps are done.
  TrainProgress ProgressAt(int64_t step) {
    const int64_t now_ns = NowNs();
    TrainProgress progress;
    progress.steps = config_.steps;
    const double tokens = static_cast<double>(trainer_->tokens_per_step());
    const double passed_s = static_cast<double>(now_ns - reported_ns_) * 1e-9;
    progress.tokens_per_second = tokens * static_cast<double>(step - reported_steps_) / passed_s;
    progress.bubble = MeasureBubbles(trainer_->Measured()).rate;
    progress.elapsed_s = static_cast<double>(now_ns - start_ns_) * 1e-9;
    progress.left_s = progress.elapsed_s / static_cast<double>(step - start_.resumed.step) *
                      static_cast<double>(config_.steps - step);
    reported_ns_ = now_ns;
    reported_steps_ = step;
    return progress;
  }

  void SummariseLosses() {
    result_.losses_nats = history_.losses_nats;
    result_.dropped = history_.dropped;
    result_.resumed = {start_.resumed.folder, start_.resumed.step, start_.resumed.skipped, {}};
    const std::vector<double>& losses = result_.losses_nats;
    const size_t last = std::max<size_t>(1, losses.size() / 10);
    double sum = 0;
    for (size_t i = losses.size() - last; i < losses.size(); ++i) sum += losses[i];
    result_.first_loss_nats = losses.front();
    result_.final_loss_nats = sum / static_cast<double>(last);
  }

  absl::Status ComparePrediction() {
    result_.measured = trainer_->Measured();
    result_.network = networks_.PerStep(result_.makespans_ns.size());
    result_.costs = costs_.Model();
    for (size_t s = 0; s < trainer_->plan().stages.size(); ++s) {
      result_.costs.buckets.push_back(trainer_->buckets(StageId(static_cast<int32_t>(s))));
    }
    SL_ASSIGN_OR_RETURN(result_.simulated,
                        Predicted(trainer_->plan(), trainer_->links(), result_.costs));
    const auto measured_ns = static_cast<double>(MeasureBubbles(result_.measured).makespan_ns);
    const auto simulated_ns = static_cast<double>(MeasureBubbles(result_.simulated).makespan_ns);
    result_.misprediction = simulated_ns / measured_ns - 1;
    return absl::OkStatus();
  }

  const RunConfig& config_;
  const TrainingData data_;
  const std::unique_ptr<Trainer> trainer_;
  const TrainHooks& hooks_;
  const EvaluationOfRun* const evaluation_;  // null: none
  const AvailableMemory before_;             // on the host, when nothing was made
  MeasuredCosts costs_;
  NetworkSums networks_;
  CopyCheck copies_;
  StepHistory history_;
  RunStart start_;
  TrainResult result_;
  int64_t start_ns_ = 0;
  int64_t reported_ns_ = 0;
  int64_t reported_steps_ = 0;
};

// The trainer of a run, once everything that can be refused before is.
absl::StatusOr<std::unique_ptr<Trainer>> MakeTrainer(const RunConfig& config, const Plan& lowered,
                                                     std::unique_ptr<Backend> backend,
                                                     const EvaluationOfRun* evaluation) {
  SL_RETURN_IF_ERROR(CheckShape(config.shape));
  // The need of all ranks; a process with only some of the ranks counts only their own need.
  if (backend == nullptr || backend->world() == nullptr) {
    const int pipes = static_cast<int>(std::max<size_t>(1, lowered.pipes.size()));
    SL_ASSIGN_OR_RETURN(const NeededMemory least,
                        LeastMemory(config.shape, pipes, config.mesh, SharingOf(config)));
    SL_RETURN_IF_ERROR(CheckMemory(least, AllMemory(backend.get())));
  }
  SL_ASSIGN_OR_RETURN(std::vector<StageProgram> programs, BuildStages(config, lowered));
  TrainerSettings settings;
  settings.seed = config.seed;
  settings.threads = config.threads;
  settings.optimizer = config.optimizer;
  settings.clip_norm = config.clip_norm;
  settings.mesh = config.mesh;
  settings.sharding = config.sharding;
  settings.bucket_bytes = config.bucket_bytes;
  settings.layout = config.layout;
  if (config.strict) settings.order = MessageOrder::kListedWork;
  settings.capture = config.capture;
  if (evaluation != nullptr) settings.evaluation = evaluation->plan;
  if (const auto* const decoder = std::get_if<DecoderShape>(&config.shape.family)) {
    settings.balance_rate = decoder->moe.balance_rate;
  }
  // Other backends have their device already.
  if (backend == nullptr && (config.link.latency_ns > 0 || config.link.bytes_per_s > 0)) {
    settings.link = {LinkNs, &config.link};
  }
  return Trainer::Make(lowered, std::move(programs), settings, std::move(backend));
}

absl::Status CheckData(const RunConfig& config, const TrainingData& data, const DataFiles& files) {
  if (data.is_samples() || data.size() > config.shape.context()) return absl::OkStatus();
  const char* const unit = data.is_text() ? "byte" : "token";
  return absl::InvalidArgumentError(absl::StrCat(
      data.is_text() ? files.text : files.tokens, ": the ", data.is_text() ? "text" : "file",
      " has ", data.size(), " ", unit, "s, but one sequence takes ", config.shape.context(),
      " (model.context) and the ", unit, " after them"));
}

}  // namespace

absl::StatusOr<TrainResult> Train(const RunConfig& config, const Plan& lowered,
                                  const TrainingData& data, const TrainHooks& hooks,
                                  std::unique_ptr<Backend> backend,
                                  const std::optional<EvaluationOfRun>& evaluation) {
  const EvaluationOfRun* const wanted = evaluation ? &*evaluation : nullptr;
  SL_CHECK((config.evaluate.every > 0) == evaluation.has_value()) << config.evaluate.every;
  SL_RETURN_IF_ERROR(CheckSteps("train.steps", config.steps, lowered));
  SL_RETURN_IF_ERROR(CheckSteps("checkpoint.every", config.checkpoint.every, lowered));
  SL_RETURN_IF_ERROR(CheckSteps("heal.every", config.heal_every, lowered));
  SL_RETURN_IF_ERROR(CheckSteps("evaluate.every", config.evaluate.every, lowered));
  SL_RETURN_IF_ERROR(CheckSteps("train.check_copies", config.check_copies, lowered));
  const AvailableMemory before = FindAvailableMemory();
  SL_RETURN_IF_ERROR(CheckData(config, data, config.data));
  if (wanted != nullptr) {
    SL_RETURN_IF_ERROR(CheckData(config, wanted->data, config.evaluate.data));
  }
  SL_ASSIGN_OR_RETURN(auto trainer, MakeTrainer(config, lowered, std::move(backend), wanted));
  return Run(config, data, std::move(trainer), hooks, wanted, before).AllSteps();
}

absl::StatusOr<Evaluated> Evaluate(const RunConfig& config, const Plan& lowered,
                                   const TrainHooks& hooks, std::unique_ptr<Backend> backend,
                                   const EvaluationOfRun& evaluation) {
  const AvailableMemory before = FindAvailableMemory();
  SL_RETURN_IF_ERROR(CheckData(config, evaluation.data, config.evaluate.data));
  SL_ASSIGN_OR_RETURN(auto trainer, MakeTrainer(config, lowered, std::move(backend), &evaluation));
  return Run(config, evaluation.data, std::move(trainer), hooks, &evaluation, before)
      .EvaluateAlone();
}

}  // namespace stringline
