#include "executor/data.h"

#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/available_memory.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// SplitMix64's mixing step (Steele, Lea and Flood, OOPSLA 2014).
uint64_t Mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

uint64_t HashOf(const BatchKey& key, int64_t row) {
  uint64_t hash = Mix(key.seed);
  for (int64_t part : {key.step, key.microbatch, row})
    hash = Mix(hash ^ static_cast<uint64_t>(part));
  return hash;
}

}  // namespace

absl::StatusOr<std::string> ReadCorpus(const std::string& path) {
  std::error_code unknown;
  const uintmax_t bytes = std::filesystem::file_size(path, unknown);
  const AvailableMemory available = FindAvailableMemory();
  if (!unknown && static_cast<double>(bytes) > static_cast<double>(available.bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("%s: the text has %.3g GB, but %.3g GB of memory are available (%s)", path,
                        static_cast<double>(bytes) * 1e-9,
                        static_cast<double>(available.bytes) * 1e-9, available.limit));
  }
  SL_ASSIGN_OR_RETURN(std::string text, ReadBytes(path, uint64_t{4} << 30));
  if (text.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": the file is empty"));
  return text;
}

double ConditionalEntropy(absl::string_view text) {
  constexpr size_t kBytes = 256;
  if (text.size() < 2) return 0;
  std::vector<int64_t> pairs(kBytes * kBytes, 0);
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    ++pairs[static_cast<uint8_t>(text[i]) * kBytes + static_cast<uint8_t>(text[i + 1])];
  }
  double nats = 0;
  for (size_t before = 0; before < kBytes; ++before) {
    int64_t all = 0;
    for (size_t after = 0; after < kBytes; ++after) all += pairs[before * kBytes + after];
    for (size_t after = 0; after < kBytes; ++after) {
      const auto count = static_cast<double>(pairs[before * kBytes + after]);
      if (count > 0) nats -= count * std::log(count / static_cast<double>(all));
    }
  }
  return nats / static_cast<double>(text.size() - 1);
}

void FillBatch(absl::string_view text, const BatchKey& key, int context, absl::Span<int32_t> tokens,
               absl::Span<int32_t> targets) {
  const size_t length = static_cast<size_t>(context);
  SL_CHECK(text.size() > length && tokens.size() == targets.size() && tokens.size() % length == 0)
      << text.size() << " bytes, " << tokens.size() << " tokens, context " << context;
  const size_t places = text.size() - length;
  for (size_t row = 0; row * length < tokens.size(); ++row) {
    const size_t at = HashOf(key, static_cast<int64_t>(row)) % places;
    for (size_t i = 0; i < length; ++i) {
      tokens[row * length + i] = static_cast<uint8_t>(text[at + i]);
      targets[row * length + i] = static_cast<uint8_t>(text[at + i + 1]);
    }
  }
}

}  // namespace stringline
