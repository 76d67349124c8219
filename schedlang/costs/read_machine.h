// The speed of a machine in a hardware file: `flops`, `efficiency`, `hidden` and
// `experts_overhead`, each a value or a map from precisions (bf16, fp8, mxfp8, nvfp4) to values;
// `memory_bandwidth`, `memory_efficiency`, `attention`, `attention_gradient` and `processors`.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

#include "absl/status/statusor.h"
#include "schedlang/costs/formula.h"

namespace stringline {

// Sets what the key says; false for keys that are no machine's speed, as links. Errors name the
// key.
absl::StatusOr<bool> ReadMachineKey(const std::string& key, const YAML::Node& value,
                                    MachineSpeed* machine);

// The machine has a speed for the precision.
absl::Status CheckSpeed(const MachineSpeed& machine, Precision precision);

}  // namespace stringline
