// Each function takes the flags of one question and gives it as a value; a value that cannot be is
// an error that names its option.
#include "tools/io/requests.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
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

// "3=10%", or of a link "3-4=50%".
absl::Status AddSlow(const std::string& text, CostRequest* request) {
  const std::vector<std::string> words = absl::StrSplit(text, absl::MaxSplits('=', 1));
  SlowRank rank;
  SlowLink link;
  const bool is_link = absl::StrContains(words[0], '-') && words[0][0] != '-';
  if (words.size() != 2 ||
      (!is_link && (!absl::SimpleAtoi(words[0], &rank.rank) || rank.rank < 0))) {
    return absl::InvalidArgumentError(
        absl::StrCat("--slow: '", text, "' is not like 3=10%, nor like 3-4=50% for a link"));
  }
  if (is_link) {
    const absl::StatusOr<RankLink> read = ParseRankLink(words[0]);
    if (!read.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--slow: ", read.status().message()));
    }
    link.link = *read;
  }
  constexpr CostKey kSlow = {"--slow", CostUnit::kShare, false, ""};
  SL_ASSIGN_OR_RETURN(const int64_t share, ParseCost(kSlow, words[1]));
  rank.share = link.share = share;
  if (is_link) {
    request->slow_links.push_back(link);
  } else {
    request->slow.push_back(rank);
  }
  return absl::OkStatus();
}

absl::Status ReadLimits(const Flags& flags, MemoryLimit* memory, MemoryLimit* host) {
  if (!flags.memory.empty()) {
    SL_ASSIGN_OR_RETURN(*memory, ParseMemoryLimit(flags.memory));
  }
  if (!flags.host_memory.empty()) {
    SL_ASSIGN_OR_RETURN(*host, ParseMemoryLimit(flags.host_memory, "host_memory"));
  }
  return absl::OkStatus();
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

absl::StatusOr<std::vector<Parameter>> ParametersOf(const Flags& flags) {
  SL_ASSIGN_OR_RETURN(std::vector<Parameter> parameters, ParseParameters(flags.parameters));
  if (flags.plan_steps > 0) {
    for (const Parameter& parameter : parameters) {
      if (parameter.name != kStepsParameter) continue;
      return absl::InvalidArgumentError("parameter 'steps' is given twice: also as --steps");
    }
    parameters.push_back({kStepsParameter, flags.plan_steps});
  }
  return parameters;
}

absl::StatusOr<PlanRequest> PlanRequestOf(const Flags& flags) {
  SL_ASSIGN_OR_RETURN(std::vector<Parameter> parameters, ParametersOf(flags));
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
    SL_RETURN_IF_ERROR(AddSlow(text, &request));
  }
  return request;
}

absl::StatusOr<std::optional<JitterRuns>> JitterOf(const Flags& flags, CostModel* costs) {
  if (flags.jitter.empty() && flags.seeds == 0) return std::nullopt;
  SL_RETURN_IF_ERROR(SetJitter(flags.jitter, costs));
  return JitterRuns{.runs = flags.seeds > 0 ? flags.seeds : kUsualDraws};
}

absl::StatusOr<CheckRequest> CheckRequestOf(const Flags& flags) {
  CheckRequest request{.layout = ReadCommLayout(flags.layout),
                       .buffers = flags.buffers,
                       .lazy = flags.lazy,
                       .activations = flags.activations};
  SL_ASSIGN_OR_RETURN(request.costs, CostRequestOf(flags));
  SL_RETURN_IF_ERROR(ReadLimits(flags, &request.memory, &request.host));
  return request;
}

PictureQuestion PictureQuestionOf(const Flags& flags) {
  return {.svg = flags.svg,
          .picture = flags.picture,
          .html = flags.html,
          .perfetto = flags.perfetto,
          .chrome = flags.chrome,
          .json = flags.json,
          .width = flags.width,
          .fold = flags.fold,
          .lanes = flags.lanes,
          .ranks = flags.shown_ranks,
          .time = flags.shown_time,
          .microbatches = flags.shown_microbatches,
          .color = flags.color,
          .no_title = flags.no_title,
          .palette = flags.palette,
          .force = flags.force};
}

CommLayout LayoutOf(const Flags& flags) {
  return ReadCommLayout(flags.layout).value_or(CommLayout::kEdge);
}

MessageRequest MessageRequestOf(const Flags& flags) {
  MessageRequest request{.layout = ReadCommLayout(flags.layout), .issue = {}};
  if (flags.messages == "as-written") request.issue = MessageIssue::kAsWritten;
  if (flags.messages == "early") request.issue = MessageIssue::kEarly;
  return request;
}

absl::StatusOr<SearchQuestion> SearchQuestionOf(const Flags& flags) {
  SearchQuestion question{.place = flags.place,
                          .any_split = !flags.split.empty(),
                          .layers = flags.layers,
                          .minimize = *search::ObjectiveOf(flags.minimize),
                          .jitter = flags.jitter,
                          .seeds = flags.seeds,
                          .expect = flags.expect,
                          .whole = flags.kinds != "F,I,W",
                          .split = flags.kinds != "F,B",
                          .pairs = flags.pairs,
                          .recompute = SearchRecomputeOf(flags.recompute),
                          .offload = SearchOffloadOf(flags.offload),
                          .seconds = flags.seconds,
                          .iterations = flags.iterations,
                          .seed = flags.seed};
  SL_ASSIGN_OR_RETURN(question.parameters, ParseParameters(flags.parameters));
  if (!flags.most_activations.empty() && flags.ranges.empty()) {
    SL_ASSIGN_OR_RETURN(question.activations,
                        MostActivations(flags.most_activations, question.parameters));
  }
  if (!flags.from.empty()) question.begin = {.file = flags.from, .schedule = flags.schedule};
  SL_ASSIGN_OR_RETURN(question.costs, CostRequestOf(flags));
  SL_RETURN_IF_ERROR(ReadLimits(flags, &question.memory, &question.host));
  return question;
}

std::string AskedBy(const Flags& flags) {
  std::string asked = "stringline search";
  for (size_t i = 0; i < flags.arguments.size(); ++i) {
    const std::string& argument = flags.arguments[i];
    if (argument == "--emit") ++i;  // and its file
    if (absl::StartsWith(argument, "--emit") || argument == "--json") continue;
    const bool quoted = argument.find(' ') != std::string::npos;
    absl::StrAppend(&asked, " ", quoted ? "'" : "", argument, quoted ? "'" : "");
  }
  return asked;
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
