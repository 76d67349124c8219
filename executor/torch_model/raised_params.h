// The parameters of a model during raising: the tensors that make up each parameter, and the
// parameters that are copies of others.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/torch_model/torch_graph.h"
#include "stages/builder.h"
#include "stages/models/raised.h"

namespace stringline {

enum class ParamUse { kTable, kPositions, kProduct, kHead, kNorm, kBias, kMean, kVariance };

class RaisedParams {
 public:
  // All outlive the object.
  RaisedParams(const TorchGraph& graph, const Pt2Archive& archive, Builder* builder);

  // The input of the builder's graph that holds these tensors, stacked by rows. `transposed`: they
  // are (in, out), else (out, in). `positions`: the number of rows in use, for kPositions.
  // Unimplemented for a tensor with two uses that differ; a table of tokens may also be the matrix
  // of a product, of which it gets a copy (Param::tied_to).
  absl::StatusOr<ValueId> Take(const std::vector<std::string>& values, ParamUse use,
                               const std::string& module, bool transposed = false,
                               int64_t positions = 0);

  // A buffer that is a running average, kMean or kVariance. Unimplemented for one used before.
  absl::StatusOr<ValueId> TakeAverage(const std::string& value, ParamUse use, double momentum,
                                      const std::string& module);

  std::vector<RaisedParam> Finish() && { return std::move(params_); }

 private:
  struct Taken {
    ValueId value = kNone;
    std::string name;
    std::string as;  // all arguments of the request
    ParamUse use = ParamUse::kProduct;
  };

  std::vector<std::string> NamesOf(const std::string& value) const;
  std::string NameFor(const std::vector<std::vector<std::string>>& names,
                      const std::string& module) const;

  const TorchGraph& graph_;
  const Pt2Archive& archive_;
  Builder& builder_;
  std::vector<RaisedParam> params_;
  std::map<std::string, std::vector<Taken>> taken_;  // by the first name of a tensor
};

}  // namespace stringline
