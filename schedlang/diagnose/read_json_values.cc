// The parser hands over token after token, and open lists and dicts stand on a stack of bounded
// depth.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/diagnose/dump_value.h"

namespace stringline {
namespace {

class ValueTokens : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Take(values_.AddNone()); }
  bool boolean(bool value) override { return Take(values_.AddBool(value)); }
  bool binary(binary_t&) override { return false; }
  bool number_integer(number_integer_t value) override { return Take(values_.AddInteger(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    return Take(values_.AddInteger(static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX))));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return Take(values_.AddNumber(value));
  }
  bool string(string_t& text) override { return Take(values_.AddCopy(std::move(text))); }
  bool key(string_t& name) override { return Take(values_.AddCopy(std::move(name))); }
  bool start_object(size_t) override { return Open(values_.AddDict()); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(values_.AddList()); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t at, const std::string&, const nlohmann::json::exception& e) override {
    const absl::string_view said = e.what();
    const bool is_cut =
        absl::StrContains(said, "end of input") || absl::StrContains(said, "missing closing quote");
    fault_ = is_cut ? CutShort(at)
                    : absl::InvalidArgumentError(absl::StrCat("is not JSON from byte ", at, " on"));
    return false;
  }

  absl::StatusOr<DumpValues> Finish() {
    if (!fault_.ok()) return fault_;
    return std::move(values_);
  }

 private:
  static constexpr size_t kMostLevels = 64;

  bool Take(DumpNode node) {
    if (open_.empty()) {
      values_.set_top(node);
    } else {
      values_.Append(open_.back(), node);
    }
    if (values_.size() <= kMostDumpValues) return true;
    return Refuse(absl::StrCat("holds more than ", kMostDumpValues, " values"));
  }
  bool Open(DumpNode node) {
    if (!Take(node)) return false;
    open_.push_back(node);
    return open_.size() <= kMostLevels ||
           Refuse(absl::StrCat("is nested more than ", kMostLevels, " levels deep"));
  }
  bool Close() {
    open_.pop_back();
    return true;
  }
  bool Refuse(const std::string& why) {
    fault_ = absl::InvalidArgumentError(why);
    return false;
  }

  DumpValues values_;
  std::vector<DumpNode> open_;
  absl::Status fault_;
};

}  // namespace

absl::StatusOr<DumpValues> ReadJsonValues(absl::string_view bytes) {
  ValueTokens tokens;
  nlohmann::json::sax_parse(bytes.begin(), bytes.end(), &tokens);
  return tokens.Finish();
}

}  // namespace stringline
