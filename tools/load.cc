#include "tools/load.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedlang/base/status.h"
#include "schedlang/check/check.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/formats/torch_csv.h"
#include "schedlang/lower/lower.h"
#include "schedlang/sim/cost_keys.h"
#include "schedlang/sim/variations.h"
#include "schedlang/text/parse.h"
#include "tools/check_options.h"

namespace stringline {
namespace {

bool IsInteger(absl::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  if (text.empty()) return false;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
  }
  return true;
}

absl::StatusOr<Parameter> ParseParameter(const std::string& arg) {
  const size_t equals = arg.find('=');
  if (equals == std::string::npos || equals == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", arg, "' is not a parameter; write it as P=4"));
  }
  Parameter parameter{arg.substr(0, equals), 0};
  const std::string value = arg.substr(equals + 1);
  if (absl::SimpleAtoi(value, &parameter.value)) return parameter;
  return absl::InvalidArgumentError(absl::StrCat(
      "'", arg, "': ", IsInteger(value) ? "the value does not fit 64 bits" : "not an integer"));
}

void Elaborated(const std::vector<Parameter>& parameters, const std::string& name,
                LoadedPlan* loaded) {
  std::optional<ast::File> file = Parse(loaded->source, &loaded->diagnostics);
  if (!file || !loaded->diagnostics.empty()) return;
  loaded->plan = Elaborate(*file, name, parameters, &loaded->diagnostics);
}

void ReadTorch(LoadedPlan* loaded) {
  std::optional<TorchFile> file = ReadTorchCsv(loaded->source, &loaded->diagnostics);
  if (!file) return;
  loaded->plan = std::move(file->plan);
  loaded->waits = std::move(file->waits);
}

}  // namespace

bool HasExtension(const std::string& path, const char* extension) {
  return absl::EndsWith(path, extension);
}

absl::StatusOr<std::vector<Parameter>> ParseParameters(const std::vector<std::string>& args) {
  std::vector<Parameter> parameters;
  for (const std::string& arg : args) {
    SL_ASSIGN_OR_RETURN(Parameter parameter, ParseParameter(arg));
    for (const Parameter& earlier : parameters) {
      if (earlier.name == parameter.name) {
        return absl::InvalidArgumentError(
            absl::StrCat("parameter '", parameter.name, "' is given twice"));
      }
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

absl::StatusOr<LoadedPlan> LoadPlan(const Flags& flags) {
  SL_ASSIGN_OR_RETURN(std::vector<Parameter> parameters, ParseParameters(flags.parameters));
  SL_ASSIGN_OR_RETURN(Source source, ReadSource(flags.file));
  LoadedPlan loaded{std::move(source), std::nullopt, {}};
  const bool is_csv = HasExtension(flags.file, ".csv");
  if (is_csv || HasExtension(flags.file, ".plan")) {
    if (!parameters.empty() || !flags.schedule.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          flags.file, ": a plan holds its parameters already; give them only for a schedule"));
    }
    if (is_csv) {
      ReadTorch(&loaded);
    } else {
      loaded.plan = ReadPlan(loaded.source, &loaded.diagnostics);
    }
  } else {
    Elaborated(parameters, flags.schedule, &loaded);
  }
  if (!loaded.diagnostics.empty()) loaded.plan.reset();
  return loaded;
}

absl::StatusOr<LoadedPlan> LoadCheckedPlan(const Flags& flags) {
  SL_ASSIGN_OR_RETURN(LoadedPlan loaded, LoadPlan(flags));
  if (!loaded.plan) return loaded;
  if (!loaded.plan->lowered) loaded.plan = Lower(*loaded.plan, LayoutOf(flags));
  SL_ASSIGN_OR_RETURN(const CheckOptions options, LoadCheckOptions(flags, *loaded.plan));
  if (!Check(*loaded.plan, options, &loaded.diagnostics)) loaded.plan.reset();
  return loaded;
}

absl::StatusOr<CostSpec> LoadCostSpec(const Flags& flags) {
  if (!flags.cost.empty()) return ParseCosts(flags.cost);
  if (!flags.cost_file.empty()) return ReadCostFile(flags.cost_file);
  return UnitCosts();
}

absl::StatusOr<CostModel> LoadCosts(const Flags& flags, const Plan& plan) {
  SL_ASSIGN_OR_RETURN(const CostSpec spec, LoadCostSpec(flags));
  SL_ASSIGN_OR_RETURN(CostModel costs, ResolveCosts(spec, plan));
  for (const std::string& slow : flags.slow) {
    const std::vector<std::string> words = absl::StrSplit(slow, absl::MaxSplits('=', 1));
    int rank = -1;
    if (words.size() != 2 || !absl::SimpleAtoi(words[0], &rank) || rank < 0) {
      return absl::InvalidArgumentError(absl::StrCat("--slow: '", slow, "' is not like 3=10%"));
    }
    if (rank >= plan.ranks()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--slow: there is no rank ", rank, "; the plan has ", plan.ranks()));
    }
    constexpr CostKey kSlow = {"--slow", CostUnit::kShare, false, ""};
    SL_ASSIGN_OR_RETURN(const int64_t millionths, ParseCost(kSlow, words[1]));
    costs =
        WithSlowRank(plan, std::move(costs), RankId(rank), static_cast<double>(millionths) * 1e-6);
  }
  return costs;
}

absl::StatusOr<CostModel> LoadTorchCosts(const Flags& flags, const Plan& plan) {
  constexpr int64_t kMessageNs = 50'000;
  SL_ASSIGN_OR_RETURN(CostModel costs, LoadCosts(flags, plan));
  if (flags.cost.empty() && flags.cost_file.empty()) costs.hop = kMessageNs;
  return costs;
}

}  // namespace stringline
