// Links between the ranks of a pipeline: names, and the times of messages that some have for
// themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/base/ids.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// "3-4", or "3->4" for the messages from rank 3 to rank 4 alone.
struct RankLink {
  int32_t from = 0;
  int32_t to = 0;
  bool both_ways = true;

  bool Has(RankId a, RankId b) const {
    return (a.value == from && b.value == to) || (both_ways && a.value == to && b.value == from);
  }
  bool Meets(const RankLink& other) const {
    return Has(RankId(other.from), RankId(other.to)) ||
           (other.both_ways && Has(RankId(other.to), RankId(other.from)));
  }
  friend bool operator==(const RankLink&, const RankLink&) = default;
};
std::string Print(const RankLink& link);
// Errors: a text that is no link; a link from a rank to itself.
absl::StatusOr<RankLink> ParseRankLink(absl::string_view text);

// A value that replaces what the costs say of messages between ranks, `node` included.
struct LinkCost {
  enum class Part : uint8_t { kLatency, kBandwidth };
  RankLink link;
  Part part = Part::kLatency;
  int64_t value = 0;  // nanoseconds, or bytes a second
  std::string place;  // of the key, for errors: "x.yaml:3: links.3-4.p2p"
  friend bool operator==(const LinkCost&, const LinkCost&) = default;
};

// True for `links` and the keys below it.
bool IsLinkKey(absl::string_view name);
// Reads "links.3-4.p2p" with its value. Errors: another key; a value that is none, or of a link
// that has one already.
absl::Status AddLinkCost(absl::string_view name, absl::string_view text, std::string place,
                         std::vector<LinkCost>* links);

// Null: messages from rank `a` to rank `b` have no value of their own.
const LinkCost* FindLinkCost(const std::vector<LinkCost>& links, LinkCost::Part part, RankId a,
                             RankId b);

// InvalidArgument for a link over which no message of the plan goes, with those that there are.
absl::Status CheckLink(const Plan& plan, const RankLink& link);
// The same for every link; errors begin with its place.
absl::Status CheckLinks(const Plan& plan, const std::vector<LinkCost>& links);

}  // namespace stringline
