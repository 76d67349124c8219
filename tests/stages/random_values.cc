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

Array DocumentPositions(int64_t batch, int64_t positions, int64_t mean, std::mt19937_64& random) {
  Array array = MakeArray(I32({batch, positions}));
  for (int64_t b = 0; b < batch; ++b) {
    int32_t* const row = array.i32() + b * positions;
    const auto single = static_cast<int64_t>(random() % static_cast<uint64_t>(positions));
    for (int64_t t = 1; t < positions; ++t) {
      const bool begins =
          t == single || t == single + 1 || random() % static_cast<uint64_t>(mean) == 0;
      row[t] = begins ? 0 : row[t - 1] + 1;
    }
  }
  return array;
}

}  // namespace stringline::cpu
