#include "schedlang/costs/read_microbatches.h"

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/cost_keys.h"

namespace stringline {
namespace {

constexpr char kFactors[] = "microbatch";
constexpr char kTokens[] = "microbatch.tokens";
constexpr int64_t kMostTokens = 1'000'000'000;

absl::StatusOr<int64_t> LengthOf(absl::string_view text) {
  int64_t tokens = 0;
  if (absl::SimpleAtoi(text, &tokens) && tokens > 0 && tokens <= kMostTokens) return tokens;
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not a number of tokens, from 1 to ", kMostTokens));
}

// The lengths in a line of a file.
absl::StatusOr<std::vector<int64_t>> LengthsIn(absl::string_view line) {
  std::vector<int64_t> lengths;
  for (const absl::string_view text :
       absl::StrSplit(line, absl::ByAnyChar(" \t,;"), absl::SkipEmpty())) {
    SL_ASSIGN_OR_RETURN(const int64_t length, LengthOf(text));
    lengths.push_back(length);
  }
  return lengths;
}

absl::Status ReadFile(const std::string& path, UnequalMicrobatches* read) {
  SL_ASSIGN_OR_RETURN(const Source file, ReadSource(path));
  int number = 0;
  for (absl::string_view line : absl::StrSplit(file.text(), '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    absl::StatusOr<std::vector<int64_t>> lengths = LengthsIn(line);
    if (!lengths.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": ", lengths.status().message()));
    }
    read->lengths.push_back(*std::move(lengths));
  }
  if (!read->empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": there is no line with a length"));
}

absl::StatusOr<int64_t> FactorOf(const YAML::Node& item) {
  if (!item.IsScalar()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kFactors, ": expected a factor for each; lengths of packed sequences are '",
                     kTokens, ": [[1024, 3072], 4096]'"));
  }
  SL_ASSIGN_OR_RETURN(const int64_t factor, ParseCost(*FindCostKey(kFactors), item.Scalar()));
  if (factor > 0) return factor;
  return absl::InvalidArgumentError(
      absl::StrCat(kFactors, ": '", item.Scalar(), "' is too small; a microbatch has some tokens"));
}

// The lengths of a microbatch's sequences: a number, or a list of them.
absl::StatusOr<std::vector<int64_t>> LengthsOf(const YAML::Node& item) {
  std::vector<int64_t> lengths;
  const auto add = [&lengths](const YAML::Node& one) -> absl::Status {
    const absl::StatusOr<int64_t> length = LengthOf(one.IsScalar() ? one.Scalar() : "");
    if (!length.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(kTokens, ": ", length.status().message()));
    }
    lengths.push_back(*length);
    return absl::OkStatus();
  };
  if (!item.IsSequence()) {
    SL_RETURN_IF_ERROR(add(item));
    return lengths;
  }
  for (const YAML::Node& one : item) SL_RETURN_IF_ERROR(add(one));
  if (!lengths.empty()) return lengths;
  return absl::InvalidArgumentError(absl::StrCat(kTokens, ": a microbatch has no sequence"));
}

}  // namespace

bool IsMicrobatchKey(absl::string_view name) { return name == kFactors || name == kTokens; }

absl::Status ReadMicrobatches(const std::string& name, const YAML::Node& value,
                              const std::filesystem::path& folder, UnequalMicrobatches* read) {
  if (!read->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": microbatches are given twice; '",
                                                   kFactors, "' or '", kTokens, "' is enough"));
  }
  read->in_tokens = name == kTokens;
  if (value.IsScalar() && read->in_tokens)
    return ReadFile((folder / value.Scalar()).string(), read);
  if (!value.IsSequence()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": expected a list with a value for each microbatch of a step (", kFactors,
        ": [1, 1.3, 0.7]), or a file of lengths (", kTokens, ": lengths.txt)"));
  }
  for (const YAML::Node& item : value) {
    if (read->in_tokens) {
      SL_ASSIGN_OR_RETURN(std::vector<int64_t> lengths, LengthsOf(item));
      read->lengths.push_back(std::move(lengths));
    } else {
      SL_ASSIGN_OR_RETURN(const int64_t factor, FactorOf(item));
      read->lengths.push_back({factor});
    }
  }
  if (!read->empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": the list is empty"));
}

}  // namespace stringline
