// Text as training data: byte tokens in random windows, and what a simple model of the text
// reaches.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace stringline {

// The bytes of a text to train on. Errors: those of ReadBytes (base/source.h), and InvalidArgument
// for a file that is empty or over 4 GiB, ResourceExhausted for one larger than the memory there
// is.
absl::StatusOr<std::string> ReadCorpus(const std::string& path);

// Entropy of a byte given the byte before it, in nats, as the text's own counts have it: the least
// loss that a model can have on it that sees one byte back only.
double ConditionalEntropy(absl::string_view text);

// Which microbatch of a run: with the seed, all that its data depend on. Not the schedule, not the
// cut, not the number of ranks.
struct BatchKey {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t microbatch = 0;
};

// Fills rows of `context` tokens from random places of the text, and as targets the byte after
// each. With mix one step of SplitMix64, row r begins at
//   mix(mix(mix(mix(seed) ^ step) ^ microbatch) ^ r) modulo (size of the text - context).
// Both spans hold rows * context values. The text has at least context + 1 bytes.
void FillBatch(absl::string_view text, const BatchKey& key, int context, absl::Span<int32_t> tokens,
               absl::Span<int32_t> targets);

}  // namespace stringline
