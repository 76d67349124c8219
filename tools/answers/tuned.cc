// A row of the table is the best choice of a mesh. Shares are of the row's step.
#include "tools/answers/tuned.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/bytes.h"
#include "schedlang/tune/known_schedules.h"
#include "tools/view/pareto.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

using tune::Outcome;
using tune::StepPart;
using tune::TunedChoices;

std::string PrintTenth(double share) { return absl::StrFormat("%.1f %%", 100 * share); }

const char* ScheduleNameOf(const Outcome& outcome) {
  if (outcome.found != nullptr) return "found";
  return tune::KnownSchedules()[static_cast<size_t>(outcome.choice.schedule)].name;
}

using TunedRows = std::vector<std::vector<std::string>>;

TunedRows TunedTable(const TunedChoices& tuned) {
  TunedRows rows = {{"",          "tp",       "cp",    "pp",     "ep",       "dp",
                     "mb",        "schedule", "vp",    "split",  "sharding", "recompute",
                     "tok/s/GPU", "MFU",      "step",  "memory", "bubble",   "layers",
                     "messages",  "copies",   "update"}};
  for (size_t i = 0; i < tuned.best.size(); ++i) {
    const Outcome& outcome = tuned.best[i];
    const tune::Choice& choice = outcome.choice;
    rows.push_back({absl::StrCat(i + 1),
                    absl::StrCat(choice.tensor),
                    absl::StrCat(choice.context),
                    absl::StrCat(choice.pipeline),
                    absl::StrCat(choice.expert),
                    absl::StrCat(choice.data),
                    absl::StrCat(choice.microbatch),
                    ScheduleNameOf(outcome),
                    absl::StrCat(choice.turns),
                    choice.light_ends ? "light ends" : "even",
                    NameOf(choice.sharding),
                    PrintRecompute(choice),
                    absl::StrFormat("%.1f", tuned.TokensPerGpu(outcome.step_ns)),
                    PrintTenth(tuned.UtilizationOf(outcome.step_ns)),
                    PrintTime(outcome.step_ns),
                    PrintBytes(outcome.bytes, 1),
                    PrintTenth(outcome.parts.ShareOf(StepPart::kBubble)),
                    PrintTenth(outcome.parts.ShareOf(StepPart::kLayers)),
                    PrintTenth(outcome.parts.ShareOf(StepPart::kPipeline)),
                    PrintTenth(outcome.parts.ShareOf(StepPart::kData)),
                    PrintTenth(outcome.parts.ShareOf(StepPart::kBehind))});
  }
  return rows;
}

std::string WhyWorseThanBest(const TunedChoices& tuned, size_t i) {
  return WhyWorse(tuned.best[0].parts, tuned.best[i].parts, tuned.best[i].choice);
}

// "an order of the optimiser's, on the stages of zb_v"
std::string OfFound(const Outcome& outcome) {
  return absl::StrCat("an order of the optimiser's, on the stages of ",
                      tune::KnownSchedules()[static_cast<size_t>(outcome.choice.schedule)].name);
}

std::string PrintTuneCounts(const tune::Counts& counts) {
  std::string line = absl::StrCat(
      counts.considered, " choices considered: ", counts.by_memory, " cannot fit, ",
      counts.by_bound, " cannot be better by their bound, ", counts.simulated, " simulated");
  if (counts.too_large > 0)
    absl::StrAppend(&line, ", ", counts.too_large, " in an order that does not fit");
  if (counts.refused > 0) absl::StrAppend(&line, ", ", counts.refused, " that admit no plan");
  if (counts.open > 0) absl::StrAppend(&line, ", ", counts.open, " left over");
  return line;
}

std::string PrintTuneBound(const TunedChoices& tuned) {
  const int64_t best = tuned.best[0].step_ns;
  if (tuned.bound_ns >= best) return "the best possible: no choice considered has a shorter step";
  const double above = static_cast<double>(best) / static_cast<double>(tuned.bound_ns) - 1;
  return absl::StrFormat("no choice considered takes less than %s: at most %.1f %% is left",
                         PrintTime(tuned.bound_ns), 100 * above);
}

Json ChoiceAsJson(const Outcome& outcome) {
  const tune::Choice& choice = outcome.choice;
  return {{"tp", choice.tensor},
          {"cp", choice.context},
          {"pp", choice.pipeline},
          {"ep", choice.expert},
          {"dp", choice.data},
          {"vp", choice.turns},
          {"microbatch", choice.microbatch},
          {"microbatches", choice.microbatches},
          {"schedule", ScheduleNameOf(outcome)},
          {"split", choice.light_ends ? "light-ends" : "even"},
          {"sharding", NameOf(choice.sharding)},
          {"recompute", PrintRecompute(choice)}};
}

constexpr char kTunedPageHead[] = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>stringline tune</title><style>
body { font: 14px system-ui, sans-serif; margin: 24px; max-width: 1240px }
svg { display: block; max-width: 100%; height: auto }
.wide { overflow-x: auto } table { border-collapse: collapse; margin: 12px 0 }
td, th { padding: 2px 8px; text-align: right; white-space: nowrap }
tr:nth-child(even) { background: #f4f4f4 }
</style></head><body>
)";

}  // namespace

void PrintTuned(const TunedChoices& tuned, std::ostream& out) {
  const Outcome& best = tuned.best[0];
  out << absl::StreamFormat(
      "best: %s\n  %.1f tokens/s/GPU, MFU %s, step %s, %s of %s that can be used\n",
      Print(best.choice), tuned.TokensPerGpu(best.step_ns),
      PrintTenth(tuned.UtilizationOf(best.step_ns)), PrintTime(best.step_ns),
      PrintBytes(best.bytes, 1), PrintBytes(tuned.capacity, 1));
  out << "  " << PrintTuneBound(tuned) << "\n\n";
  out << PrintColumns(TunedTable(tuned));
  out << "\nexposed shares of the step: collectives inside layers (tensor, context and expert "
         "parallelism), messages of the\npipeline, collectives of copies, the optimizer's step\n";
  for (size_t i = 0; i < tuned.best.size(); ++i) {
    std::vector<std::string> words;
    if (i > 0) words.push_back(WhyWorseThanBest(tuned, i));
    if (tuned.best[i].found != nullptr) words.push_back(OfFound(tuned.best[i]));
    if (!words.empty()) out << i + 1 << ": " << absl::StrJoin(words, "; ") << "\n";
  }
  out << PrintTuneCounts(tuned.counts) << "\n";
}

Json TunedAsJson(const TunedChoices& tuned) {
  Json choices = Json::array();
  for (size_t i = 0; i < tuned.best.size(); ++i) {
    const Outcome& outcome = tuned.best[i];
    Json row = ChoiceAsJson(outcome);
    row["tokens_per_second_per_gpu"] = tuned.TokensPerGpu(outcome.step_ns);
    row["mfu"] = tuned.UtilizationOf(outcome.step_ns);
    row["step_us"] = Microseconds(outcome.step_ns);
    row["memory"] = outcome.bytes;
    const tune::StepParts& parts = outcome.parts;
    row["parts_us"] = {{"compute", Microseconds(parts[StepPart::kCompute])},
                       {"recompute", Microseconds(parts[StepPart::kAgain])},
                       {"bubble", Microseconds(parts[StepPart::kBubble])},
                       {"layers", Microseconds(parts[StepPart::kLayers])},
                       {"messages", Microseconds(parts[StepPart::kPipeline])},
                       {"copies", Microseconds(parts[StepPart::kData])},
                       {"update", Microseconds(parts[StepPart::kBehind])},
                       {"jitter", Microseconds(parts[StepPart::kJitter])}};
    row["why"] = i == 0 ? "" : WhyWorseThanBest(tuned, i);
    choices.push_back(std::move(row));
  }
  const tune::Counts& counts = tuned.counts;
  Json json = {{"ok", true}, {"findings", Json::array()}};
  json["choices"] = std::move(choices);
  json["bound_us"] = Microseconds(tuned.bound_ns);
  json["capacity"] = tuned.capacity;
  json["gpus"] = tuned.gpus;
  json["tokens_per_step"] = tuned.tokens;
  json["counts"] = {{"considered", counts.considered},
                    {"memory", counts.by_memory},
                    {"bound", counts.by_bound},
                    {"simulated", counts.simulated},
                    {"too_large", counts.too_large},
                    {"refused", counts.refused},
                    {"open", counts.open}};
  return json;
}

std::string TunedSvg(const TunedChoices& tuned) {
  constexpr double kGiB = 1 << 30;
  std::vector<ParetoPoint> points;
  for (const Outcome& outcome : tuned.simulated) {
    ParetoPoint point = {static_cast<double>(outcome.bytes) / kGiB,
                         tuned.TokensPerGpu(outcome.step_ns), ""};
    const auto listed =
        std::find_if(tuned.best.begin(), tuned.best.end(), [&](const Outcome& best) {
          return best.choice == outcome.choice && best.found == outcome.found;
        });
    if (listed == tuned.best.end()) points.push_back(point);
  }
  for (const Outcome& outcome : tuned.best) {
    points.push_back({static_cast<double>(outcome.bytes) / kGiB,
                      tuned.TokensPerGpu(outcome.step_ns), Print(outcome.choice)});
  }
  const double limit = static_cast<double>(tuned.capacity) / kGiB;
  return ParetoAsSvg(points, {"memory of the fullest GPU, GiB", "tokens/s/GPU", limit,
                              absl::StrFormat("a GPU's %.1f GiB", limit)});
}

std::string TunedPage(const TunedChoices& tuned, const std::string& asked) {
  std::string page =
      absl::StrCat(kTunedPageHead, "<h1>The best choices</h1>\n<p><code>", EscapeMarkup(asked),
                   "</code></p>\n<p>", EscapeMarkup(PrintTuneBound(tuned)), "</p>\n",
                   TunedSvg(tuned), "<div class=\"wide\"><table>\n");
  const TunedRows rows = TunedTable(tuned);
  for (size_t i = 0; i < rows.size(); ++i) {
    absl::StrAppend(&page, "<tr>");
    for (const std::string& cell : rows[i]) {
      absl::StrAppend(&page, i == 0 ? "<th>" : "<td>", EscapeMarkup(cell),
                      i == 0 ? "</th>" : "</td>");
    }
    absl::StrAppend(&page, "</tr>\n");
  }
  absl::StrAppend(&page, "</table></div>\n<ol>\n<li>the best</li>\n");
  for (size_t i = 1; i < tuned.best.size(); ++i) {
    absl::StrAppend(&page, "<li>", EscapeMarkup(WhyWorseThanBest(tuned, i)), "</li>\n");
  }
  return absl::StrCat(page, "</ol>\n<p>", EscapeMarkup(PrintTuneCounts(tuned.counts)),
                      "</p>\n</body></html>\n");
}

std::string PrintMiss(const TunedChoices& tuned) {
  std::string text = "no choice fits";
  if (tuned.counts.open > 0) {
    absl::StrAppend(&text, " so far, and ", tuned.counts.open,
                    " are left over: give more time or evaluations");
  }
  if (tuned.miss) {
    absl::StrAppend(&text, tuned.counts.open > 0 ? "; the nearest, " : ": the nearest, ",
                    Print(tuned.miss->choice), ", needs ", PrintBytes(tuned.miss->bytes),
                    " on its fullest GPU, ", PrintBytes(tuned.miss->bytes - tuned.capacity),
                    " more than the ", PrintBytes(tuned.capacity), " there are (", tuned.miss->what,
                    ")");
  } else if (tuned.counts.open == 0 && !tuned.refusal.empty()) {
    absl::StrAppend(&text, ": every plan was refused; the first: ", tuned.refusal);
  }
  return absl::StrCat(text, "; ", PrintTuneCounts(tuned.counts));
}

}  // namespace stringline
