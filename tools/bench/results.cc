// Anything but results is detected in a single place: a missing key or a value of another type is
// an exception of the JSON library, which becomes an error there.
#include "tools/bench/results.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"
#include "tools/bench/spread.h"

namespace stringline {
namespace {

constexpr int kForm = 1;
constexpr uint64_t kMostResultBytes = uint64_t{1} << 30;

template <typename Value>
Json OrNull(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <typename Value>
std::optional<Value> OptionalAt(const Json& json, const char* key) {
  const Json& value = json.at(key);
  if (value.is_null()) return std::nullopt;
  return value.get<Value>();
}

std::string TextOrNull(const Json& json, const char* key) {
  return OptionalAt<std::string>(json, key).value_or("");
}

Json RepetitionAsJson(const Repetition& of) {
  return {{"date", of.date},
          {"step_us", of.step_us},
          {"processor_us", of.processor_us},
          {"loss", of.loss},
          {"resident_bytes", of.resident_bytes},
          {"allocated_bytes", OrNull(of.allocated_bytes)},
          {"measured_bubble", OrNull(of.measured_bubble)},
          {"simulated_bubble", OrNull(of.simulated_bubble)},
          {"control", {{"late", of.control.late}, {"speed", of.control.speed}}}};
}

Repetition RepetitionOf(const Json& json) {
  Repetition of;
  of.date = json.at("date").get<std::string>();
  of.step_us = json.at("step_us").get<std::vector<double>>();
  if (of.step_us.empty()) throw Json::other_error::create(501, "a repetition has no step", nullptr);
  of.processor_us = json.at("processor_us").get<double>();
  of.loss = json.at("loss").get<double>();
  of.resident_bytes = json.at("resident_bytes").get<int64_t>();
  of.allocated_bytes = OptionalAt<int64_t>(json, "allocated_bytes");
  of.measured_bubble = OptionalAt<double>(json, "measured_bubble");
  of.simulated_bubble = OptionalAt<double>(json, "simulated_bubble");
  of.control.late = json.at("control").at("late").get<double>();
  of.control.speed = json.at("control").at("speed").get<double>();
  return of;
}

Json MediansAsJson(const CaseResult& result) {
  if (!result.IsMeasured()) return nullptr;
  const CaseSummary of = Summarise(result);
  return {{"step_us", of.step_us},
          {"quartiles_us", {of.first_quartile_us, of.third_quartile_us}},
          {"repetitions_us", of.repetitions_us},
          {"processor_us", of.processor_us},
          {"tokens_per_second", of.tokens_per_second},
          {"resident_bytes", of.resident_bytes},
          {"allocated_bytes", OrNull(of.allocated_bytes)},
          {"measured_bubble", OrNull(of.measured_bubble)},
          {"simulated_bubble", OrNull(of.simulated_bubble)},
          {"loss", of.loss}};
}

Json CaseAsJson(const CaseResult& result) {
  Json repetitions = Json::array();
  for (const Repetition& of : result.repetitions) repetitions.push_back(RepetitionAsJson(of));
  return {{"name", result.name},
          {"side", result.side},
          {"model", result.model},
          {"schedule", result.schedule},
          {"mesh", result.mesh},
          {"precision", result.precision},
          {"key", result.key},
          {"inputs", result.inputs},
          {"reason", result.reason.empty() ? Json(nullptr) : Json(result.reason)},
          {"runs", result.runs},
          {"params", result.params},
          {"tokens_per_step", result.tokens_per_step},
          {"repetitions", std::move(repetitions)},
          {"summary", MediansAsJson(result)}};
}

CaseResult CaseOf(const Json& json) {
  CaseResult result;
  for (const auto& [key, text] :
       {std::pair("name", &result.name), std::pair("side", &result.side),
        std::pair("model", &result.model), std::pair("schedule", &result.schedule),
        std::pair("mesh", &result.mesh), std::pair("precision", &result.precision),
        std::pair("key", &result.key), std::pair("runs", &result.runs)}) {
    *text = json.at(key).get<std::string>();
  }
  result.inputs = json.at("inputs");
  result.reason = TextOrNull(json, "reason");
  result.params = json.at("params").get<int64_t>();
  result.tokens_per_step = json.at("tokens_per_step").get<int64_t>();
  for (const Json& of : json.at("repetitions")) result.repetitions.push_back(RepetitionOf(of));
  return result;
}

SuiteResults ResultsOf(const Json& json) {
  if (json.at("form").get<int>() != kForm) {
    throw Json::other_error::create(
        501, absl::StrCat("its form is ", json.at("form").dump(), ", and not ", kForm), nullptr);
  }
  SuiteResults results;
  results.suite = json.at("suite").get<std::string>();
  results.date = json.at("date").get<std::string>();
  results.device = json.at("device");
  results.versions = json.at("versions");
  const Json& settings = json.at("settings");
  results.repetitions = settings.at("repetitions").get<int>();
  results.steps = settings.at("steps").get<int>();
  results.warm_up = settings.at("warm_up").get<int>();
  for (const Json& of : json.at("cases")) results.cases.push_back(CaseOf(of));
  return results;
}

template <typename Member>
auto MedianOf(const std::vector<Repetition>& repetitions, Member member) {
  std::vector<double> values;
  for (const Repetition& of : repetitions) {
    const auto& value = member(of);
    if (value) values.push_back(static_cast<double>(*value));
  }
  std::optional<double> median;
  if (!values.empty()) median = Median(values);
  return median;
}

}  // namespace

const CaseResult* SuiteResults::Find(const std::string& name, const std::string& side) const {
  for (const CaseResult& result : cases) {
    if (result.name == name && result.side == side) return &result;
  }
  return nullptr;
}

CaseSummary Summarise(const CaseResult& result) {
  CaseSummary summary;
  std::vector<double> all;
  for (const Repetition& of : result.repetitions) {
    summary.repetitions_us.push_back(Median(of.step_us));
    all.insert(all.end(), of.step_us.begin(), of.step_us.end());
  }
  const auto median = [&](auto member) {
    return MedianOf(result.repetitions, [&](const Repetition& of) {
      return std::optional<double>(static_cast<double>(of.*member));
    });
  };
  summary.step_us = Median(summary.repetitions_us);
  summary.first_quartile_us = Quantile(all, 0.25);
  summary.third_quartile_us = Quantile(all, 0.75);
  summary.processor_us = *median(&Repetition::processor_us);
  summary.tokens_per_second = static_cast<double>(result.tokens_per_step) / summary.step_us * 1e6;
  summary.resident_bytes = static_cast<int64_t>(*median(&Repetition::resident_bytes));
  summary.loss = *median(&Repetition::loss);
  summary.measured_bubble =
      MedianOf(result.repetitions, [](const Repetition& of) { return of.measured_bubble; });
  summary.simulated_bubble =
      MedianOf(result.repetitions, [](const Repetition& of) { return of.simulated_bubble; });
  if (const auto bytes =
          MedianOf(result.repetitions, [](const Repetition& of) { return of.allocated_bytes; })) {
    summary.allocated_bytes = static_cast<int64_t>(*bytes);
  }
  summary.control.late = *MedianOf(result.repetitions, [](const Repetition& of) {
    return std::optional<double>(of.control.late);
  });
  summary.control.speed = *MedianOf(result.repetitions, [](const Repetition& of) {
    return std::optional<double>(of.control.speed);
  });
  return summary;
}

Json AsJson(const SuiteResults& results) {
  Json cases = Json::array();
  for (const CaseResult& result : results.cases) cases.push_back(CaseAsJson(result));
  return {{"form", kForm},
          {"suite", results.suite},
          {"date", results.date},
          {"device", results.device},
          {"versions", results.versions},
          {"settings",
           {{"repetitions", results.repetitions},
            {"steps", results.steps},
            {"warm_up", results.warm_up}}},
          {"cases", std::move(cases)}};
}

std::string Print(const SuiteResults& results) {
  return AsJson(results).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<SuiteResults> ReadResults(const std::string& path) {
  SL_ASSIGN_OR_RETURN(const std::string text, ReadBytes(path, kMostResultBytes));
  try {
    return ResultsOf(Json::parse(text));
  } catch (const Json::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": no results of a suite: it is cut short or no JSON, at byte ",
                     error.byte, " of ", text.size()));
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": no results of a suite: ", error.what()));
  }
}

}  // namespace stringline
