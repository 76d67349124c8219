#include "executor/checkpoint/config_keys.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/json_tree.h"
#include "executor/checkpoint/tensor_header.h"

namespace stringline {

using Json = nlohmann::json;

const Json* ConfigKeys::Find(const char* key) {
  asked_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void ConfigKeys::Refuse(const char* key, absl::string_view why, const Json& otherwise) {
  const Json* const value = Find(key);
  constexpr size_t kLongest = 100;
  std::string seen = InJson(value == nullptr ? otherwise : *value);
  if (seen.size() > kLongest) seen = absl::StrCat(seen.substr(0, kLongest), "…");
  Fail(absl::InvalidArgumentError(
      absl::StrCat(Quoted(absl::StrCat(within_, key)),
                   value == nullptr ? " is not there, which means " : " is ", seen, ": ", why)));
}

int ConfigKeys::Whole(const char* key, std::optional<int> otherwise) {
  constexpr int64_t kMost = 1 << 20;
  const Json* const value = Find(key);
  if (value == nullptr && otherwise) return *otherwise;
  if (value != nullptr && value->is_number_integer() && *value >= 1 && *value <= kMost) {
    return value->get<int>();
  }
  Refuse(key, absl::StrCat("a whole number in 1 .. ", kMost, " is needed"));
  return 1;
}

double ConfigKeys::Number(const char* key, std::optional<double> otherwise) {
  const Json* const value = Find(key);
  if (value == nullptr && otherwise) return *otherwise;
  if (value != nullptr && value->is_number()) return value->get<double>();
  Refuse(key, "a number is needed");
  return 1;
}

bool ConfigKeys::Flag(const char* key, bool otherwise) {
  const Json* const value = Find(key);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  Refuse(key, "true or false is needed");
  return otherwise;
}

void ConfigKeys::Only(const char* key, const std::vector<Json>& values, absl::string_view why) {
  const Json* const value = Find(key);
  if (value == nullptr || std::find(values.begin(), values.end(), *value) != values.end()) return;
  Refuse(key, why);
}

void ConfigKeys::NoDropout(const char* key, double otherwise) {
  const double share = Number(key, otherwise);
  if (share == 0 || without_dropout_) return;
  Refuse(key, "there is no dropout here; 'dropout: 0' in the run file's model trains without",
         otherwise);
}

int ConfigKeys::Context(const char* key, int wished) {
  const int most = Whole(key);
  if (wished <= most) return wished > 0 ? wished : most;
  Refuse(key, absl::StrCat("fewer than the ", wished, " tokens of model.context"));
  return most;
}

absl::Status ConfigKeys::Finish() const {
  if (!status_.ok()) return status_;
  for (const auto& [key, value] : object_.items()) {
    if (asked_.count(key) != 0 || value.is_null()) continue;
    ConfigKeys unknown(object_, within_);
    unknown.Refuse(key.c_str(), "nothing is known of this key");
    return unknown.status_;
  }
  return absl::OkStatus();
}

}  // namespace stringline
