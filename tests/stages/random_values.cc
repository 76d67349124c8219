#include "tests/stages/random_values.h"

#include <cstdlib>

#include "executor/engine/bf16.h"

namespace stringline::cpu {

uint64_t TestSeed() {
  const char* text = std::getenv("STRINGLINE_SEED");
  return text == nullptr ? 20240917 : std::strtoull(text, nullptr, 10);
}

Array RandomArray(const Type& type, std::mt19937_64& random, int32_t below) {
  Array array = MakeArray(type);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int32_t> uniform(0, below - 1);
  for (int64_t i = 0; i < type.elements(); ++i) {
    if (type.dtype == DType::kF32) {
      array.f32()[i] = normal(random);
    } else if (type.dtype == DType::kBF16) {
      array.bf16()[i] = ToBf16(normal(random));
    } else {
      array.i32()[i] = uniform(random);
    }
  }
  return array;
}

}  // namespace stringline::cpu
