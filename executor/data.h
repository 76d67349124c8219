// What a run trains on: the bytes of a text, or the tokens of a file, in random windows.
//
// A file of tokens is one of nanoGPT's, uint16 without a header, or of llm.c's: 256 int32, of which
// the first says what follows, the second the version and the third how many tokens.
//
//   first      version
//   20240520   1         uint16
//   20240801   7         uint32
//
// Everything is little-endian. A file without a header may hold uint32, too: whoever reads it says
// so.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
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

// A file of tokens, mapped: its pages are read when windows fall into them. Who cuts it short
// meanwhile ends the process.
class TokenFile {
 public:
  // `dtype` is uint16, uint32, or "": then a header says it, and a file without one has uint16 if
  // `vocabulary` has room in it. Errors name the file: NotFound, PermissionDenied; InvalidArgument
  // for a size that does not fit the header or the dtype, a dtype that is not the header's or not
  // known, or a token outside the vocabulary among the first million.
  static absl::StatusOr<TokenFile> Open(const std::string& path, const std::string& dtype,
                                        int vocabulary);
  TokenFile(TokenFile&& other) noexcept;
  TokenFile& operator=(TokenFile&&) = delete;
  ~TokenFile();

  int64_t size() const { return size_; }
  uint32_t operator[](int64_t i) const;
  // InvalidArgument names the first of these tokens that is outside the vocabulary, and its place.
  absl::Status Check(int64_t first, int64_t count) const;

 private:
  TokenFile() = default;
  absl::Status Map(int file);
  absl::Status FindTokens(const std::string& dtype);

  std::string path_;
  int64_t vocabulary_ = 0;
  const char* mapped_ = nullptr;
  uint64_t bytes_ = 0;
  int64_t begin_ = 0;  // of the tokens, in bytes
  int64_t size_ = 0;
  int width_ = 2;  // bytes of a token
};

// The text or the file, which outlives it.
class TrainingData {
 public:
  TrainingData(absl::string_view text) : text_(text) {}   // NOLINT: text is data
  TrainingData(const std::string& text) : text_(text) {}  // NOLINT
  TrainingData(const TokenFile& file) : file_(&file) {}   // NOLINT

  int64_t size() const { return file_ != nullptr ? file_->size() : text_.size(); }
  bool is_text() const { return file_ == nullptr; }
  // "4000 bytes, 1f…": how many there are, and a hash of some of them that lie all over the data.
  std::string Identity() const;

  // As FillBatch of a text. InvalidArgument: that of TokenFile::Check.
  absl::Status Fill(const BatchKey& key, int context, absl::Span<int32_t> tokens,
                    absl::Span<int32_t> targets) const;

 private:
  absl::string_view text_;
  const TokenFile* file_ = nullptr;
};

}  // namespace stringline
