// The keys of a JSON object, asked for one by one. What is wrong first is kept until the end; until
// then questions get answers that do no harm.
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
  // `object` outlives it. `within` is what keys of an object inside another begin with: "a.".
  explicit ConfigKeys(const nlohmann::json& object, std::string within = "")
      : object_(object), within_(std::move(within)) {}

  // A whole number from 1 to 2^20, a number, true or false. A key that is missing, or null, has the
  // value `otherwise`; without one it must be there.
  int Whole(const char* key, std::optional<int> otherwise = std::nullopt);
  double Number(const char* key, std::optional<double> otherwise = std::nullopt);
  bool Flag(const char* key, bool otherwise);

  // The key is missing or has one of these values; `why` says what others would need.
  void Only(const char* key, const std::vector<nlohmann::json>& values, absl::string_view why);
  // `why` the key's value, or `otherwise` where it is missing, cannot be.
  void Refuse(const char* key, absl::string_view why, const nlohmann::json& otherwise = nullptr);
  // These do not matter.
  template <typename Keys>
  void Ignore(const Keys& keys) {
    for (const char* const key : keys) asked_.insert(key);
  }
  // The value, or nullptr where it is missing or null.
  const nlohmann::json* Find(const char* key);
  // A share of what a layer gives, which must be 0.
  void NoDropout(const char* key, double otherwise);
  // The tokens of a sequence: `wished`, or the key's if it is 0, and never more than the key's.
  int Context(const char* key, int wished);
  void Fail(const absl::Status& status) { status_.Update(status); }

  // The first error, or one for a key that nobody asked for.
  absl::Status Finish() const;

 private:
  const nlohmann::json& object_;
  const std::string within_;
  std::set<std::string> asked_;
  absl::Status status_;
};

}  // namespace stringline
