#include "executor/processes/healed_place.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "executor/processes/frames.h"

namespace stringline {
namespace {

constexpr size_t kPlaceParts = 9;  // before those of the members
constexpr size_t kMemberParts = 3;

}  // namespace

std::string Pack(const HealedPlace& place) {
  std::vector<std::string> parts = {absl::StrCat(place.process),
                                    absl::StrCat(place.data),
                                    absl::StrCat(place.times),
                                    absl::StrCat(place.age.first),
                                    absl::StrCat(place.age.second),
                                    place.told,
                                    absl::StrCat(place.gives_to),
                                    absl::StrJoin(place.takes_from, ","),
                                    place.nonce};
  for (const HealMember& member : place.members) {
    for (const std::string& part : {member.name, member.host, absl::StrCat(member.port)}) {
      parts.push_back(part);
    }
  }
  return Pack(parts);
}

std::optional<HealedPlace> ReadHealedPlace(absl::string_view bytes) {
  const auto parts = Unpack(bytes);
  HealedPlace place;
  if (!parts.has_value() || parts->size() < kPlaceParts ||
      (parts->size() - kPlaceParts) % kMemberParts != 0 ||
      !absl::SimpleAtoi((*parts)[0], &place.process) ||
      !absl::SimpleAtoi((*parts)[1], &place.data) || !absl::SimpleAtoi((*parts)[2], &place.times) ||
      !absl::SimpleAtoi((*parts)[3], &place.age.first) ||
      !absl::SimpleAtoi((*parts)[4], &place.age.second) ||
      !absl::SimpleAtoi((*parts)[6], &place.gives_to)) {
    return std::nullopt;
  }
  place.told = (*parts)[5];
  place.nonce = (*parts)[8];
  for (const absl::string_view one : absl::StrSplit((*parts)[7], ',', absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(one, &place.takes_from.emplace_back())) return std::nullopt;
  }
  for (size_t i = kPlaceParts; i < parts->size(); i += kMemberParts) {
    HealMember member = {(*parts)[i], (*parts)[i + 1], 0};
    if (!absl::SimpleAtoi((*parts)[i + 2], &member.port)) return std::nullopt;
    place.members.push_back(std::move(member));
  }
  return place;
}

// "0 53 4 1 2; …": layout, step, shares, and those held.
std::string Print(const std::vector<HeldVersion>& versions) {
  return absl::StrJoin(versions, ";", [](std::string* out, const HeldVersion& version) {
    absl::StrAppend(out, version.layout, " ", version.step, " ", version.shares, " ",
                    absl::StrJoin(version.holds, " "));
  });
}

std::vector<HeldVersion> ReadHeldVersions(absl::string_view text) {
  std::vector<HeldVersion> versions;
  for (const absl::string_view one : absl::StrSplit(text, ';', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(one, ' ', absl::SkipEmpty());
    HeldVersion version;
    bool read = words.size() >= 3 && absl::SimpleAtoi(words[0], &version.layout) &&
                absl::SimpleAtoi(words[1], &version.step) &&
                absl::SimpleAtoi(words[2], &version.shares);
    for (size_t i = 3; read && i < words.size(); ++i) {
      read = absl::SimpleAtoi(words[i], &version.holds.emplace_back());
    }
    if (read) versions.push_back(std::move(version));
  }
  return versions;
}

}  // namespace stringline
