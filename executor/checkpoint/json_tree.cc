#include "executor/checkpoint/json_tree.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/tensor_header.h"

namespace stringline {

std::string InJson(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, absl::string_view what,
                                               int deepest) {
  using Json = nlohmann::json;
  std::vector<std::set<std::string>> keys;  // for each open object
  std::string twice;
  bool deep = false;
  const auto look = [&](int depth, Json::parse_event_t event, Json& parsed) {
    deep = deep || depth > deepest;
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.empty()) {
      const std::string key = parsed.get<std::string>();
      if (!keys.back().insert(key).second && twice.empty()) twice = Quoted(key);
    }
    return !deep;
  };
  Json tree = Json::parse(text.begin(), text.end(), look, /*allow_exceptions=*/false);
  if (deep) return absl::InvalidArgumentError(absl::StrCat(what, " nests too deep"));
  if (!twice.empty()) return absl::InvalidArgumentError(absl::StrCat(twice, " stands there twice"));
  if (tree.is_discarded()) return absl::InvalidArgumentError(absl::StrCat(what, " is not JSON"));
  if (!tree.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(what, " is not a JSON object"));
  }
  return tree;
}

}  // namespace stringline
