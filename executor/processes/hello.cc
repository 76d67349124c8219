#include "executor/processes/hello.h"

#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "executor/processes/frames.h"

namespace stringline {
namespace {

constexpr size_t kFields = 7;  // before the settings
constexpr absl::string_view kTitle = "stringline";
constexpr int kMostNamed = 3;  // differing settings in a message

}  // namespace

std::string Encode(const Hello& hello) {
  std::vector<std::string> parts = {std::string(kTitle),
                                    absl::StrCat(hello.protocol),
                                    hello.nonce,
                                    absl::StrCat(hello.process),
                                    absl::StrCat(hello.processes),
                                    hello.host,
                                    hello.trouble};
  for (const auto& [key, value] : hello.config) {
    parts.push_back(key);
    parts.push_back(value);
  }
  return Pack(parts);
}

std::optional<Hello> DecodeHello(absl::string_view bytes) {
  const auto parts = Unpack(bytes);
  Hello hello;
  if (!parts.has_value() || parts->size() < 2 || (*parts)[0] != kTitle ||
      !absl::SimpleAtoi((*parts)[1], &hello.protocol)) {
    return std::nullopt;
  }
  if (hello.protocol != Hello::kProtocol) return hello;
  if (parts->size() < kFields || (parts->size() - kFields) % 2 != 0 ||
      !absl::SimpleAtoi((*parts)[3], &hello.process) ||
      !absl::SimpleAtoi((*parts)[4], &hello.processes)) {
    return std::nullopt;
  }
  hello.nonce = (*parts)[2];
  hello.host = (*parts)[5];
  hello.trouble = (*parts)[6];
  for (size_t i = kFields; i < parts->size(); i += 2) {
    hello.config.emplace_back((*parts)[i], (*parts)[i + 1]);
  }
  return hello;
}

std::string NameOf(const Hello& hello) {
  return absl::StrCat("process ", hello.process, " on ", hello.host);
}

absl::Status CheckNonce(const Hello& mine, const Hello& theirs) {
  // The nonce of another protocol was not read.
  if (theirs.protocol != mine.protocol || theirs.nonce == mine.nonce) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(NameOf(mine), " belongs to the run \"", mine.nonce, "\", and not to \"",
                   theirs.nonce, "\": another run listens on this port, or one that has ended"));
}

absl::Status CheckPlace(const Hello& mine, const Hello& theirs) {
  if (theirs.protocol != mine.protocol) {
    return absl::InvalidArgumentError(
        absl::StrCat("a process speaks protocol ", theirs.protocol, ", and ", NameOf(mine),
                     " protocol ", mine.protocol, ": all need the same stringline"));
  }
  if (theirs.processes != mine.processes) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(theirs), " is one of ", theirs.processes,
                                                   ", but ", NameOf(mine), " is one of ",
                                                   mine.processes));
  }
  if (theirs.process < 1 || theirs.process >= mine.processes) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(theirs), " comes to ", NameOf(mine),
                                                   ", which waits for processes 1 to ",
                                                   mine.processes - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckConfig(const Hello& mine, const Hello& theirs) {
  std::map<std::string, std::pair<const std::string*, const std::string*>> settings;
  for (const auto& [key, value] : mine.config) settings[key].first = &value;
  for (const auto& [key, value] : theirs.config) settings[key].second = &value;
  std::string text;
  int different = 0;
  const auto value_of = [](const std::string* value) {
    return value == nullptr ? std::string("not set") : absl::StrCat("\"", *value, "\"");
  };
  for (const auto& [key, values] : settings) {
    const auto& [own, other] = values;
    if (own != nullptr && other != nullptr && *own == *other) continue;
    if (++different > kMostNamed) continue;
    absl::StrAppend(&text, different > 1 ? ", " : "", key, " (", value_of(other), " and ",
                    value_of(own), ")");
  }
  if (different == 0) return absl::OkStatus();
  if (different > kMostNamed) absl::StrAppend(&text, " and ", different - kMostNamed, " more");
  return absl::InvalidArgumentError(absl::StrCat(NameOf(theirs), " and ", NameOf(mine),
                                                 " do not run the same: they differ in ", text));
}

}  // namespace stringline
