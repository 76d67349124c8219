// Values of a program that depend on no token and no parameter: masks, positions, angles. They are
// evaluated here, in double, so that raising can compare the numbers themselves, however a program
// computes them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/torch_model/program.h"

namespace stringline {

struct HostTensor {
  std::vector<int64_t> sizes;
  std::vector<double> values;  // row-major; false and true are 0 and 1

  // The value at this index, of which the last dimensions count; a dimension of size 1 is
  // broadcast. Not a number outside the tensor.
  double At(const std::vector<int64_t>& place) const;
};

class TorchConstants {
 public:
  // Both outlive the object.
  TorchConstants(const TorchProgram& program, const Pt2Archive& archive);

  // True if the result of an op depends on the sizes of its inputs and not on their values.
  static bool ReadsNoValue(const std::string& op);
  // True if a value is constant, and can be evaluated.
  bool Is(const std::string& name) const { return constant_.count(name) > 0; }
  // InvalidArgument for more than 2^27 values, and the errors of Pt2Archive::Values. `name` must be
  // constant.
  absl::StatusOr<std::shared_ptr<const HostTensor>> Value(const std::string& name) const;

 private:
  using Shared = std::shared_ptr<const HostTensor>;
  // The number of consumers of each value on which this value depends, including itself.
  std::map<std::string, int> ReadersBehind(const std::string& name) const;
  absl::StatusOr<Shared> Stored(const std::string& name) const;
  absl::StatusOr<Shared> Evaluate(const TorchNode& node, const std::vector<Shared>& tensors) const;

  const TorchProgram& program_;
  const Pt2Archive& archive_;
  std::map<std::string, const TorchNode*> constant_;  // by output; null: in the archive
};

}  // namespace stringline
