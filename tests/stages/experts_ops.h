// The ops of the experts, with tests of their own: their integers cannot be random.
#pragma once

#include <cstdint>
#include <vector>

#include "stages/graph.h"
#include "tests/stages/random_values.h"

namespace stringline::cpu {

inline bool IsOfExperts(Op op) { return op >= Op::kRoute && op <= Op::kExpertSwigluGrad; }

inline Array Integers(std::vector<int64_t> shape, const std::vector<int32_t>& values) {
  Array array = MakeArray(I32(std::move(shape)));
  for (size_t i = 0; i < values.size(); ++i) array.i32()[i] = values[i];
  return array;
}

inline std::vector<int32_t> IntegersOf(const Array& array) {
  return {array.i32(), array.i32() + array.type.elements()};
}

}  // namespace stringline::cpu
