#include "stages/init.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "schedlang/base/sl_check.h"
#include "schedlang/base/threads.h"

namespace stringline {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

// A bijection of 64 bits in which every input bit reaches every output bit (splitmix64's
// finaliser).
uint64_t Mix(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

// FNV-1a.
uint64_t HashOf(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : name) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

// In (0, 1).
double Uniform(uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }

// Fills `count` elements of the whole parameter from `first_element` on.
void FillNormal(uint64_t key, float stddev, int64_t first_element, int64_t count, float* data) {
  for (int64_t i = first_element; i < first_element + count; ++i) {
    const uint64_t first = Mix(key + kGolden * static_cast<uint64_t>(2 * i + 1));
    const uint64_t second = Mix(key + kGolden * static_cast<uint64_t>(2 * i + 2));
    const double radius = std::sqrt(-2 * std::log(Uniform(first)));
    *data++ = static_cast<float>(stddev * radius * std::cos(2 * M_PI * Uniform(second)));
  }
}

// Elements are independent, so threads share a large parameter; if the system grants none, the
// caller's thread fills all of it.
void FillNormalTogether(uint64_t key, float stddev, int64_t first_element, int64_t count,
                        float* data) {
  constexpr int64_t kPiece = 1 << 20;
  const int64_t pieces = (count + kPiece - 1) / kPiece;
  std::atomic<int64_t> next = 0;
  const auto fill = [&] {
    for (int64_t piece = next++; piece < pieces; piece = next++) {
      const int64_t begin = piece * kPiece;
      FillNormal(key, stddev, first_element + begin, std::min(kPiece, count - begin), data + begin);
    }
  };
  std::vector<std::thread> threads;
  const int64_t cores = std::thread::hardware_concurrency();
  const auto others = static_cast<int>(std::min(cores, pieces) - 1);
  if (others > 0) (void)StartThreads(others, fill, &threads);
  fill();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

void Initialize(const Param& param, uint64_t seed, float* data, int expert_rank) {
  SL_CHECK(IsFloat(param.type.dtype)) << param.name;
  const int64_t count = param.type.elements();
  const std::string& first_name = param.tied_to.empty() ? param.name : param.tied_to;
  switch (param.init) {
    case Init::kZeros:
      std::fill_n(data, count, 0.0f);
      return;
    case Init::kOnes:
      std::fill_n(data, count, 1.0f);
      return;
    case Init::kNormal:
      FillNormalTogether(Mix(Mix(seed + kGolden) ^ HashOf(first_name)), param.stddev,
                         param.expert ? expert_rank * count : 0, count, data);
      return;
  }
}

}  // namespace stringline
