// The answer of `search` in words, as JSON and as a schedule.
#include "tools/answers/found_schedule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedlang/ask/search_session.h"
#include "schedlang/base/bytes.h"
#include "schedlang/base/status.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/check/rules.h"
#include "schedlang/costs/order_fit.h"
#include "schedlang/report/memory_curve.h"
#include "schedlang/write/write_schedule.h"
#include "tools/answers/balance_line.h"
#include "tools/answers/ready_lines.h"
#include "tools/answers/slow_note.h"
#include "tools/io/json.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

std::string PrintGap(const FoundSchedule& found) {
  if (found.IsProven()) return "the best possible: no order is shorter";
  return absl::StrFormat("at most %.2f %% above the best possible", 100 * found.gap());
}

// "makespan", "mean makespan of 20 draws".
std::string PrintGoal(const FoundSchedule& found) {
  const char* const name = search::NameOf(found.goal.objective);
  if (found.goal.draws == 0) return name;
  return absl::StrCat(NameOf(found.goal.expect), " ", name, " of ", found.goal.draws,
                      found.goal.draws == 1 ? " draw" : " draws");
}

// Why nothing is below the bound.
std::string PrintBound(const FoundSchedule& found) {
  if (found.goal.draws > 0) {
    return absl::StrCat(PrintTime(found.least), ", for the times that were drawn; without jitter ",
                        PrintTime(found.bound.sum()), ": ", search::Print(found.bound, PrintTime));
  }
  if (found.any_split) {
    return absl::StrCat(PrintTime(found.least),
                        ", whichever layers the stages hold: the busiest rank's work, or what all "
                        "ranks work and wait for their first microbatch");
  }
  const std::string reason = search::Print(found.bound, PrintTime);
  if (found.least < found.bound.sum()) {
    return absl::StrCat(PrintTime(found.least), ", in another place; here ",
                        PrintTime(found.bound.sum()), ": ", reason);
  }
  if (found.least == found.bound.sum()) return absl::StrCat(PrintTime(found.least), ": ", reason);
  if (found.goal.objective == search::Objective::kPeriod) {
    return absl::StrCat(PrintTime(found.least), ", with updates; without them ",
                        PrintTime(found.bound.sum()), ": ", reason);
  }
  return absl::StrCat(PrintTime(found.least), ", by trying what could be shorter; without that ",
                      PrintTime(found.bound.sum()), ": ", reason);
}

// "1 of 2 stages recompute; its costs are those with recompute=[1,0], a run file says
// recompute: [all, none]".
std::string PrintRecomputing(const FoundSchedule& found) {
  std::vector<int> stages(found.plan.stages.size(), 0);
  std::vector<const char*> words(stages.size(), "none");
  for (const int s : found.recomputing) {
    stages[static_cast<size_t>(s)] = 1;
    words[static_cast<size_t>(s)] = "all";
  }
  return absl::StrCat(found.recomputing.size(), " of ", stages.size(),
                      " stages recompute; its costs are those with recompute=[",
                      absl::StrJoin(stages, ","), "], a run file says recompute: [",
                      absl::StrJoin(words, ", "), "]");
}

// "stages 0, 1 copy 5 of 16 microbatches to the host".
std::string PrintOffloading(const FoundSchedule& found) {
  int64_t copies = 0, all = 0;
  for (const Action& action : found.plan.actions) {
    copies += action.kind == ActionKind::kOffload ? 1 : 0;
  }
  for (const int s : found.offloading) all += found.plan.microbatches_of(StageId(s));
  return absl::StrCat(found.offloading.size(), " of ", found.plan.stages.size(),
                      " stages offload: ", absl::StrJoin(found.offloading, ", "), "; copies to ",
                      "the host for ", copies, " of their ", all, " microbatches");
}

std::string PrintRemaking(const FoundSchedule& found) {
  return absl::StrCat("by R ahead of the gradients: stages ", absl::StrJoin(found.remaking, ", "));
}

// "rank 3 holds the most bytes, 79.2 GB of at most 80.0 GB"
std::string PrintMostBytes(const std::vector<int64_t>& bytes, const MemoryLimit& limit,
                           const char* where) {
  const auto most = std::max_element(bytes.begin(), bytes.end());
  const auto rank = static_cast<int>(most - bytes.begin());
  std::string line =
      absl::StrCat("rank ", rank, " holds the most bytes", where, ", ", PrintBytes(*most));
  if (limit.of(rank) >= 0) absl::StrAppend(&line, " of at most ", PrintBytes(limit.of(rank)));
  return line;
}

// The header's lines: the question, the value reached, the bound.
std::vector<std::string> HeaderOf(const std::string& asked, const FoundSchedule& found) {
  std::vector<std::string> lines = {
      absl::StrCat("Found by: ", asked),
      absl::StrCat(PrintGoal(found), " ", PrintTime(found.value), ", ", PrintGap(found)),
      absl::StrCat("bound ", PrintBound(found))};
  if (!found.recomputing.empty()) lines.push_back(PrintRecomputing(found));
  if (!found.remaking.empty()) lines.push_back(PrintRemaking(found));
  if (!found.offloading.empty()) lines.push_back(PrintOffloading(found));
  return lines;
}

std::optional<MicrobatchBalance> BalanceOf(const FoundSchedule& found) {
  if (found.costs.shares.tokens.empty()) return std::nullopt;  // no wiring for nothing
  return stringline::BalanceOf(
      found.lowered, WiringOf(found.lowered, CommLayout::kEdge, found.costs.receive_buffers),
      found.costs);
}

}  // namespace

absl::StatusOr<std::string> EmittedText(const FoundQuestion& question, const FoundSchedule& found,
                                        const Stop* stop) {
  Plan plan = found.plan;
  plan.schedule = "found";
  search::WriteOptions options{
      .name = "found", .header = HeaderOf(question.asked, found), .stop = stop};
  if (std::optional<OrderCosts> costs = OrderCostsFrom(found.plan, found.costs)) {
    options.costs = {*std::move(costs)};
  }
  // More microbatches must fit as well.
  options.limits.activations = question.activations;
  options.limits.memory = found.memory;
  options.limits.host = found.host;
  if (found.memory.is_given() || found.host.is_given())
    options.limits.sizes = SizesOfCosts(found.plan, found.costs.memory);
  SL_ASSIGN_OR_RETURN(const search::WrittenSchedule written, search::WriteSchedule(plan, options));
  return written.text;
}

Json FoundAsJson(const FoundSchedule& found) {
  const Bubbles bubbles = MeasureBubbles(found.timeline);
  Json library = Json::array();
  for (const LibraryValue& known : found.library) {
    library.push_back({{"schedule", known.schedule}, {"value_us", Microseconds(known.value)}});
  }
  Json activations = Json::array();
  for (int r = 0; r < found.lowered.ranks(); ++r) {
    activations.push_back(PeakActivationsOf(found.lowered, RankId(r)).count);
  }
  Json json = {{"ok", true},
               {"minimize", search::NameOf(found.goal.objective)},
               {"value_us", Microseconds(found.value)},
               {"bound_us", Microseconds(found.least)},
               {"bound", PrintBound(found)},
               {"gap", found.gap()},
               {"proven", found.IsProven()},
               {"iterations", found.iterations},
               {"makespan_us", Microseconds(bubbles.makespan_ns)},
               {"span_us", Microseconds(bubbles.span_ns)},
               {"place", found.place.empty() ? Json() : Json(found.place)},
               {"places", found.places},
               {"stages", found.plan.stages.size()},
               {"activations", std::move(activations)},
               {"layers", found.plan.split.layers},
               {"recompute", found.recomputing},
               {"remade", found.remaking},
               {"offload", found.offloading},
               {"bytes", found.bytes},
               {"host_bytes", found.host_bytes},
               {"library", std::move(library)}};
  if (found.goal.draws > 0) {
    json["expect"] = NameOf(found.goal.expect);
    json["jitter"] = DrawsAsJson(found.costs, found.drawn_ns);
  }
  AddSlow(found.asked, &json);
  if (const auto balance = BalanceOf(found)) AddBalance(*balance, &json);
  return json;
}

void PrintFound(const FoundSchedule& found, std::ostream& out) {
  const Bubbles bubbles = MeasureBubbles(found.timeline);
  out << PrintGoal(found) << " " << PrintTime(found.value) << ", " << PrintGap(found) << "\n"
      << "bound    " << PrintBound(found) << "\n";
  out << "simulated: makespan " << PrintTime(bubbles.makespan_ns) << ", span "
      << PrintTime(bubbles.span_ns) << ", " << PrintBubble(bubbles) << "\n";
  const std::string slow = SlowNote(found.asked);
  if (!slow.empty()) out << slow << "\n";
  if (found.goal.draws > 0) PrintDraws(found.costs, found.drawn_ns, out);
  if (found.places.size() > 1) {
    out << "stages live on " << found.place << ", the best of " << absl::StrJoin(found.places, ", ")
        << "\n";
  }
  if (found.any_split) {
    out << "stages hold " << absl::StrJoin(found.plan.split.layers, ", ") << " layers\n";
  }
  if (!found.recomputing.empty()) out << PrintRecomputing(found) << "\n";
  if (!found.remaking.empty()) out << PrintRemaking(found) << "\n";
  if (!found.offloading.empty()) out << PrintOffloading(found) << "\n";
  if (!found.host_bytes.empty()) {
    out << PrintMostBytes(found.bytes, found.memory, "") << "\n"
        << PrintMostBytes(found.host_bytes, found.host, " on its host") << "\n";
  }
  if (const auto balance = BalanceOf(found)) {
    PrintBalance(*balance, bubbles.makespan_ns, "", out);
  }
  const int most = MostActivationsOf(found.lowered);
  out << "a rank holds at most " << most << (most == 1 ? " activation" : " activations") << "\n";
  if (found.library.empty()) return;
  const LibraryValue& known = found.library.front();
  const double longer = static_cast<double>(known.value - found.value) /
                        static_cast<double>(std::max<int64_t>(1, found.value));
  out << "of the library's schedules within this memory " << known.schedule
      << " is the best there: " << PrintTime(known.value)
      << absl::StreamFormat(", %.2f %% longer\n", 100 * longer);
}

}  // namespace stringline
