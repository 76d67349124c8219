// The training data of a run: the bytes of a text, or the tokens of a file, in random windows; or
// given samples, drawn at random.
//
// A file of tokens is nanoGPT's, uint16 without a header, or llm.c's, with a header of 256 int32:
// the first gives the format, the second its version, the third the number of tokens.
//
//   first      version
//   20240520   1         uint16
//   20240801   7         uint32
//
// All numbers are little-endian. A file without a header may also hold uint32, if the caller says
// so.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "executor/training/documents.h"
#include "executor/training/mapped_file.h"

namespace stringline {

// Reads a text to train on. Errors: those of ReadBytes (base/source.h); InvalidArgument for a file
// that is empty or over 4 GiB; ResourceExhausted for a file larger than the available memory.
absl::StatusOr<std::string> ReadCorpus(const std::string& path);

// Entropy of a byte given the byte before it, in nats, from the text's own counts: a lower bound on
// the loss of a model that sees a single previous byte.
double ConditionalEntropy(absl::string_view text);

// A microbatch of a run. With the seed, it determines the data, whatever the schedule, the cut and
// the number of ranks.
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

// A mapped file of tokens.
class TokenFile {
 public:
  // `dtype` is uint16, uint32, or "": then the header decides, and a file without a header has
  // uint16 if the vocabulary fits. Errors name the file: NotFound, PermissionDenied;
  // InvalidArgument for a size that does not fit the header or the dtype, an unknown dtype or a
  // dtype other than the header's, or a token outside the vocabulary among the first million.
  static absl::StatusOr<TokenFile> Open(const std::string& path, const std::string& dtype,
                                        int vocabulary);
  int64_t size() const { return size_; }
  uint32_t operator[](int64_t i) const;
  // InvalidArgument names the first of these tokens outside the vocabulary, and its index.
  absl::Status Check(int64_t first, int64_t count) const;

 private:
  TokenFile() = default;
  absl::Status FindTokens(const std::string& dtype);

  std::string path_;
  int64_t vocabulary_ = 0;
  MappedFile mapped_;
  int64_t begin_ = 0;  // offset of the tokens, in bytes
  int64_t size_ = 0;
  int width_ = 2;  // bytes of a token
};

// Samples of any origin: inputs with their targets.
class Samples {
 public:
  virtual ~Samples() = default;
  virtual int64_t size() const = 0;
  // A sample's tokens, and the target of each, kNoTarget for none. InvalidArgument for those that
  // the model does not have.
  virtual absl::Status Fill(int64_t sample, absl::Span<int32_t> tokens,
                            absl::Span<int32_t> targets) const = 0;
  // Counts the targets of a sample that are not kNoTarget.
  virtual int64_t CountTargets(int64_t sample) const = 0;
  // The number of tokens of each sample that can have no target.
  virtual int64_t without_target() const = 0;
  // A hash of the sample.
  virtual uint64_t HashOf(int64_t sample) const = 0;
};

// A reference to a text or a file, and to its documents if it is packed, which must outlive it.
class TrainingData {
 public:
  TrainingData(absl::string_view text) : text_(text) {}         // NOLINT: text is data
  TrainingData(const std::string& text) : text_(text) {}        // NOLINT
  TrainingData(const TokenFile& file) : file_(&file) {}         // NOLINT
  TrainingData(const Samples& samples) : samples_(&samples) {}  // NOLINT
  // The same data, packed of these documents.
  TrainingData PackedOf(const Documents& documents) const {
    TrainingData packed = *this;
    packed.documents_ = &documents;
    return packed;
  }

  // Bytes, tokens, or samples.
  int64_t size() const {
    if (samples_ != nullptr) return samples_->size();
    return file_ != nullptr ? file_->size() : static_cast<int64_t>(text_.size());
  }
  bool is_text() const { return file_ == nullptr && samples_ == nullptr; }
  bool is_samples() const { return samples_ != nullptr; }
  bool is_packed() const { return documents_ != nullptr; }
  // "4000 bytes, 1f…": the number of tokens, bytes or samples, and a hash of samples from all over
  // the data; then the documents' (Documents::Identity).
  std::string Identity() const;

  // As FillBatch of a text; of samples row r is the sample with this number, modulo their number,
  // as SampleFile::Fill gives it. `positions` has as many values, of each token the position in its
  // document; the last token of a document has the target kNoTarget. Data that is not packed is one
  // document. Spans may be empty: their values are not wanted. InvalidArgument: the error of
  // TokenFile::Check.
  absl::Status Fill(const BatchKey& key, int context, absl::Span<int32_t> tokens,
                    absl::Span<int32_t> targets, absl::Span<int32_t> positions = {}) const;
  // Fills rows as Fill, but from places that lie evenly over all of the data: row r is sequence
  // first + r of `count`, and sequence i begins at i (size - context) / count, rounded down, or is
  // sample i size / count.
  absl::Status FillEvenly(int64_t first, int64_t count, int context, absl::Span<int32_t> tokens,
                          absl::Span<int32_t> targets, absl::Span<int32_t> positions = {}) const;
  // The targets of so many rows as Fill and FillEvenly write them, without kNoTarget, but with
  // those before the targets of samples.
  int64_t CountTargets(const BatchKey& key, int context, int64_t rows) const;
  int64_t CountTargetsEvenly(int64_t first, int64_t count, int context, int64_t rows) const;

 private:
  // The first tokens of rows, or the samples.
  int64_t Places(int context) const { return is_samples() ? size() : size() - context; }
  int64_t PlaceOf(const BatchKey& key, int context, int64_t row) const;
  int64_t PlaceEvenly(int64_t i, int64_t count, int context) const;
  int32_t Token(int64_t i) const {
    return file_ != nullptr ? static_cast<int32_t>((*file_)[i])
                            : static_cast<int32_t>(static_cast<uint8_t>(text_[i]));
  }
  // True if another document than that of token i - 1 begins with token i.
  bool BeginsAt(int64_t i) const {
    return documents_ != nullptr && documents_->BeginsAt(i, Token(i - 1));
  }
  // place_of(row): the index of the row's first token.
  template <typename PlaceOfRow>
  absl::Status FillRows(int context, absl::Span<int32_t> tokens, absl::Span<int32_t> targets,
                        absl::Span<int32_t> positions, PlaceOfRow place_of) const;
  template <typename PlaceOfRow>
  int64_t CountInRows(int context, int64_t rows, PlaceOfRow place_of) const;

  absl::string_view text_;
  const TokenFile* file_ = nullptr;
  const Samples* samples_ = nullptr;
  const Documents* documents_ = nullptr;  // null: not packed
};

}  // namespace stringline
