#include "tools/io/requests.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedlang/base/status.h"
#include "schedlang/base/written_out.h"
#include "schedlang/costs/cost_keys.h"
#include "tools/io/progress.h"

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
  const std::string whole = WrittenOut(value);
  return absl::InvalidArgumentError(absl::StrCat(
      "'", arg, "': ", IsInteger(value) ? "the value does not fit 64 bits" : "not an integer",
      whole.empty() ? "" : absl::StrCat("; write ", parameter.name, "=", whole)));
}

// "3=10%"
absl::StatusOr<SlowRank> ParseSlowRank(const std::string& text) {
  const std::vector<std::string> words = absl::StrSplit(text, absl::MaxSplits('=', 1));
  SlowRank slow;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &slow.rank) || slow.rank < 0) {
    return absl::InvalidArgumentError(absl::StrCat("--slow: '", text, "' is not like 3=10%"));
  }
  constexpr CostKey kSlow = {"--slow", CostUnit::kShare, false, ""};
  SL_ASSIGN_OR_RETURN(slow.share, ParseCost(kSlow, words[1]));
  return slow;
}

}  // namespace

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

absl::StatusOr<PlanRequest> PlanRequestOf(const Flags& flags) {
  SL_ASSIGN_OR_RETURN(std::vector<Parameter> parameters, ParseParameters(flags.parameters));
  SL_ASSIGN_OR_RETURN(std::vector<Parameter> offered, ParseParameters(flags.offered));
  return PlanRequest{flags.file, flags.schedule, std::move(parameters), std::move(offered),
                     flags.again};
}

absl::StatusOr<CostRequest> CostRequestOf(const Flags& flags) {
  CostRequest request{.text = flags.cost,
                      .file = flags.cost_file,
                      .work = flags.work,
                      .copies = {flags.mesh, flags.sharding, flags.bucket}};
  for (const std::string& text : flags.slow) {
    SL_ASSIGN_OR_RETURN(const SlowRank slow, ParseSlowRank(text));
    request.slow.push_back(slow);
  }
  return request;
}

absl::StatusOr<MemoryLimit> ParseMemoryLimit(const std::string& text) {
  constexpr int kMostRanks = 1 << 20;
  const std::vector<std::string> words = absl::StrSplit(text, ',');
  MemoryLimit limit;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t colon = words[i].find(':');
    const bool names_rank = colon != std::string::npos;
    int rank = static_cast<int>(i);
    if (names_rank != (words[0].find(':') != std::string::npos) ||
        (names_rank && !absl::SimpleAtoi(words[i].substr(0, colon), &rank)) || rank < 0 ||
        rank >= kMostRanks) {
      return absl::InvalidArgumentError(
          absl::StrCat("--memory ", text,
                       ": give one limit for all ranks, as 80GiB, one for each from rank 0 on, as "
                       "80GiB,40GiB, or those of some, as 0:80GiB,3:40GiB"));
    }
    const absl::StatusOr<int64_t> bytes =
        ParseWithUnit(CostUnit::kBytes, names_rank ? words[i].substr(colon + 1) : words[i]);
    if (!bytes.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--memory: ", bytes.status().message()));
    }
    if (words.size() == 1 && !names_rank) return MemoryLimit(*bytes);
    limit.is_of_each = !names_rank;
    const auto size = std::max(limit.ranks.size(), static_cast<size_t>(rank) + 1);
    limit.ranks.resize(size, -1);
    limit.ranks[static_cast<size_t>(rank)] = *bytes;
  }
  return limit;
}

absl::StatusOr<CheckRequest> CheckRequestOf(const Flags& flags) {
  CheckRequest request{.layout = LayoutOf(flags),
                       .buffers = flags.buffers,
                       .lazy = flags.lazy,
                       .activations = flags.activations};
  SL_ASSIGN_OR_RETURN(request.costs, CostRequestOf(flags));
  if (flags.memory.empty()) return request;
  SL_ASSIGN_OR_RETURN(request.memory, ParseMemoryLimit(flags.memory));
  return request;
}

absl::StatusOr<ShownPart> ShownPartOf(const Flags& flags, const std::vector<Session>& steps) {
  SL_ASSIGN_OR_RETURN(const ShownPart part, ParseShownPart(flags.shown_ranks, flags.shown_time,
                                                           flags.shown_microbatches));
  for (const Session& step : steps) SL_RETURN_IF_ERROR(CheckShownPart(part, *step.timeline));
  return part;
}

CommLayout LayoutOf(const Flags& flags) {
  return ReadCommLayout(flags.layout).value_or(CommLayout::kEdge);
}

MessageRequest MessageRequestOf(const Flags& flags) {
  const bool as_written = flags.messages == "as-written";
  return {LayoutOf(flags), as_written ? MessageIssue::kAsWritten : MessageIssue::kEarly};
}

absl::StatusOr<Session> OpenPlanOf(const Flags& flags) {
  SL_ASSIGN_OR_RETURN(const PlanRequest request, PlanRequestOf(flags));
  return OpenPlan(request);
}

absl::StatusOr<Session> OpenCheckedPlanOf(const Flags& flags, FindModelSizes model,
                                          const Output& output) {
  SL_ASSIGN_OR_RETURN(const PlanRequest request, PlanRequestOf(flags));
  SL_ASSIGN_OR_RETURN(CheckRequest check, CheckRequestOf(flags));
  check.model = std::move(model);
  const Progress progress(output, "checking");
  return OpenCheckedPlan(request, check);
}

absl::StatusOr<Session> OpenStepOf(const Flags& flags, const Output& output) {
  SL_ASSIGN_OR_RETURN(const PlanRequest request, PlanRequestOf(flags));
  SL_ASSIGN_OR_RETURN(const CostRequest costs, CostRequestOf(flags));
  const Progress progress(output, "simulating");
  return OpenStep(request, costs, MessageRequestOf(flags));
}

absl::StatusOr<CostModel> CostsOf(const Flags& flags, const Plan& plan) {
  SL_ASSIGN_OR_RETURN(const CostRequest request, CostRequestOf(flags));
  return CostsFor(request, plan);
}

}  // namespace stringline
