// stringline bench: times of training steps on this machine, and changes against an earlier bench.
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/cost_keys.h"
#include "tools/bench/compare_results.h"
#include "tools/bench/page.h"
#include "tools/bench/suite_rounds.h"
#include "tools/commands/command.h"
#include "tools/io/json.h"
#include "tools/io/progress.h"
#include "tools/io/stop_signals.h"

namespace stringline {
namespace {

bool IsResults(const std::string& file) { return absl::EndsWith(file, ".json"); }

// --out, or out/bench/SUITE.json.
std::string ResultsFile(const Flags& flags) {
  if (!flags.out.empty()) return flags.out;
  const std::string name = std::filesystem::path(flags.files[0]).stem().string();
  return absl::StrCat("out/bench/", name, ".json");
}

// "5%" or "0.05".
absl::StatusOr<double> ShareOf(absl::string_view text) {
  constexpr CostKey kSlower = {"--fail-slower", CostUnit::kShare, false, ""};
  SL_ASSIGN_OR_RETURN(const int64_t millionths, ParseCost(kSlower, text));
  return 1e-6 * static_cast<double>(millionths);
}

absl::Status WritePage(const Flags& flags, const SuiteResults& results, const Output& output) {
  if (flags.page.empty()) return absl::OkStatus();
  return WriteAsked(output, flags.page, PrintPage(results));
}

void PrintUnseen(const std::vector<std::string>& unseen, const std::string& share,
                 std::ostream& out) {
  if (unseen.empty()) return;
  out << "--fail-slower cannot see whether " << unseen.size()
      << (unseen.size() == 1 ? " case is" : " cases are") << " slower by more than " << share
      << ":\n";
  for (const std::string& line : unseen) out << "  " << line << "\n";
}

int CompareFiles(const Flags& flags, const Output& output) {
  if (flags.files.size() != 2) {
    return Fail(output, "--compare: expected two results, the older one first");
  }
  const bool fails = !flags.fail_slower.empty();
  const absl::StatusOr<double> asked = fails ? ShareOf(flags.fail_slower) : kAskedShare;
  if (!asked.ok()) return Fail(output, asked.status().message());
  const absl::StatusOr<SuiteResults> before = ReadResults(flags.files[0]);
  if (!before.ok()) return Fail(output, before.status().message());
  const absl::StatusOr<SuiteResults> after = ReadResults(flags.files[1]);
  if (!after.ok()) return Fail(output, after.status().message());
  const SuiteComparison comparison = CompareResults(*before, *after, *asked);
  const int slower = fails ? CountSlower(comparison) : 0;
  const std::vector<std::string> unseen =
      fails ? UnseenCases(comparison) : std::vector<std::string>();
  const bool ok = slower == 0 && unseen.empty();
  if (output.json) {
    Json json = {{"ok", ok}, {"findings", Json::array()}, {"slower", slower}, {"unseen", unseen}};
    json.update(AsJson(comparison));
    WriteJson(output.out, json);
  } else {
    output.out << PrintComparison(*before, *after, comparison);
    if (slower > 0) {
      output.out << slower << (slower == 1 ? " case is" : " cases are") << " slower by more than "
                 << flags.fail_slower << "\n";
    }
    PrintUnseen(unseen, flags.fail_slower, output.out);
  }
  return ok ? kOk : kFindings;
}

int ListCases(const Flags& flags, const Suite& suite, const Output& output) {
  const absl::StatusOr<std::vector<PreparedCase>> cases = PrepareCases(suite, flags.again);
  if (!cases.ok()) return Fail(output, cases.status().message());
  Json list = Json::array();
  for (const PreparedCase& prepared : *cases) {
    const std::string& reason = prepared.reason;
    list.push_back(
        {{"name", prepared.of.name}, {"reason", reason.empty() ? Json(nullptr) : Json(reason)}});
    if (output.json) continue;
    output.out << prepared.of.name << (reason.empty() ? "" : ": cannot be run: ") << reason << "\n";
  }
  if (output.json) WriteJson(output.out, {{"ok", true}, {"cases", std::move(list)}});
  return kOk;
}

int ShowResults(const Flags& flags, const Output& output) {
  const absl::StatusOr<SuiteResults> results = ReadResults(flags.files[0]);
  if (!results.ok()) return Fail(output, results.status().message());
  const absl::Status written = WritePage(flags, *results, output);
  if (!written.ok()) return Fail(output, written.message());
  if (output.json) {
    Json json = {{"ok", true}};
    json.update(AsJson(*results));
    WriteJson(output.out, json);
  } else {
    output.out << PrintTable(*results);
  }
  return kOk;
}

int MeasureFile(const Flags& flags, const Suite& suite, const Output& output) {
  const std::string out = ResultsFile(flags);
  StopSignals signals;
  signals.Begin();
  absl::StatusOr<MeasuredSuite> measured;
  {
    Progress progress(output, "measuring");
    const SuiteWatch watch = {
        .stop = [&] { return signals.came() != 0; },
        .begins = [&](const std::string& doing, int done,
                      int all) { progress.Say(absl::StrCat(done, " of ", all, ", ", doing)); }};
    measured = MeasureSuite(suite, out, flags.again, watch);
  }
  if (!measured.ok()) return Fail(output, measured.status().message());
  const absl::Status written = WritePage(flags, measured->results, output);
  if (!written.ok()) return Fail(output, written.message());
  const std::string stopped =
      measured->stopped ? absl::StrCat("stopped by ", NameOfSignal(signals.came())) : "";
  if (output.json) {
    Json json = {{"ok", !measured->stopped}};
    if (measured->stopped) json.update(Json{{"error", stopped}, {"findings", Json::array()}});
    json.update(Json{{"measured", measured->measured}, {"kept", measured->kept}, {"file", out}});
    json.update(AsJson(measured->results));
    WriteJson(output.out, json);
  } else {
    output.out << PrintTable(measured->results) << "\n"
               << measured->measured << " repetitions measured, " << measured->kept
               << " were there already: " << out << "\n";
    if (measured->stopped) output.out << stopped << "; the same command goes on from here\n";
  }
  return measured->stopped ? 128 + signals.came() : kOk;
}

}  // namespace

int RunBench(const Flags& flags, const Output& output) {
  if (flags.compare) return CompareFiles(flags, output);
  if (flags.files.size() != 1)
    return Fail(output, "bench: expected one suite or one file of results");
  if (flags.out == kStandardStream) {
    return Fail(output, "--out -: the file is written again and again; --json prints it");
  }
  if (IsResults(flags.files[0])) return ShowResults(flags, output);
  const absl::StatusOr<Suite> suite = ReadSuite(flags.files[0]);
  if (!suite.ok()) return Fail(output, suite.status().message());
  return flags.list ? ListCases(flags, *suite, output) : MeasureFile(flags, *suite, output);
}

}  // namespace stringline
