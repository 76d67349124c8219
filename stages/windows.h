// Windows that slide over the last dimensions of a tensor: of convolutions and poolings, with
// torch's sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace stringline {

// Along a dimension. Place i of the result reads the places i stride - before + k dilation of x,
// k < kernel, of which those outside of x are padding.
struct Window {
  int64_t size = 1;  // of x
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t before = 0;  // padding
  int64_t behind = 0;
  int64_t dilation = 1;

  static constexpr size_t kNumbers = 6;  // attributes of a dimension, in this order
  int64_t reach() const { return dilation * (kernel - 1) + 1; }
  // The places of the result; 0 where the kernel does not fit.
  int64_t places() const {
    const int64_t rest = size + before + behind - reach();
    return rest < 0 ? 0 : rest / stride + 1;
  }
};

// The attributes of an op from its first window on: a multiple of Window::kNumbers.
inline std::vector<Window> WindowsOf(absl::Span<const double> attributes) {
  std::vector<Window> windows;
  for (size_t i = 0; i + Window::kNumbers <= attributes.size(); i += Window::kNumbers) {
    const auto at = [&](size_t k) { return static_cast<int64_t>(attributes[i + k]); };
    windows.push_back({at(0), at(1), at(2), at(3), at(4), at(5)});
  }
  return windows;
}

inline std::vector<double> AttributesOf(absl::Span<const Window> windows) {
  std::vector<double> attributes;
  for (const Window& of : windows) {
    for (const int64_t number :
         {of.size, of.kernel, of.stride, of.before, of.behind, of.dilation}) {
      attributes.push_back(static_cast<double>(number));
    }
  }
  return attributes;
}

}  // namespace stringline
