#include "schedlang/sim/costs.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

const std::vector<std::string>& Keys() {
  static const auto* keys = new std::vector<std::string>{"F", "B", "I", "W", "FB", "p2p"};
  return *keys;
}

absl::Status CheckKey(absl::string_view key) {
  if (std::find(Keys().begin(), Keys().end(), key) != Keys().end()) return absl::OkStatus();
  const std::string close = ClosestName(key, Keys());
  return absl::InvalidArgumentError(
      absl::StrCat("unknown cost '", key, "' (there are F, B, I, W, FB and p2p)",
                   close.empty() ? "" : absl::StrCat("; did you mean '", close, "'?")));
}

// "18522", "1.5ms": integer nanoseconds. `key` is for the message.
absl::StatusOr<int64_t> ParseTime(absl::string_view key, absl::string_view text) {
  constexpr double kLongest = 1e15;  // ns: eleven days
  struct Unit {
    absl::string_view suffix;
    double ns;
  };
  constexpr Unit kUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"", 1e3}};
  const absl::string_view all = absl::StripAsciiWhitespace(text);
  for (const Unit& unit : kUnits) {
    absl::string_view digits = all;
    if (digits.size() < unit.suffix.size() ||
        digits.substr(digits.size() - unit.suffix.size()) != unit.suffix) {
      continue;
    }
    digits.remove_suffix(unit.suffix.size());
    double value = 0;
    if (digits.empty() || digits.find_first_not_of("0123456789.") != absl::string_view::npos ||
        !absl::SimpleAtod(digits, &value)) {
      break;
    }
    if (value * unit.ns > kLongest) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, ": '", all, "' is longer than eleven days"));
    }
    return std::llround(value * unit.ns);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      key, ": '", all, "' is not a time (a number of microseconds, or one with ns, us, ms or s)"));
}

absl::Status Add(absl::string_view key, std::vector<int64_t> values, CostSpec* spec) {
  SL_RETURN_IF_ERROR(CheckKey(key));
  if (key == "p2p" && values.size() != 1) {
    return absl::InvalidArgumentError("p2p: takes one value, the latency of every hop");
  }
  if (values.empty()) return absl::InvalidArgumentError(absl::StrCat(key, ": the list is empty"));
  if (!spec->values.emplace(std::string(key), std::move(values)).second) {
    return absl::InvalidArgumentError(absl::StrCat(key, ": is given twice"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> ParseTimes(absl::string_view key, absl::string_view text) {
  std::vector<int64_t> values;
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    SL_ASSIGN_OR_RETURN(const int64_t ns, ParseTime(key, item));
    values.push_back(ns);
  }
  return values;
}

absl::Status AddYaml(const YAML::Node& value, absl::string_view key, CostSpec* spec) {
  std::vector<int64_t> values;
  auto add = [&](const YAML::Node& item) -> absl::Status {
    if (!item.IsScalar()) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": expected a time or a list of times"));
    }
    SL_ASSIGN_OR_RETURN(const int64_t ns, ParseTime(key, item.Scalar()));
    values.push_back(ns);
    return absl::OkStatus();
  };
  if (value.IsSequence()) {
    for (const YAML::Node& item : value) SL_RETURN_IF_ERROR(add(item));
  } else {
    SL_RETURN_IF_ERROR(add(value));
  }
  return Add(key, std::move(values), spec);
}

// One value per stage from one value for all or a list; empty when nothing was said.
absl::StatusOr<std::vector<int64_t>> PerStage(const CostSpec& spec, const std::string& key,
                                              size_t stages) {
  const auto found = spec.values.find(key);
  if (found == spec.values.end()) return std::vector<int64_t>{};
  const std::vector<int64_t>& values = found->second;
  if (values.size() == 1) return std::vector<int64_t>(stages, values[0]);
  if (values.size() == stages) return values;
  return absl::InvalidArgumentError(absl::StrCat(key, ": ", values.size(), " values for ", stages,
                                                 " stages (give one for all, or one a stage)"));
}

}  // namespace

absl::StatusOr<CostSpec> ParseCosts(absl::string_view text) {
  CostSpec spec;
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  while (true) {
    const size_t equals = rest.find('=');
    if (equals == absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat("expected KEY=TIME, got '", rest, "'"));
    }
    const absl::string_view key = absl::StripAsciiWhitespace(rest.substr(0, equals));
    rest = absl::StripLeadingAsciiWhitespace(rest.substr(equals + 1));
    const bool list = !rest.empty() && rest[0] == '[';
    size_t end = list ? rest.find(']') : std::min(rest.find(','), rest.size());
    if (end == absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": the list has no ']'"));
    }
    SL_RETURN_IF_ERROR(CheckKey(key));
    SL_ASSIGN_OR_RETURN(std::vector<int64_t> values,
                        ParseTimes(key, rest.substr(list ? 1 : 0, list ? end - 1 : end)));
    SL_RETURN_IF_ERROR(Add(key, std::move(values), &spec));
    rest = absl::StripLeadingAsciiWhitespace(rest.substr(list ? end + 1 : end));
    if (rest.empty()) return spec;
    if (rest[0] != ',') {
      return absl::InvalidArgumentError(absl::StrCat("expected ',' before '", rest, "'"));
    }
    rest.remove_prefix(1);
  }
}

absl::StatusOr<CostSpec> ReadCostFile(const std::string& path) {
  SL_ASSIGN_OR_RETURN(const Source source, ReadSource(path));
  CostSpec spec;
  try {
    const YAML::Node root = YAML::Load(std::string(source.text()));
    if (!root.IsMap()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": expected a map of costs, for example 'F: 18522'"));
    }
    for (const auto& entry : root) {
      if (!entry.first.IsScalar()) {
        return absl::InvalidArgumentError(absl::StrCat(path, ": a key is not a word"));
      }
      const absl::Status added = AddYaml(entry.second, entry.first.Scalar(), &spec);
      if (!added.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ":", entry.first.Mark().line + 1, ": ", added.message()));
      }
    }
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", error.mark.line + 1, ": ", error.msg));
  }
  return spec;
}

CostSpec UnitCosts() {
  constexpr int64_t kMs = 1'000'000;
  return {{{"F", {kMs}}, {"I", {kMs}}, {"W", {kMs}}, {"B", {2 * kMs}}, {"p2p", {0}}}};
}

absl::StatusOr<CostModel> ResolveCosts(const CostSpec& spec, const Plan& plan) {
  const size_t stages = plan.stages.size();
  CostModel model;
  SL_ASSIGN_OR_RETURN(model.forward, PerStage(spec, "F", stages));
  SL_ASSIGN_OR_RETURN(model.backward, PerStage(spec, "B", stages));
  SL_ASSIGN_OR_RETURN(model.input_gradient, PerStage(spec, "I", stages));
  SL_ASSIGN_OR_RETURN(model.weight_gradient, PerStage(spec, "W", stages));
  SL_ASSIGN_OR_RETURN(model.forward_backward, PerStage(spec, "FB", stages));
  const auto hop = spec.values.find("p2p");
  if (hop != spec.values.end()) model.hop = hop->second[0];
  if (model.backward.empty() && !model.input_gradient.empty() && !model.weight_gradient.empty()) {
    for (size_t s = 0; s < stages; ++s) {
      model.backward.push_back(model.input_gradient[s] + model.weight_gradient[s]);
    }
  }
  const std::vector<int64_t>* const of[] = {&model.forward, &model.backward, &model.input_gradient,
                                            &model.weight_gradient};
  for (const Action& action : plan.actions) {
    if (!IsCompute(action.kind) || !of[static_cast<int>(action.kind)]->empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the schedule performs ", Print(plan, action), ", but there is no cost for ",
                     PrintedKind(action.kind),
                     action.kind == ActionKind::kBackward ? " (nor for I and W)" : ""));
  }
  return model;
}

int64_t GroupCost(const CostModel& costs, absl::Span<const Action> group) {
  if (group.size() == 2 && !costs.forward_backward.empty()) {
    const bool forward_first = group[0].kind == ActionKind::kForward;
    const Action& f = group[forward_first ? 0 : 1];
    const Action& b = group[forward_first ? 1 : 0];
    if (f.kind == ActionKind::kForward && b.kind == ActionKind::kBackward) {
      return costs.forward_backward[f.stage.value];
    }
  }
  int64_t sum = 0;
  for (const Action& part : group) {
    const size_t s = static_cast<size_t>(part.stage.value);
    switch (part.kind) {
      case ActionKind::kForward:
        sum += costs.forward[s];
        break;
      case ActionKind::kBackward:
        sum += costs.backward[s];
        break;
      case ActionKind::kInputGradient:
        sum += costs.input_gradient[s];
        break;
      case ActionKind::kWeightGradient:
        sum += costs.weight_gradient[s];
        break;
      default:
        SL_CHECK(false) << PrintedKind(part.kind) << " is no computation";
    }
  }
  return sum;
}

}  // namespace stringline
