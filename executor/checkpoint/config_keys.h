// Reads the keys of a JSON object, and notes which were read. The first error is kept until the
// end; until then reads return harmless values.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stringline {

class ConfigKeys {
 public:
  // `object` outlives this reader. `within` is the prefix for the keys of a nested object: "a.".
  explicit ConfigKeys(const nlohmann::json& object, std::string within = "")
      : object_(object), within_(std::move(within)) {}

  // A whole number from 1 to 2^20, a number, true or false. A missing or null key has the value
  // `otherwise`; without `otherwise` the key is required.
  int Whole(const char* key, std::optional<int> otherwise = std::nullopt);
  double Number(const char* key, std::optional<double> otherwise = std::nullopt);
  bool Flag(const char* key, bool otherwise);

  // The key is missing or has one of these values; `why` tells the requirement of other values.
  void Only(const char* key, const std::vector<nlohmann::json>& values, absl::string_view why);
  // An error that gives `why` the key's value, or `otherwise` if the key is missing, is impossible.
  void Refuse(const char* key, absl::string_view why, const nlohmann::json& otherwise = nullptr);
  // Keys that do not matter.
  template <typename Keys>
  void Ignore(const Keys& keys) {
    for (const char* const key : keys) asked_.insert(key);
  }
  // The value, or nullptr if the key is missing or null.
  const nlohmann::json* Find(const char* key);
  // A dropout's share, which must be 0, or may be any where a run trains without dropout.
  void NoDropout(const char* key, double otherwise);
  void TrainWithoutDropout() { without_dropout_ = true; }
  // The tokens of a sequence: `wished`, or the key's value if `wished` is 0, and never more than
  // the key's value.
  int Context(const char* key, int wished);
  void Fail(const absl::Status& status) { status_.Update(status); }

  // The first error, or an error for a key that was not read. A null key counts as missing.
  absl::Status Finish() const;

 private:
  const nlohmann::json& object_;
  const std::string within_;
  std::set<std::string> asked_;
  bool without_dropout_ = false;
  absl::Status status_;
};

}  // namespace stringline
