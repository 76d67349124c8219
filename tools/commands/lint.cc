// stringline lint: errors and slowness of a torch schedule, before any GPU runs it. The file
// becomes the list of actions that torch will run. This list is checked, and then timed in three
// layouts beside the same computations in our own order of messages.
#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/plan/effects.h"
#include "schedlang/torch/comm_stream.h"
#include "schedlang/torch/timed_lower.h"
#include "schedlang/torch/torch_lower.h"
#include "schedlang/torch/torch_rules.h"
#include "tools/commands/command.h"
#include "tools/io/json.h"
#include "tools/io/requests.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

struct QueueLayout {
  CommLayout queues;
  const char* name;
  const char* says;
};

constexpr QueueLayout kQueueLayouts[] = {
    {CommLayout::kShared, "shared", "all (NCCL, eager)"},
    {CommLayout::kPair, "pair", "of two ranks (NCCL, lazy)"},
    {CommLayout::kEdge, "edge", "of one direction"},
};

// The times of the file's order, and of ours with the same computations.
struct Compared {
  StreamRun file;
  StreamRun own;
};

struct LintReport {
  TorchFile file;  // lowered, as torch runs the file
  bool compute_form = false;
  int peak_rank = 0;
  int peak = 0;
  std::array<Compared, 3> times;
};

// The computations and collectives alone.
Plan WithoutMessages(const Plan& plan) {
  Plan computed = plan;
  computed.lowered = false;
  computed.actions.clear();
  for (int r = 0; r < plan.ranks(); ++r) {
    for (const Action& action : plan.of(RankId(r))) {
      if (!IsMessage(action.kind)) computed.actions.push_back(action);
    }
    computed.first[r + 1] = static_cast<uint32_t>(computed.actions.size());
  }
  return computed;
}

// Finds errors, and lowers the file as torch will run it.
bool Examine(TorchFile* file, Diagnostics* diagnostics) {
  const bool compute_form = !file->plan.lowered;
  if (!CheckedPlan(file->plan, {}, diagnostics)) return false;
  FindTorchFaults(*file, diagnostics);
  if (!diagnostics->empty()) return false;
  if (!compute_form) return true;
  std::optional<TorchFile> lowered = LowerAsTorch(AddCollectives(file->plan));
  if (!lowered) return false;
  *file = *std::move(lowered);
  file->waits = AllTorchWaits(file->plan, file->waits);
  return CheckedPlan(file->plan, {}, diagnostics).has_value();
}

void FindPeak(LintReport* report) {
  const Plan& plan = report->file.plan;
  for (int r = 0; r < plan.ranks(); ++r) {
    int live = 0;
    for (const Action& action : plan.of(RankId(r))) {
      live += ActivationChange(action.kind);
      if (live > report->peak) {
        report->peak = live;
        report->peak_rank = r;
      }
    }
  }
}

void CompareTimes(const CostModel& costs, LintReport* report) {
  const Plan& plan = report->file.plan;
  const std::optional<Plan> own = LowerByTime(WithoutMessages(plan), costs);
  if (!own) return;
  const std::vector<MessageWait> own_waits =
      report->file.waits.empty() ? std::vector<MessageWait>() : AllTorchWaits(*own, {});
  for (size_t i = 0; i < report->times.size(); ++i) {
    const CommLayout queues = kQueueLayouts[i].queues;
    report->times[i] = {RunOnStreams(plan, report->file.waits, costs, queues),
                        RunOnStreams(*own, own_waits, costs, queues)};
  }
}

// Among the layouts in which the file's order hangs, the layout that shares least.
bool FindHang(const LintReport& report, Diagnostics* diagnostics) {
  for (size_t i = report.times.size(); i-- > 0;) {
    const StreamRun& run = report.times[i].file;
    if (run.ends) continue;
    AddCycle(report.file.plan, run.cycle, kQueueLayouts[i].queues, diagnostics);
    return true;
  }
  return false;
}

double Saving(const Compared& times) {
  if (!times.file.ends || !times.own.ends || times.file.makespan_ns == 0) return 0;
  return 1 - static_cast<double>(times.own.makespan_ns) / times.file.makespan_ns;
}

std::string TimeText(const StreamRun& run) {
  return run.ends ? PrintTime(run.makespan_ns) : "never ends";
}

const char* FormText(const LintReport& report) {
  if (report.compute_form) return "compute form, lowered here as torch 2.15 does it";
  return report.file.waits.empty() ? "comms form without waits, for torch before 2.15"
                                   : "comms form with waits, for torch 2.15 and later";
}

void PrintReport(const LintReport& report, const Source& source, std::ostream& out) {
  const Plan& plan = report.file.plan;
  out << "ok: " << source.path() << ": " << PrintParameters(plan) << ", " << plan.stages.size()
      << " stages; " << FormText(report) << "\n";
  out << "peak: " << report.peak << " stage activations, on rank " << report.peak_rank << "\n\n";
  out << absl::StreamFormat("  %-8s %-26s %12s %16s\n", "messages", "share a communicator",
                            "this order", "order of export");
  for (size_t i = 0; i < report.times.size(); ++i) {
    const Compared& times = report.times[i];
    out << absl::StreamFormat("  %-8s %-26s %12s %16s", kQueueLayouts[i].name,
                              kQueueLayouts[i].says, TimeText(times.file), TimeText(times.own));
    if (Saving(times) >= 0.001) out << "  -" << PrintShare(Saving(times));
    out << "\n";
  }
}

// The send that waits longest behind an early receive, in the layout with the largest loss.
void PrintHeldSend(const LintReport& report, const Source& source, std::ostream& out) {
  size_t most = 0;
  for (size_t i = 1; i < report.times.size(); ++i) {
    if (Saving(report.times[i]) > Saving(report.times[most])) most = i;
  }
  const std::optional<HeldSend>& worst = report.times[most].file.worst;
  if (Saving(report.times[most]) < 0.01 || !worst) return;
  const Plan& plan = report.file.plan;
  const Action& send = plan.actions[worst->send];
  const Action& recv = plan.actions[worst->recv];
  const LineColumn at = source.Locate(SpanOf(plan, send).begin);
  out << "\n"
      << source.path() << ":" << at.line << ":" << at.column << ": note: receives stand so "
      << "early that sends wait behind them\n"
      << "  worst (" << kQueueLayouts[most].name << "): rank " << plan.stage(send.stage).rank.value
      << " could send " << Print(plan, send) << " " << PrintTime(worst->held_ns)
      << " earlier, but posted " << Print(plan, recv) << " before it\n";
}

Json TimesAsJson(const StreamRun& run) { return run.ends ? Microseconds(run.makespan_ns) : Json(); }

Json ReportAsJson(const LintReport& report) {
  Json layouts = Json::object();
  for (size_t i = 0; i < report.times.size(); ++i) {
    layouts[kQueueLayouts[i].name] = {{"makespan_us", TimesAsJson(report.times[i].file)},
                                      {"export_order_us", TimesAsJson(report.times[i].own)}};
  }
  const Plan& plan = report.file.plan;
  return {{"ok", true},
          {"form", report.compute_form ? "compute" : "comms"},
          {"parameters", ParametersAsJson(plan.parameters)},
          {"stages", plan.stages.size()},
          {"peak_activations", report.peak},
          {"layouts", std::move(layouts)},
          {"findings", Json::array()}};
}

}  // namespace

int RunLint(const Flags& flags, const Output& output) {
  if (KindOfFile(flags.file) != FileKind::kTorch) {
    return Fail(output, flags.file + ": only a schedule of torch's (.csv) can be linted");
  }
  absl::StatusOr<Session> session = OpenPlanOf(flags);
  if (!session.ok()) return Fail(output, session.status().message());
  const Source& source = session->source;
  Diagnostics& diagnostics = session->diagnostics;
  if (!session->plan) return ShowFindings(output, output.out, diagnostics, source);
  LintReport report;
  report.compute_form = !session->plan->lowered;
  report.file = {*std::move(session->plan), session->legacy, std::move(session->waits)};
  if (!Examine(&report.file, &diagnostics)) {
    return ShowFindings(output, output.out, diagnostics, source);
  }
  FindPeak(&report);
  const absl::StatusOr<CostModel> costs = CostsOf(flags, report.file.plan);
  if (!costs.ok()) return Fail(output, costs.status().message());
  CompareTimes(*costs, &report);
  if (FindHang(report, &diagnostics)) {
    return ShowFindings(output, output.out, diagnostics, source);
  }
  if (output.json) {
    WriteJson(output.out, ReportAsJson(report));
  } else {
    PrintReport(report, source, output.out);
    PrintHeldSend(report, source, output.out);
  }
  return kOk;
}

}  // namespace stringline
