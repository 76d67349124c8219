#include "executor/checkpoint/param_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<ParamReader> ParamReader::Make(absl::Span<const ParamPlace> places, World* world,
                                              int64_t most_bytes) {
  ParamReader reader(places, world, most_bytes);
  if (world != nullptr) SL_RETURN_IF_ERROR(reader.FindGivers());
  return reader;
}

// Every process tells which pieces it holds.
absl::Status ParamReader::FindGivers() {
  std::string mine;
  for (const ParamPlace& place : places_) {
    for (const auto& piece : place.pieces) mine.push_back(piece.copies.empty() ? '-' : '+');
  }
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world_->Exchange(mine));
  size_t at = 0;
  for (const ParamPlace& place : places_) {
    std::vector<int>& givers = giver_.emplace_back();
    for (size_t piece = 0; piece < place.pieces.size(); ++piece, ++at) {
      const auto has = [at](const std::string& said) {
        return at < said.size() && said[at] == '+';
      };
      const auto giver = std::find_if(all.begin(), all.end(), has);
      if (giver == all.end()) {
        return absl::InternalError(absl::StrCat("no process has parameter ", place.param.name));
      }
      givers.push_back(static_cast<int>(giver - all.begin()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> ParamReader::Read(size_t place,
                                                     const ParamPlace::Range& range) const {
  std::vector<float> values(gets() ? static_cast<size_t>(range.count) : 0);
  const ParamPlace& from = places_[place];
  const int giver = world_ == nullptr ? 0 : giver_[place][range.piece];
  if (giver == 0) {
    if (!gets()) return values;
    SL_RETURN_IF_ERROR(from.Read(range.copies.front(), values.data()));
    return values;
  }
  for (int64_t first = 0; first < range.count; first += most_values_) {
    const auto count = static_cast<size_t>(std::min(most_values_, range.count - first));
    std::string mine;
    if (Gives(place, range.piece)) {
      mine.resize(count * sizeof(float));
      std::vector<float> own(count);
      SL_RETURN_IF_ERROR(
          from.Read(range.copies.front().subspan(static_cast<size_t>(first), count), own.data()));
      std::memcpy(mine.data(), own.data(), mine.size());
    }
    SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world_->GiveToFirst(mine));
    if (!gets()) continue;
    const std::string& given = all[static_cast<size_t>(giver)];
    SL_CHECK(given.size() == count * sizeof(float)) << from.param.name << ": " << given.size();
    std::memcpy(values.data() + first, given.data(), given.size());
  }
  return values;
}

absl::StatusOr<std::string> ParamReader::FirstText(const std::string& text) const {
  if (world_ == nullptr) return text;
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world_->Exchange(text));
  for (const std::string& said : all) {
    if (!said.empty()) return said;
  }
  return std::string();
}

}  // namespace stringline
