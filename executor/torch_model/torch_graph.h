// A program as a graph for pattern matching: the producer and the consumers of each value, and
// values stripped of nodes without effect.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "executor/torch_model/constants.h"
#include "executor/torch_model/program.h"

namespace stringline {

// A product of a value with a parameter, from any of several ops.
struct TorchLinear {
  const TorchNode* node = nullptr;
  std::string input;
  std::string weight;       // a parameter's value
  std::string bias;         // likewise, or ""
  bool transposed = false;  // weight is (in, out)
  int64_t rows = 0;         // out
  int64_t columns = 0;      // in
};

// x / sqrt(mean of x^2 + epsilon) gamma
struct TorchRmsNorm {
  std::string input;
  std::string gamma;
  double epsilon = 0;
};

// True if a node only exchanges these two dimensions of a value with so many dimensions.
bool SwapsDimensions(const TorchNode& node, size_t dimensions, int64_t a, int64_t b);

// True for a dropout of any kind, in place or not, that hands its operand on: of nothing, or after
// eval().
bool DropsNothing(const TorchNode& node);

// Unimplemented: an op without a counterpart here, with its place in the model and in its source.
absl::Status UnknownNode(const TorchNode& node, absl::string_view why);

class TorchGraph {
 public:
  // Both outlive the object.
  TorchGraph(const TorchProgram& program, TorchConstants* constants);

  const TorchProgram& program() const { return program_; }
  TorchConstants& constants() const { return constants_; }
  const std::vector<int64_t>& Sizes(const std::string& value) const {
    return program_.values.at(value).sizes;
  }
  // nullptr: an input.
  const TorchNode* Producer(const std::string& value) const;
  bool IsParam(const std::string& value) const { return program_.params.count(value) > 0; }

  // The origin of the value, past casts, copies, dropout of nothing, and layouts without effect.
  std::string Strip(std::string value) const;
  // The same, also past nodes that only join or separate dimensions before the last.
  std::string StripRows(std::string value) const;
  // The producer of Strip(value), if its op is this op.
  const TorchNode* Match(const std::string& value, absl::string_view op) const;

  // value = a op b, for two tensors, neither of them a single number.
  struct Pair {
    std::string a, b;
  };
  std::optional<Pair> MatchPair(const std::string& value, absl::string_view op) const;
  // value = of op number, of add, mul (in either order), div or pow.
  struct WithNumber {
    std::string of;
    double number;
  };
  std::optional<WithNumber> MatchNumber(const std::string& value, absl::string_view op) const;
  // The `of` where the number is this number, to six digits, or "".
  std::string MatchNumber(const std::string& value, absl::string_view op, double number) const;

  std::optional<TorchLinear> MatchLinear(const std::string& value) const;
  std::optional<TorchRmsNorm> MatchRmsNorm(const std::string& value) const;
  // The operand of GELU by tanh, as a single op or written out, or "".
  std::string MatchGelu(const std::string& value) const;
  // g of g / (1 + e^-g), or "".
  std::string MatchSilu(const std::string& value) const;

  // True if only StripRows stands between the value's linear and its single consumer.
  bool IsReadOnce(const std::string& value) const;

  absl::Status Unknown(const TorchNode& node, absl::string_view why = "") const {
    return UnknownNode(node, why);
  }
  // The same of whatever gives the value.
  absl::Status UnknownValue(const std::string& value, absl::string_view why = "") const;

 private:
  bool ChangesNothing(const TorchNode& node) const;
  bool KeepsRows(const TorchNode& node) const;
  std::optional<double> NumberIn(const TorchNode& node, absl::string_view input) const;

  const TorchProgram& program_;
  TorchConstants& constants_;
  std::map<std::string, const TorchNode*> producers_;
  std::map<std::string, int> readers_;  // their number
};

}  // namespace stringline
