#include "executor/training/documents.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<Documents> Documents::Read(const std::string& path, int64_t size) {
  SL_ASSIGN_OR_RETURN(const std::string text, ReadBytes(path, uint64_t{4} << 30));
  Documents documents;
  int64_t all = 0, line = 0;
  for (absl::string_view word : absl::StrSplit(text, '\n')) {
    ++line;
    word = absl::StripAsciiWhitespace(word);
    if (word.empty()) continue;
    const auto complain = [&](const std::string& what) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", line, ": ", what));
    };
    int64_t length = 0;
    if (!absl::SimpleAtoi(word, &length) || length < 1) {
      return complain(absl::StrCat("expected the tokens of a document, 1 or more, got '",
                                   word.substr(0, 40), "'"));
    }
    if (length > size - all) {
      return complain(absl::StrCat("with this document of ", length, " tokens there are more than ",
                                   "the ", size, " of the data; ", size - all, " were left"));
    }
    if (all > 0) documents.starts_.push_back(all);
    all += length;
  }
  if (all == size) return documents;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": the lengths add up to ", all, " tokens, but the data has ", size));
}

Documents Documents::EndingWith(int32_t token) {
  Documents documents;
  documents.end_ = token;
  return documents;
}

bool Documents::BeginsAt(int64_t i, int32_t before) const {
  if (end_ >= 0) return before == end_;
  return std::binary_search(starts_.begin(), starts_.end(), i);
}

std::string Documents::Describe() const {
  if (end_ >= 0) return absl::StrCat("documents that end with token ", end_);
  return absl::StrCat(starts_.size() + 1, starts_.empty() ? " document" : " documents");
}

std::string Documents::Identity() const {
  if (end_ >= 0) return Describe();
  uint64_t hash = 14695981039346656037u;  // FNV-1a, a start at a time
  for (const int64_t start : starts_) hash = (hash ^ static_cast<uint64_t>(start)) * 1099511628211u;
  return absl::StrFormat("%s, %016x", Describe(), hash);
}

}  // namespace stringline
