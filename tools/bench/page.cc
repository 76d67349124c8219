// A page is sections, each a text with a table. A section without content is left out.
#include "tools/bench/page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "schedlang/base/bytes.h"
#include "tools/bench/compare_results.h"
#include "tools/bench/spread.h"

namespace stringline {
namespace {

using Cells = std::vector<std::string>;

// 0.0123 s -> "12.3 ms": three digits, since nobody measures more.
std::string PrintFigure(double us) {
  if (us < 1e3) return absl::StrFormat("%.3g us", us);
  if (us < 1e6) return absl::StrFormat("%.3g ms", us / 1e3);
  return absl::StrFormat("%.3g s", us / 1e6);
}

// As exact as anybody compares them.
std::string PrintPeak(int64_t bytes) { return PrintBytes(bytes, bytes < int64_t{1} << 30 ? 0 : 1); }

std::string PrintBubbleOf(const std::optional<double>& share) {
  return share ? absl::StrFormat("%.1f %%", 100 * *share) : "";
}

std::string PrintTimes(double ratio) { return absl::StrFormat("%.2fx", ratio); }

std::string Markdown(const Cells& head, const std::vector<Cells>& rows) {
  std::string text = absl::StrCat("| ", absl::StrJoin(head, " | "), " |\n|");
  for (size_t i = 0; i < head.size(); ++i) text += "---|";
  text += "\n";
  for (Cells row : rows) {
    for (std::string& cell : row) cell = absl::StrReplaceAll(cell, {{"|", "\\|"}, {"\n", " "}});
    absl::StrAppend(&text, "| ", absl::StrJoin(row, " | "), " |\n");
  }
  return text;
}

// "| small | 1f1b P=4 M=8 | one pipeline | fp32 |"; the last two only where cases differ.
class CaseColumns {
 public:
  explicit CaseColumns(const SuiteResults& results) {
    for (const CaseResult& result : results.cases) {
      meshes_ = meshes_ || !result.mesh.empty();
      precisions_ = precisions_ || result.precision != results.cases.front().precision;
    }
  }
  Cells Head(Cells more) const {
    Cells row = {"model", "schedule"};
    if (meshes_) row.push_back("mesh");
    if (precisions_) row.push_back("precision");
    row.insert(row.end(), more.begin(), more.end());
    return row;
  }
  Cells Of(const CaseResult& result, Cells more) const {
    Cells row = {result.model, result.schedule};
    if (meshes_) row.push_back(result.mesh.empty() ? "one pipeline" : result.mesh);
    if (precisions_) row.push_back(result.precision);
    row.insert(row.end(), more.begin(), more.end());
    return row;
  }

 private:
  bool meshes_ = false, precisions_ = false;
};

std::string BesideSection(const SuiteResults& results) {
  const CaseColumns columns(results);
  std::vector<Cells> rows;
  for (const CaseResult& ours : results.cases) {
    const CaseResult* const torch = results.Find(ours.name, kTorchSide);
    if (ours.side != kOwnSide || !ours.IsMeasured() || torch == nullptr || !torch->IsMeasured()) {
      continue;
    }
    const CaseSummary a = Summarise(*torch), b = Summarise(ours);
    rows.push_back(
        columns.Of(ours, {torch->runs, PrintFigure(a.step_us), PrintFigure(b.step_us),
                          PrintTimes(a.step_us / b.step_us), PrintFigure(a.processor_us),
                          PrintFigure(b.processor_us), PrintTimes(a.processor_us / b.processor_us),
                          PrintPeak(a.resident_bytes), PrintPeak(b.resident_bytes)}));
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      "## Beside torch\n\n"
      "The same model from the same first values on the same data, in the same stages, on both "
      "sides: torch in torch.distributed.pipelining on a process a rank with one thread each, "
      "which talk over gloo, stringline in one process with threads. Where torch has the schedule "
      "it runs its own, otherwise our order from `stringline export`. Medians over the repetitions "
      "of each one's median step; processor time is of all ranks, user and system. Ratios are "
      "torch / stringline. Torch's memory is that of its largest rank, forked from a process that "
      "has imported torch; ours is that of all ranks.\n\n",
      Markdown(columns.Head({"torch runs", "torch, a step", "stringline", "ratio",
                             "torch, processor time", "stringline", "ratio",
                             "torch, a rank's memory", "stringline, all ranks"}),
               rows));
}

std::string AloneSection(const SuiteResults& results) {
  const CaseColumns columns(results);
  std::vector<Cells> rows;
  for (const CaseResult& ours : results.cases) {
    if (ours.side != kOwnSide || !ours.IsMeasured()) continue;
    const CaseSummary of = Summarise(ours);
    rows.push_back(columns.Of(
        ours,
        {PrintFigure(of.step_us),
         absl::StrCat(PrintFigure(of.first_quartile_us), " to ", PrintFigure(of.third_quartile_us)),
         absl::StrFormat("%.0f", of.tokens_per_second), PrintFigure(of.processor_us),
         PrintBubbleOf(of.measured_bubble), PrintBubbleOf(of.simulated_bubble),
         PrintPeak(of.resident_bytes), absl::StrFormat("%.4f", of.loss)}));
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      "## Stringline\n\n"
      "Quartiles are of all steps. The bubble is the mean over ranks of idle time in the last "
      "step, measured, and as the simulator has it from the costs of the steps before; where ranks "
      "share cores, what an action takes includes waiting for one. The loss is the last step's, in "
      "nats.\n\n",
      Markdown(columns.Head({"a step", "quartiles", "tokens/s", "processor time",
                             "bubble, measured", "simulated", "memory", "loss"}),
               rows));
}

std::string MissingSection(const SuiteResults& results) {
  const CaseColumns columns(results);
  std::vector<Cells> rows;
  for (const CaseResult& result : results.cases) {
    const CaseResult* const ours = results.Find(result.name, kOwnSide);
    const bool again = result.side != kOwnSide && ours != nullptr && ours->reason == result.reason;
    if (result.reason.empty() || again) continue;
    rows.push_back(columns.Of(result, {result.side, result.reason}));
  }
  if (rows.empty()) return "";
  return absl::StrCat("## What was not measured\n\n",
                      Markdown(columns.Head({"side", "why"}), rows));
}

// The difference of the largest and the least; nothing for fewer than two values.
std::optional<double> SpreadOf(const std::vector<double>& values) {
  if (values.size() < 2) return std::nullopt;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *most - *least;
}

// Cases that train the same: a model in a precision on the same tokens, with any schedule.
std::string LossesSection(const SuiteResults& results) {
  struct LossGroup {
    std::vector<double> ours, torch;
    double tolerance = 0;
  };
  std::map<std::string, LossGroup> groups;
  for (const CaseResult& result : results.cases) {
    if (!result.IsMeasured()) continue;
    LossGroup& group = groups[absl::StrCat(result.model, " in ", result.precision, ", ",
                                           result.tokens_per_step, " tokens a step")];
    group.tolerance = LossTolerance(result.precision);
    (result.side == kOwnSide ? group.ours : group.torch).push_back(Summarise(result).loss);
  }
  std::vector<Cells> rows;
  for (const auto& [name, group] : groups) {
    std::optional<double> between;
    if (!group.ours.empty() && !group.torch.empty()) {
      between = std::fabs(Median(group.ours) - Median(group.torch));
    }
    Cells row = {name};
    double most = -1;
    for (const auto& apart : {SpreadOf(group.ours), SpreadOf(group.torch), between}) {
      row.push_back(apart ? absl::StrFormat("%.1e", *apart) : "");
      most = std::max(most, apart.value_or(-1));
    }
    if (most < 0) continue;  // only a single loss
    row.push_back(most <= group.tolerance ? "the same" : "**not the same**");
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      "## Losses\n\nThe schedule does not change what is trained: how far the last step's losses "
      "of "
      "one model are apart, in nats.\n\n",
      Markdown({"training", "stringline's schedules", "torch's", "between the two", ""}, rows));
}

std::string NoiseSection(const SuiteResults& results) {
  std::vector<double> late, speeds, spreads;
  for (const CaseResult& result : results.cases) {
    for (const Repetition& of : result.repetitions) {
      late.push_back(of.control.late);
      speeds.push_back(of.control.speed);
    }
    if (result.repetitions.size() < 2) continue;
    std::vector<double> medians = Summarise(result).repetitions_us;
    const auto [least, most] = std::minmax_element(medians.begin(), medians.end());
    spreads.push_back((*most - *least) / Median(medians));
  }
  if (late.empty()) return "";
  const auto disturbed =
      std::count_if(late.begin(), late.end(), [](double value) { return value > kMostLate; });
  std::string text = absl::StrFormat(
      "## How noisy the machine was\n\nBefore and after every repetition a control needs every "
      "core for 25 ms. It was later than that by %.1f %% (median) and %.1f %% (at most); by more "
      "than %.0f %% in %d of %d repetitions. The speed of its loop stayed within %.1f %%.",
      100 * Median(late), 100 * Quantile(late, 1), 100 * kMostLate, disturbed, late.size(),
      100 * (Quantile(speeds, 1) / Quantile(speeds, 0) - 1));
  if (!spreads.empty()) {
    absl::StrAppendFormat(
        &text,
        " The medians of a case's repetitions lie within %.1f %% of each other in "
        "half of the cases, and within %.1f %% in all.",
        100 * Median(spreads), 100 * Quantile(spreads, 1));
  }
  if (2 * disturbed > static_cast<std::ptrdiff_t>(late.size())) {
    absl::StrAppend(&text,
                    " So other programs ran all along: of what the clock says only ratios mean "
                    "something, and not much; processor time moves less.");
  }
  return text + "\n";
}

std::string AboutResults(const SuiteResults& results) {
  const Json& device = results.device;
  const Json& versions = results.versions;
  const Json gpu = device.value("gpu", Json()), torch = versions.value("torch", Json()),
             cuda = versions.value("cuda", Json());
  std::map<std::string, std::string> models;
  for (const CaseResult& result : results.cases) {
    models[result.model] = result.inputs.value("model", "");
  }
  std::string text = absl::StrFormat(
      "%d repetitions of %d steps, after %d that do not count; each is a process of its own, and "
      "all cases take turns. %s: %d cores of %s, %.0f GiB of memory%s. Stringline %s (%s%s)%s.\n",
      results.repetitions, results.steps, results.warm_up, results.date.substr(0, 10),
      device.value("cores", 0), device.value("cpu", "a CPU"),
      device.value("memory_bytes", 0.0) / (1 << 30),
      gpu.is_string() ? absl::StrCat(", ", gpu.get<std::string>()) : "",
      versions.value("stringline", ""), versions.value("compiler", ""),
      cuda.is_string() ? absl::StrCat(", CUDA ", cuda.get<std::string>()) : "",
      torch.is_string() ? absl::StrCat(", torch ", torch.get<std::string>()) : "");
  for (const auto& [name, sizes] : models) {
    absl::StrAppend(&text, "\n- ", name, ": `", sizes, "`");
  }
  return text + "\n";
}

}  // namespace

std::string PrintPage(const SuiteResults& results) {
  std::string page =
      absl::StrCat("# Training steps, measured\n\n`stringline bench ", results.suite,
                   " --page` has measured and written this page.\n\n", AboutResults(results));
  for (const auto section :
       {BesideSection, AloneSection, LossesSection, MissingSection, NoiseSection}) {
    const std::string text = section(results);
    if (!text.empty()) absl::StrAppend(&page, "\n", text);
  }
  return page;
}

std::string PrintTable(const SuiteResults& results) {
  size_t width = 4;
  for (const CaseResult& result : results.cases) width = std::max(width, result.name.size());
  const int columns = static_cast<int>(width);
  std::string text = absl::StrFormat("%-*s %10s  %-22s %10s %10s %10s\n", columns, "case", "a step",
                                     "quartiles", "tokens/s", "processor", "torch");
  for (const CaseResult& result : results.cases) {
    const CaseResult* const torch = results.Find(result.name, kTorchSide);
    if (result.side != kOwnSide) continue;
    if (!result.IsMeasured()) {
      absl::StrAppendFormat(&text, "%-*s %s\n", columns, result.name,
                            result.reason.empty() ? "not measured yet" : result.reason);
      continue;
    }
    const CaseSummary of = Summarise(result);
    const std::string theirs = torch == nullptr ? ""
                               : !torch->IsMeasured()
                                   ? "none"
                                   : PrintTimes(Summarise(*torch).step_us / of.step_us);
    absl::StrAppendFormat(
        &text, "%-*s %10s  %-22s %10.0f %10s %10s\n", columns, result.name, PrintFigure(of.step_us),
        absl::StrCat(PrintFigure(of.first_quartile_us), " to ", PrintFigure(of.third_quartile_us)),
        of.tokens_per_second, PrintFigure(of.processor_us), theirs);
  }
  return text;
}

}  // namespace stringline
