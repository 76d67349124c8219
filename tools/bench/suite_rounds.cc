// First the rows of the results, each with its key and with the repetitions that the file holds for
// this key. Then rounds: each gives a repetition to every row that lacks some.
#include "tools/bench/suite_rounds.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/fnv.h"
#include "schedlang/base/status.h"
#include "schedlang/base/write_file.h"
#include "tools/bench/machine.h"
#include "tools/bench/measure.h"

namespace stringline {
namespace {

std::string KeyOfText(const std::string& text) {
  Fnv hash;
  for (const char c : text) hash.Add(static_cast<uint8_t>(c));
  return absl::StrCat(absl::Hex(hash.value(), absl::kZeroPad16));
}

// Without torch's version, which says nothing of our side.
Json OwnVersions(Json versions) {
  versions.erase("torch");
  return versions;
}

class SuiteRounds {
 public:
  SuiteRounds(const Suite& suite, std::string out, const SuiteWatch& watch)
      : suite_(suite), out_(std::move(out)), watch_(watch) {}

  absl::StatusOr<MeasuredSuite> All(bool again) {
    SL_ASSIGN_OR_RETURN(prepared_, PrepareCases(suite_, again));
    SuiteResults& results = measured_.results;
    results.suite = std::filesystem::path(suite_.path).filename().string();
    results.date = DateNow();
    results.device = DescribeDevice();
    results.versions = DescribeVersions();
    results.repetitions = suite_.repetitions;
    results.steps = suite_.steps;
    results.warm_up = suite_.warm_up;
    if (suite_.beside_torch) {
      const absl::StatusOr<TorchPrograms> torch = FindTorch(watch_.stop);
      if (absl::IsCancelled(torch.status())) measured_.stopped = true;
      if (torch.ok()) torch_ = *torch;
      results.versions["torch"] = torch_.version.empty() ? Json(nullptr) : Json(torch_.version);
    }
    SL_ASSIGN_OR_RETURN(const std::optional<SuiteResults> before, Before(again));
    if (before) results.date = before->date;
    if (measured_.stopped) return std::move(measured_);
    for (const PreparedCase& prepared : prepared_) {
      AddRow(prepared, kOwnSide, before);
      if (suite_.beside_torch) AddRow(prepared, kTorchSide, before);
    }
    SL_RETURN_IF_ERROR(Rounds());
    SL_RETURN_IF_ERROR(WriteFileAtomically(out_, Print(results)));
    return std::move(measured_);
  }

 private:
  // The results in the file; nothing where the file is missing or does not count.
  absl::StatusOr<std::optional<SuiteResults>> Before(bool again) const {
    std::optional<SuiteResults> none;
    std::error_code error;
    if (again || !std::filesystem::exists(out_, error)) return none;
    absl::StatusOr<SuiteResults> before = ReadResults(out_);
    if (!before.ok()) {
      return absl::Status(before.status().code(),
                          absl::StrCat(before.status().message(), "; --again writes it anew"));
    }
    const SuiteResults& now = measured_.results;
    const bool same_device = before->device == now.device;
    if (!same_device || OwnVersions(before->versions) != OwnVersions(now.versions)) {
      return absl::FailedPreconditionError(absl::StrCat(
          out_, ": holds results of another ", same_device ? "build of stringline" : "machine",
          "; --out FILE keeps them, --again measures all anew in their place"));
    }
    return std::optional<SuiteResults>(*std::move(before));
  }

  void AddRow(const PreparedCase& prepared, const char* side,
              const std::optional<SuiteResults>& before) {
    const bool own = side == absl::string_view(kOwnSide);
    CaseResult row;
    row.name = prepared.of.name;
    row.side = side;
    row.model = prepared.of.model;
    row.schedule = prepared.of.schedule;
    row.mesh = prepared.of.mesh;
    row.precision = prepared.of.precision;
    row.inputs = prepared.inputs;
    row.reason = prepared.reason;
    if (!own && row.reason.empty()) row.reason = torch_.reason;
    if (!own && row.reason.empty()) row.reason = prepared.torch_reason;
    const Json& versions = measured_.results.versions;
    std::string all = absl::StrCat(side, row.inputs.dump(), measured_.results.device.dump(),
                                   OwnVersions(versions).dump());
    if (!own) absl::StrAppend(&all, torch_.version, torch_.programs);
    row.key = KeyOfText(all);
    const CaseResult* const old = before ? before->Find(row.name, row.side) : nullptr;
    if (row.reason.empty() && old != nullptr && old->key == row.key) {
      row.repetitions = old->repetitions;
      row.runs = old->runs;
      row.params = old->params;
      row.tokens_per_step = old->tokens_per_step;
      measured_.kept += static_cast<int>(row.repetitions.size());
    }
    measured_.results.cases.push_back(std::move(row));
    of_rows_.push_back(&prepared);
  }

  bool IsDue(const CaseResult& row, int round) const {
    return row.reason.empty() && static_cast<int>(row.repetitions.size()) <= round;
  }

  int CountLeft() const {
    int left = 0;
    for (const CaseResult& row : measured_.results.cases) {
      for (int round = 0; round < suite_.repetitions; ++round) left += IsDue(row, round) ? 1 : 0;
    }
    return left;
  }

  absl::Status Rounds() {
    SL_ASSIGN_OR_RETURN(const MeasuringFolder folder, MeasuringFolder::Make());
    for (int round = 0; round < suite_.repetitions; ++round) {
      for (size_t i = 0; i < of_rows_.size(); ++i) {
        CaseResult& row = measured_.results.cases[i];
        if (!IsDue(row, round)) continue;
        const bool own = row.side == kOwnSide;
        watch_.begins(absl::StrCat(row.name, own ? "" : " in torch"), measured_.measured,
                      measured_.measured + CountLeft());
        absl::StatusOr<MeasuredCase> got =
            own ? MeasureOwn(*of_rows_[i], suite_.warm_up, folder.path(), watch_.stop)
                : MeasureTorch(*of_rows_[i], torch_, folder.path(), watch_.stop);
        if (absl::IsCancelled(got.status())) {
          measured_.stopped = true;
          return absl::OkStatus();
        }
        Take(std::move(got), &row);
        SL_RETURN_IF_ERROR(WriteFileAtomically(out_, Print(measured_.results)));
      }
    }
    return absl::OkStatus();
  }

  void Take(absl::StatusOr<MeasuredCase> got, CaseResult* row) {
    if (!got.ok()) {
      row->reason = std::string(got.status().message());
      row->repetitions.clear();  // a case that fails now and then is not compared
      return;
    }
    row->runs = got->runs;
    row->params = got->params;
    row->tokens_per_step = got->tokens_per_step;
    row->repetitions.push_back(std::move(got->repetition));
    ++measured_.measured;
  }

  const Suite& suite_;
  const std::string out_;
  const SuiteWatch& watch_;
  std::vector<PreparedCase> prepared_;
  std::vector<const PreparedCase*> of_rows_;
  TorchPrograms torch_;
  MeasuredSuite measured_;
};

}  // namespace

absl::StatusOr<std::vector<PreparedCase>> PrepareCases(const Suite& suite, bool again) {
  std::vector<PreparedCase> prepared;
  for (const SuiteCase& of : suite.cases) {
    SL_ASSIGN_OR_RETURN(PreparedCase made, PrepareCase(of, suite, again));
    prepared.push_back(std::move(made));
  }
  return prepared;
}

absl::StatusOr<MeasuredSuite> MeasureSuite(const Suite& suite, const std::string& out, bool again,
                                           const SuiteWatch& watch) {
  return SuiteRounds(suite, out, watch).All(again);
}

}  // namespace stringline
