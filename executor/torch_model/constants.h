// What a program computes from no token and no parameter: masks, positions, angles. Evaluated here,
// in double, so that raising can look at the numbers themselves and need not know how they came
// about.
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

  // The value at these places, the last of which are counted; a dimension of size 1 has the same at
  // all of them. Not a number where there is none.
  double At(const std::vector<int64_t>& place) const;
};

class TorchConstants {
 public:
  // Both outlive the object.
  TorchConstants(const TorchProgram& program, const Pt2Archive& archive);

  // Whether a value is one, and can be evaluated.
  bool Is(const std::string& name) const { return constant_.count(name) > 0; }
  // InvalidArgument for more values than 2^27, and those of Pt2Archive::Values. `name` is one.
  absl::StatusOr<std::shared_ptr<const HostTensor>> Value(const std::string& name) const;

 private:
  using Shared = std::shared_ptr<const HostTensor>;
  // How many read each value that this one is computed from, itself among them.
  std::map<std::string, int> ReadersBehind(const std::string& name) const;
  absl::StatusOr<Shared> Stored(const std::string& name) const;
  absl::StatusOr<Shared> Evaluate(const TorchNode& node, const std::vector<Shared>& tensors) const;

  const TorchProgram& program_;
  const Pt2Archive& archive_;
  std::map<std::string, const TorchNode*> constant_;  // by output; null: in the archive
};

}  // namespace stringline
