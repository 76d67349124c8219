// The share of the training's state that one process holds: ranges of parameters with their
// moments, by the places of the whole model, whatever ranks or coordinates they come from. And the
// choice of who gives which values to whom where processes need others than they hold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "executor/checkpoint/training_state.h"

namespace stringline {

// Values `first` to `end` of a parameter.
struct ValueSpan {
  int64_t first = 0;
  int64_t end = 0;
  friend bool operator==(const ValueSpan&, const ValueSpan&) = default;
};

// Adjacent values of a parameter, with their moments.
struct HeldRange {
  int64_t first = 0;
  std::vector<float> of[kStateKinds];  // equal sizes
  int64_t end() const { return first + static_cast<int64_t>(of[kValues].size()); }
};
using HeldTensors = std::vector<std::vector<HeldRange>>;  // in the order of StateOf

struct HeldShare {
  int number = 0;
  HeldTensors tensors;
};
std::string PackHeld(const HeldShare& share);
HeldShare ReadHeld(absl::string_view bytes);
// The same for shares of the same values, and only for these but for chance.
uint64_t PlacesSum(const HeldTensors& tensors);

// The wanted values that are not among the held ones, and those that are; ascending, and apart.
std::vector<ValueSpan> Without(std::vector<ValueSpan> wanted, absl::Span<const ValueSpan> held);
std::vector<ValueSpan> Among(absl::Span<const ValueSpan> wanted, absl::Span<const ValueSpan> held);

// The values that a process holds and wants, by tensor.
struct HeldAndWanted {
  std::vector<std::vector<ValueSpan>> held, wanted;
};
struct Gift {
  int from = 0;
  int to = 0;
  size_t tensor = 0;
  ValueSpan span;
};
struct Gifts {
  std::vector<Gift> all;  // by receiver and tensor
  int lacking = -1;       // a tensor of which nobody holds some wanted values; -1: none
};
// Each value that a process lacks comes from the next process above it, in a ring, that holds it.
Gifts ChooseGifts(absl::Span<const HeldAndWanted> processes);

}  // namespace stringline
