#include "schedlang/costs/read_machine.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/cost_keys.h"

namespace stringline {
namespace {

absl::Status ReadRate(const std::string& key, const YAML::Node& value, double* rate) {
  if (value.IsScalar() && absl::SimpleAtod(value.Scalar(), rate) && *rate > 0 && *rate < 1e21) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(key, ": expected a number a second, as 989e12"));
}

// A number in the unit, above 0 unless `may_be_0`.
absl::StatusOr<int64_t> ReadNumber(const std::string& key, CostUnit unit, bool may_be_0,
                                   const YAML::Node& value) {
  const CostKey row = {key.c_str(), unit, false, ""};
  if (!value.IsScalar()) return absl::InvalidArgumentError(key + ": expected a value");
  SL_ASSIGN_OR_RETURN(const int64_t number, ParseCost(row, value.Scalar()));
  if (number > 0 || may_be_0) return number;
  return absl::InvalidArgumentError(key + ": expected more than 0");
}

absl::Status ReadShare(const std::string& key, bool may_be_0, const YAML::Node& value,
                       double* share) {
  SL_ASSIGN_OR_RETURN(const int64_t millionths, ReadNumber(key, CostUnit::kShare, may_be_0, value));
  *share = static_cast<double>(millionths) * 1e-6;
  return absl::OkStatus();
}

// A key of products in a precision.
absl::Status ReadSpeed(const std::string& key, const YAML::Node& value, ProductSpeed* speed) {
  if (key == "flops") return ReadRate(key, value, &speed->flops);
  if (key == "efficiency") return ReadShare(key, /*may_be_0=*/false, value, &speed->efficiency);
  if (key == "hidden") return ReadShare(key, /*may_be_0=*/true, value, &speed->hidden);
  SL_ASSIGN_OR_RETURN(speed->experts_ns, ReadNumber(key, CostUnit::kTime, true, value));
  return absl::OkStatus();
}

absl::Status ReadSpeedIn(Precision precision, const std::string& key, const YAML::Node& value,
                         MachineSpeed* machine) {
  ProductSpeed speed = SpeedOf(*machine, precision);
  SL_RETURN_IF_ERROR(ReadSpeed(key, value, &speed));
  if (IsNarrow(precision)) {
    machine->narrow[static_cast<size_t>(precision) - static_cast<size_t>(Precision::kFp8)] = speed;
    return absl::OkStatus();
  }
  machine->flops = speed.flops;
  machine->efficiency = speed.efficiency;
  machine->hidden = speed.hidden;
  machine->experts_ns = speed.experts_ns;
  return absl::OkStatus();
}

constexpr const char* kOfPrecision[] = {"flops", "efficiency", "hidden", "experts_overhead"};

}  // namespace

absl::StatusOr<bool> ReadMachineKey(const std::string& key, const YAML::Node& value,
                                    MachineSpeed* machine) {
  if (std::find(std::begin(kOfPrecision), std::end(kOfPrecision), key) != std::end(kOfPrecision)) {
    if (!value.IsMap()) {
      SL_RETURN_IF_ERROR(ReadSpeedIn(Precision::kBf16, key, value, machine));
      return true;
    }
    for (const auto& entry : value) {
      const std::string word = entry.first.IsScalar() ? entry.first.Scalar() : "";
      const auto* const found = std::find(std::begin(kPrecisions) + 1, std::end(kPrecisions), word);
      if (found == std::end(kPrecisions)) {
        return absl::InvalidArgumentError(absl::StrCat(
            key, ": '", word, "' is no precision (there are bf16, fp8, mxfp8, nvfp4)"));
      }
      const auto precision = static_cast<Precision>(found - std::begin(kPrecisions));
      SL_RETURN_IF_ERROR(ReadSpeedIn(precision, key, entry.second, machine));
    }
    return true;
  }
  if (key == "memory_bandwidth") {
    SL_ASSIGN_OR_RETURN(const int64_t bytes, ReadNumber(key, CostUnit::kBandwidth, false, value));
    machine->memory_bandwidth = static_cast<double>(bytes);
    return true;
  }
  if (key == "processors") {
    SL_ASSIGN_OR_RETURN(machine->processors, ReadNumber(key, CostUnit::kCount, false, value));
    return true;
  }
  double* const share = key == "memory_efficiency"    ? &machine->memory_efficiency
                        : key == "attention"          ? &machine->attention
                        : key == "attention_gradient" ? &machine->attention_gradient
                                                      : nullptr;
  if (share == nullptr) return false;
  SL_RETURN_IF_ERROR(ReadShare(key, /*may_be_0=*/false, value, share));
  return true;
}

absl::Status CheckSpeed(const MachineSpeed& machine, Precision precision) {
  if (SpeedOf(machine, precision).flops > 0) return absl::OkStatus();
  const char* const word = kPrecisions[static_cast<size_t>(precision)];
  return absl::InvalidArgumentError(absl::StrCat(
      "flops are not given",
      IsNarrow(precision) ? absl::StrCat(" for ", word, " (flops: {", word, ": …})") : ""));
}

}  // namespace stringline
