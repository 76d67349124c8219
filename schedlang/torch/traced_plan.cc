// The ranges become a file of torch's comms form, a row a rank; its reader and the checker do the
// rest. Their findings are reported for the trace of the row.
#include "schedlang/torch/traced_plan.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedlang/base/status.h"
#include "schedlang/check/check.h"
#include "schedlang/torch/torch_cells.h"
#include "schedlang/torch/torch_csv.h"

namespace stringline {
namespace {

struct CellPlace {
  size_t rank = 0;
  uint32_t range = 0;
};

absl::Status Refused(const RankTrace& trace, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(trace.file, ": ", why));
}

// "(0F7;7B3)OVERLAP_F_B" as "0F7" and "7B3".
std::vector<absl::string_view> PartsOf(absl::string_view name) {
  absl::string_view inside = name;
  if (!absl::ConsumePrefix(&inside, "(") || !absl::ConsumeSuffix(&inside, ")OVERLAP_F_B")) {
    return {name};
  }
  return absl::StrSplit(inside, ';');
}

// The rank of every stage, and the messages that name it.
class NamedStages {
 public:
  explicit NamedStages(const std::vector<RankTrace>& traces) : traces_(traces) {}

  absl::Status Add(size_t r, const std::string& range) {
    for (const absl::string_view part : PartsOf(range)) {
      std::string fault;
      const auto action = ReadTorchAction(part, /*legacy=*/false, &fault);
      if (!action) {
        return Refused(traces_[r], absl::StrCat("the range PP:", range, " is no action: ", fault));
      }
      const int stage = action->stage.value;
      const auto [owner, is_new] = rank_of_.emplace(stage, r);
      if (owner->second != r) {
        const RankTrace& other = traces_[owner->second];
        return Refused(traces_[r],
                       absl::StrCat("stage ", stage, " is on rank ", traces_[r].rank, ", and in ",
                                    other.file, " on rank ", other.rank,
                                    ": these are copies of one pipeline; give the traces of one "
                                    "of them"));
      }
      if (!IsMessage(action->kind)) continue;
      const bool is_next =
          action->kind == ActionKind::kSendForward || action->kind == ActionKind::kRecvBackward;
      message_of_.emplace(stage + (is_next ? 1 : -1), std::pair(r, range));
    }
    return absl::OkStatus();
  }

  // Reports the first stage without a trace, if a later stage or a message for it exists.
  absl::Status CheckAll() const {
    int stage = 0;
    while (rank_of_.count(stage) > 0) ++stage;
    const auto message = message_of_.find(stage);
    const bool is_last = rank_of_.empty() || rank_of_.rbegin()->first < stage;
    if (is_last && message == message_of_.end()) return absl::OkStatus();
    const bool is_named = message != message_of_.end();
    const RankTrace& trace = traces_[is_named ? message->second.first : 0];
    return Refused(
        trace,
        absl::StrCat("no trace has stage ", stage,
                     is_named ? absl::StrCat(", which PP:", message->second.second, " is for") : "",
                     "; ", traces_.size(), " of ", trace.processes,
                     " processes' traces are given: is that of a rank missing?"));
  }

 private:
  const std::vector<RankTrace>& traces_;
  std::map<int, size_t> rank_of_;                             // by stage
  std::map<int, std::pair<size_t, std::string>> message_of_;  // the first, by stage, and its rank
};

}  // namespace

absl::StatusOr<TracedPlan> PlanOfTraces(const std::vector<RankTrace>& traces,
                                        const std::vector<TraceStep>& steps) {
  NamedStages stages(traces);
  std::string csv;
  std::map<uint32_t, CellPlace> cells;  // by their beginnings
  for (size_t r = 0; r < traces.size(); ++r) {
    for (size_t i = steps[r].first; i < steps[r].end; ++i) {
      SL_RETURN_IF_ERROR(stages.Add(r, traces[r].actions[i].name));
      if (i > steps[r].first) csv += ",";
      cells[static_cast<uint32_t>(csv.size())] = {r, static_cast<uint32_t>(i)};
      csv += traces[r].actions[i].name;
    }
    csv += "\n";
  }
  SL_RETURN_IF_ERROR(stages.CheckAll());
  const auto place_of = [&](Span span) {
    const auto after = cells.upper_bound(span.begin);
    return after == cells.begin() ? CellPlace{} : std::prev(after)->second;
  };
  const Source source("torch.csv", csv);
  Diagnostics diagnostics;
  std::optional<TorchFile> file = ReadTorchCsv(source, &diagnostics);
  if (file) {
    file->plan.lowered = true;  // also if nothing is sent
    // The step has ended: senders did not wait for every receive that the checker's rendezvous
    // needs.
    Check(file->plan, {.buffers = file->plan.microbatches}, &diagnostics);
  }
  if (!diagnostics.empty()) {
    const Diagnostic& first = diagnostics.findings().front();
    const RankTrace& trace = traces[place_of(first.span).rank];
    return Refused(trace, absl::StrCat("step ", steps[0].number, ": ", first.text,
                                       "; is a range missing from the trace?"));
  }
  TracedPlan traced{.plan = std::move(file->plan)};
  for (const Action& action : traced.plan.actions) {
    traced.range.push_back(place_of(traced.plan.places[action.place]).range);
  }
  return traced;
}

}  // namespace stringline
