// A window's start is a hash of seed, step, microbatch and row. No generator has a state, so every
// process finds the data of any microbatch alone. A file of tokens is mapped, and every window is
// checked when it is read.
#include "executor/training/data.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/engine/available_memory.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"
#include "stages/graph.h"

namespace stringline {
namespace {

// SplitMix64's mixing step (Steele, Lea and Flood, OOPSLA 2014).
uint64_t Mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// The headers of llm.c's files.
struct KnownHeader {
  int32_t first, version;
  int width;  // bytes of a token
};
constexpr KnownHeader kHeaders[] = {{20240520, 1, 2}, {20240801, 7, 4}};
constexpr int64_t kHeaderBytes = 1024;

const char* NameOfWidth(int width) { return width == 2 ? "uint16" : "uint32"; }

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
  const absl::Status filled = TrainingData(text).Fill(key, context, tokens, targets);
  SL_CHECK(filled.ok()) << filled;  // every byte is a token
}

std::string TrainingData::Identity() const {
  const int64_t looks = is_samples() ? 64 : 1 << 16;
  uint64_t hash = Mix(static_cast<uint64_t>(size()));
  const int64_t step = std::max<int64_t>(1, size() / looks);
  for (int64_t i = 0; i < size(); i += step) {
    const uint64_t look = is_samples() ? samples_->HashOf(i)
                          : is_text()  ? static_cast<uint8_t>(text_[i])
                                       : (*file_)[i];
    hash = Mix(hash ^ look);
  }
  const char* const unit = is_samples() ? "samples" : is_text() ? "bytes" : "tokens";
  return absl::StrFormat("%d %s, %016x%s", size(), unit, hash,
                         is_packed() ? absl::StrCat("; ", documents_->Identity()) : "");
}

absl::StatusOr<TokenFile> TokenFile::Open(const std::string& path, const std::string& dtype,
                                          int vocabulary) {
  TokenFile file;
  SL_ASSIGN_OR_RETURN(file.mapped_, MappedFile::Open(path));
  file.path_ = path;
  file.vocabulary_ = vocabulary;
  const absl::Status status = file.FindTokens(dtype);
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  constexpr int64_t kLooked = 1 << 20;
  SL_RETURN_IF_ERROR(file.Check(0, std::min(kLooked, file.size_)));
  return file;
}

// Finds the tokens' place in the file, and their width.
absl::Status TokenFile::FindTokens(const std::string& dtype) {
  int32_t header[3] = {};
  const absl::string_view bytes = mapped_.bytes();
  if (bytes.size() >= sizeof header) std::memcpy(header, bytes.data(), sizeof header);
  const auto* const known =
      std::find_if(std::begin(kHeaders), std::end(kHeaders),
                   [&](const KnownHeader& row) { return row.first == header[0]; });
  if (known == std::end(kHeaders)) {
    if (dtype.empty() && vocabulary_ > 1 << 16) {
      return absl::InvalidArgumentError(
          absl::StrCat("it has no header, and with a vocabulary of ", vocabulary_,
                       " it may hold uint16 or uint32: say which with data.dtype"));
    }
    width_ = dtype == "uint32" ? 4 : 2;
    if (bytes.size() % width_ != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(bytes.size(), " bytes are no whole number of ", NameOfWidth(width_)));
    }
    size_ = static_cast<int64_t>(bytes.size()) / width_;
    return absl::OkStatus();
  }
  width_ = known->width;
  begin_ = kHeaderBytes;
  size_ = header[2];
  if (header[1] != known->version) {
    return absl::InvalidArgumentError(absl::StrCat("its header begins with ", header[0],
                                                   " and says version ", header[1], "; known is ",
                                                   known->version));
  }
  if (!dtype.empty() && dtype != NameOfWidth(width_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("its header says ", NameOfWidth(width_), ", data.dtype ", dtype));
  }
  if (size_ < 1 || static_cast<uint64_t>(kHeaderBytes + size_ * width_) != bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("its header says ", size_, " tokens, but ",
                                                   bytes.size(),
                                                   " bytes are there: was the file cut short?"));
  }
  return absl::OkStatus();
}

uint32_t TokenFile::operator[](int64_t i) const {
  uint32_t token = 0;  // little-endian: the low bytes come first
  std::memcpy(&token, mapped_.bytes().data() + begin_ + i * width_, static_cast<size_t>(width_));
  return token;
}

absl::Status TokenFile::Check(int64_t first, int64_t count) const {
  for (int64_t i = first; i < first + count; ++i) {
    if ((*this)[i] < vocabulary_) continue;
    return absl::InvalidArgumentError(absl::StrCat(path_, ": token ", (*this)[i], " at position ",
                                                   i, ": the model's vocabulary has ",
                                                   vocabulary_));
  }
  return absl::OkStatus();
}

int64_t TrainingData::PlaceOf(const BatchKey& key, int context, int64_t row) const {
  return static_cast<int64_t>(HashOf(key, row) % static_cast<uint64_t>(Places(context)));
}

// The quotient is computed in two parts, since the product of a long file and many sequences passes
// 64 bits.
int64_t TrainingData::PlaceEvenly(int64_t i, int64_t count, int context) const {
  const int64_t places = Places(context);
  return places / count * i + places % count * i / count;
}

template <typename PlaceOfRow>
absl::Status TrainingData::FillRows(int context, absl::Span<int32_t> tokens,
                                    absl::Span<int32_t> targets, absl::Span<int32_t> positions,
                                    PlaceOfRow place_of) const {
  const size_t values = std::max(tokens.size(), positions.size());
  SL_CHECK(Places(context) > 0 && tokens.size() == targets.size() &&
           values % static_cast<size_t>(context) == 0)
      << size() << " tokens of data, " << values << " wanted, context " << context;
  const int64_t rows = static_cast<int64_t>(values) / context;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = place_of(row);
    if (is_samples()) {
      if (tokens.empty()) break;
      const auto first = static_cast<size_t>(row * context), count = static_cast<size_t>(context);
      SL_RETURN_IF_ERROR(
          samples_->Fill(at, tokens.subspan(first, count), targets.subspan(first, count)));
      continue;
    }
    if (file_ != nullptr) SL_RETURN_IF_ERROR(file_->Check(at, context + 1));
    int32_t position = 0;
    for (int64_t i = 0; i < context; ++i) {
      const int64_t to = row * context + i;
      const bool ends = BeginsAt(at + i + 1);
      if (!tokens.empty()) {
        tokens[to] = Token(at + i);
        targets[to] = ends ? kNoTarget : Token(at + i + 1);
      }
      if (!positions.empty()) positions[to] = position;
      position = ends ? 0 : position + 1;
    }
  }
  return absl::OkStatus();
}

template <typename PlaceOfRow>
int64_t TrainingData::CountInRows(int context, int64_t rows, PlaceOfRow place_of) const {
  int64_t count = rows * context;
  if (is_samples()) {
    count = rows * samples_->without_target();
    for (int64_t row = 0; row < rows; ++row) count += samples_->CountTargets(place_of(row));
    return count;
  }
  for (int64_t row = 0; row < rows && is_packed(); ++row) {
    const int64_t at = place_of(row);
    for (int64_t i = 1; i <= context; ++i) count -= BeginsAt(at + i) ? 1 : 0;
  }
  return count;
}

absl::Status TrainingData::Fill(const BatchKey& key, int context, absl::Span<int32_t> tokens,
                                absl::Span<int32_t> targets, absl::Span<int32_t> positions) const {
  return FillRows(context, tokens, targets, positions,
                  [&](int64_t row) { return PlaceOf(key, context, row); });
}

absl::Status TrainingData::FillEvenly(int64_t first, int64_t count, int context,
                                      absl::Span<int32_t> tokens, absl::Span<int32_t> targets,
                                      absl::Span<int32_t> positions) const {
  return FillRows(context, tokens, targets, positions,
                  [&](int64_t row) { return PlaceEvenly(first + row, count, context); });
}

int64_t TrainingData::CountTargets(const BatchKey& key, int context, int64_t rows) const {
  return CountInRows(context, rows, [&](int64_t row) { return PlaceOf(key, context, row); });
}

int64_t TrainingData::CountTargetsEvenly(int64_t first, int64_t count, int context,
                                         int64_t rows) const {
  return CountInRows(context, rows,
                     [&](int64_t row) { return PlaceEvenly(first + row, count, context); });
}

}  // namespace stringline
