// Causal attention as programs of torch.export write it, recognised from its result backwards: the
// heads are put together again, scaled_dot_product_attention or products and a softmax, a mask, and
// for queries, keys and values the way from the columns of a product to heads, with the norms of
// heads and the rotation by positions on it.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "executor/torch_model/torch_graph.h"

namespace stringline {

struct TorchHeads {
  std::string rows;  // (.., heads channels)
  int64_t heads = 0;
  int64_t channels = 0;  // of a head
  double theta = 0;      // of the rotation; 0: there is none
  std::string gamma;     // of the norm, which is before the rotation; "": there is none
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

  // What gives the rows (.., heads channels) of `value`. Nothing if that is no attention;
  // Unimplemented for one that has no counterpart here: a mask that is not causal, another scale,
  // other angles.
  absl::StatusOr<std::optional<TorchAttention>> Match(const std::string& value);

 private:
  // The inputs of an attention, whichever way it is written.
  struct Parts {
    const TorchNode* node = nullptr;
    std::string queries, keys, values;
    std::string mask;  // "": none
    bool causal = false;
    double scale = 0;
  };
  std::optional<Parts> PartsOf(const std::string& heads) const;
  std::optional<Parts> WrittenOut(const TorchNode& product) const;
  absl::Status CheckMask(const Parts& parts);
  absl::StatusOr<TorchHeads> HeadsOf(std::string value);
  // x of x cos + (-x2, x1) sin, whose theta it gives.
  absl::StatusOr<std::string> Unturn(const TorchNode& sum, bool turned, double* theta);
  std::string HalvesOf(const std::string& value) const;
  absl::StatusOr<double> ThetaOf(const std::string& cosines, const std::string& sines, bool turned,
                                 int64_t positions, int64_t channels);

  const TorchGraph& graph_;
  std::map<std::string, bool> causal_;  // masks that were looked at
  std::map<std::string, double> thetas_;
};

}  // namespace stringline
