// Causal attention in programs of torch.export, recognised backwards from its result: the heads are
// joined, then scaled_dot_product_attention or products and a softmax, a mask, and for queries,
// keys and values the way from the columns of a product to heads, with the norms of heads and the
// rotation by positions on the way.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "executor/torch_model/torch_graph.h"

namespace stringline {

struct TorchHeads {
  std::string rows;  // (.., heads channels)
  int64_t batch = 0;
  int64_t positions = 0;
  int64_t heads = 0;
  int64_t channels = 0;  // per head
  double theta = 0;      // for the rotation; 0: no rotation
  std::string gamma;     // for the norm, before the rotation; "": no norm
  double epsilon = 0;
};

struct TorchAttention {
  const TorchNode* node = nullptr;
  TorchHeads queries;
  TorchHeads keys;
  TorchHeads values;
};

class AttentionMatcher {
 public:
  // `graph` outlives the object.
  explicit AttentionMatcher(const TorchGraph& graph) : graph_(graph) {}

  // The attention that produces the rows (.., heads channels) of `value`. Nothing if `value` is no
  // attention; Unimplemented for an attention without a counterpart here: a mask that is not
  // causal, another scale, other angles.
  absl::StatusOr<std::optional<TorchAttention>> Match(const std::string& value);

 private:
  // The inputs of an attention, in any form.
  struct Parts {
    const TorchNode* node = nullptr;
    std::string queries, keys, values;
    std::string mask;   // "": none
    bool adds = false;  // the mask is added to scores
    bool causal = false;
    std::optional<double> scale;
  };
  std::optional<Parts> PartsOf(const std::string& heads) const;
  std::optional<Parts> WrittenOut(const TorchNode& product) const;
  absl::Status CheckMask(const Parts& parts);
  absl::Status CheckSizes(const Parts& parts, const TorchAttention& attention) const;
  absl::StatusOr<TorchHeads> HeadsOf(std::string value);
  // The x of x cos + (-x2, x1) sin; sets theta.
  absl::StatusOr<std::string> Unturn(const TorchNode& sum, bool turned, double* theta);
  std::string HalvesOf(const std::string& value) const;
  absl::StatusOr<double> ThetaOf(const std::string& cosines, const std::string& sines, bool turned,
                                 int64_t positions, int64_t channels);

  const TorchGraph& graph_;
  std::map<std::string, bool> causal_;  // the verdicts on masks so far
  std::map<std::string, double> thetas_;
};

}  // namespace stringline
