// The ranges become a file of torch's comms form, a row a rank; its reader and the checker do the
// rest. What they find is said of the trace that the row is made from.
#include "schedlang/trace/traced_plan.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedlang/base/status.h"
#include "schedlang/check/check.h"
#include "schedlang/formats/torch_cells.h"
#include "schedlang/formats/torch_csv.h"

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
  if (!absl::StartsWith(name, "(")) return {name};
  return absl::StrSplit(name.substr(1, name.find(')') - 1), ';');
}

// Every stage that is named or sent to is in one trace.
absl::Status CheckStages(const std::vector<RankTrace>& traces,
                         const std::vector<TraceStep>& steps) {
  std::map<int, size_t> rank_of;                            // by stage
  std::map<int, std::pair<size_t, std::string>> neighbour;  // of stages: a message to or from it
  for (size_t r = 0; r < traces.size(); ++r) {
    for (size_t i = steps[r].first; i < steps[r].end; ++i) {
      const std::string& name = traces[r].actions[i].name;
      for (const absl::string_view part : PartsOf(name)) {
        std::string fault;
        const auto action = ReadTorchAction(part, /*legacy=*/false, &fault);
        if (!action) {
          return Refused(traces[r], absl::StrCat("the range PP:", name, " is no action: ", fault));
        }
        const int stage = action->stage.value;
        const auto [owner, is_new] = rank_of.emplace(stage, r);
        if (owner->second != r) {
          return Refused(traces[r], absl::StrCat("stage ", stage, " is on rank ", traces[r].rank,
                                                 ", and in ", traces[owner->second].file,
                                                 " on rank ", traces[owner->second].rank,
                                                 ": these are copies of one pipeline; give the "
                                                 "traces of one of them"));
        }
        if (!IsMessage(action->kind)) continue;
        const bool is_next =
            action->kind == ActionKind::kSendForward || action->kind == ActionKind::kRecvBackward;
        neighbour.emplace(stage + (is_next ? 1 : -1), std::pair(r, name));
      }
    }
  }
  for (int stage = 0; !rank_of.empty() && stage < rank_of.rbegin()->first; ++stage) {
    if (rank_of.count(stage) == 0) neighbour.emplace(stage, std::pair(traces.size(), ""));
  }
  for (const auto& [stage, message] : neighbour) {
    if (rank_of.count(stage) > 0) continue;
    const size_t r = std::min(message.first, traces.size() - 1);
    return Refused(
        traces[r],
        absl::StrCat(
            "no trace has stage ", stage,
            message.second.empty() ? "" : absl::StrCat(", which PP:", message.second, " is for"),
            "; ", traces.size(), " of ", traces[r].processes,
            " processes' traces are given: is that of a rank missing?"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TracedPlan> PlanOfTraces(const std::vector<RankTrace>& traces,
                                        const std::vector<TraceStep>& steps) {
  SL_RETURN_IF_ERROR(CheckStages(traces, steps));
  std::string csv;
  std::map<uint32_t, CellPlace> cells;  // by where they begin
  for (size_t r = 0; r < traces.size(); ++r) {
    for (size_t i = steps[r].first; i < steps[r].end; ++i) {
      if (i > steps[r].first) csv += ",";
      cells[static_cast<uint32_t>(csv.size())] = {r, static_cast<uint32_t>(i)};
      csv += traces[r].actions[i].name;
    }
    csv += "\n";
  }
  const auto place_of = [&](Span span) {
    const auto after = cells.upper_bound(span.begin);
    return after == cells.begin() ? CellPlace{} : std::prev(after)->second;
  };
  const Source source("torch.csv", csv);
  Diagnostics diagnostics;
  std::optional<TorchFile> file = ReadTorchCsv(source, &diagnostics);
  if (file) {
    file->plan.lowered = true;  // also if nothing is sent
    // It has ended: who sent did not wait for all that the checker knows of.
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
