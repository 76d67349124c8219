#include "schedlang/costs/link_costs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/cost_keys.h"

namespace stringline {
namespace {

constexpr absl::string_view kLinks = "links";
constexpr const char* kLinkParts[] = {"p2p", "bandwidth"};  // by LinkCost::Part

bool ReadRank(absl::string_view text, int32_t* rank) {
  return !text.empty() && text.find_first_not_of("0123456789") == absl::string_view::npos &&
         absl::SimpleAtoi(text, rank);
}

// The ways from rank to rank that messages of the plan take.
std::set<std::pair<int32_t, int32_t>> WaysOf(const Plan& plan) {
  std::set<std::pair<int32_t, int32_t>> ways;
  for (const Edge& edge : plan.graph.edges()) {
    const int32_t a = plan.stage(edge.from).rank.value, b = plan.stage(edge.to).rank.value;
    if (a == b) continue;
    ways.emplace(a, b);
    if (!plan.forward_only) ways.emplace(b, a);
  }
  return ways;
}

// "0-1, 1-2 and 2->0"; of many the first ones.
std::string PrintWays(const std::set<std::pair<int32_t, int32_t>>& ways) {
  constexpr size_t kMost = 12;
  std::vector<std::string> links;
  for (const auto& [a, b] : ways) {
    const bool both_ways = ways.count({b, a}) > 0;
    if (!both_ways || a < b) links.push_back(Print(RankLink{a, b, both_ways}));
  }
  const size_t more = links.size() > kMost ? links.size() - kMost : 0;
  links.resize(links.size() - more);
  return absl::StrCat(absl::StrJoin(links, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

}  // namespace

std::string Print(const RankLink& link) {
  return absl::StrCat(link.from, link.both_ways ? "-" : "->", link.to);
}

absl::StatusOr<RankLink> ParseRankLink(absl::string_view text) {
  const size_t mark = text.find('-');
  RankLink link;
  if (mark != absl::string_view::npos) {
    absl::string_view to = text.substr(mark + 1);
    link.both_ways = !absl::ConsumePrefix(&to, ">");
    if (ReadRank(text.substr(0, mark), &link.from) && ReadRank(to, &link.to)) {
      if (link.from != link.to) return link;
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "' leads from a rank to itself, and messages go to another"));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is no link: write its two ranks as 3-4, or as 3->4 for one direction"));
}

bool IsLinkKey(absl::string_view name) {
  return absl::ConsumePrefix(&name, kLinks) && (name.empty() || name[0] == '.');
}

absl::Status AddLinkCost(absl::string_view name, absl::string_view text, std::string place,
                         std::vector<LinkCost>* links) {
  absl::string_view rest = name.substr(kLinks.size());
  absl::ConsumePrefix(&rest, ".");
  const size_t dot = rest.find('.');
  if (dot == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": expected a link's p2p or bandwidth, as links: {3-4: {p2p: 80us}}"));
  }
  const absl::StatusOr<RankLink> link = ParseRankLink(rest.substr(0, dot));
  if (!link.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", link.status().message()));
  }
  const absl::string_view key = rest.substr(dot + 1);
  const auto part = std::find(std::begin(kLinkParts), std::end(kLinkParts), key);
  if (part == std::end(kLinkParts)) {
    const std::string close = ClosestName(key, {std::begin(kLinkParts), std::end(kLinkParts)});
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": a link has no '", key, "'; ",
                     close.empty() ? "p2p and bandwidth are what it may have"
                                   : absl::StrCat("did you mean '", close, "'?")));
  }
  LinkCost cost = {.link = *link,
                   .part = static_cast<LinkCost::Part>(part - std::begin(kLinkParts)),
                   .place = std::move(place)};
  CostKey row = *FindCostKey(*part);  // a link's value is written as that of all links
  const std::string whole(name);
  row.name = whole.c_str();
  SL_ASSIGN_OR_RETURN(cost.value, ParseCost(row, text));
  if (cost.part == LinkCost::Part::kBandwidth && cost.value == 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": expected more than 0"));
  }
  for (const LinkCost& other : *links) {
    if (other.part != cost.part || !other.link.Meets(cost.link)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": is given twice; ", other.place, " says it, too"));
  }
  links->push_back(std::move(cost));
  return absl::OkStatus();
}

const LinkCost* FindLinkCost(const std::vector<LinkCost>& links, LinkCost::Part part, RankId a,
                             RankId b) {
  const auto found = std::find_if(links.begin(), links.end(), [&](const LinkCost& cost) {
    return cost.part == part && cost.link.Has(a, b);
  });
  return found == links.end() ? nullptr : &*found;
}

absl::Status CheckLink(const Plan& plan, const RankLink& link) {
  const int32_t last = std::max(link.from, link.to);
  if (last >= plan.ranks()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no rank ", last, "; the plan has ", plan.ranks()));
  }
  const auto ways = WaysOf(plan);
  if (ways.count({link.from, link.to}) > 0) return absl::OkStatus();
  if (link.both_ways && ways.count({link.to, link.from}) > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "no message of this plan goes over ", Print(link), "; ",
      ways.empty() ? "it sends none" : absl::StrCat("messages go over ", PrintWays(ways))));
}

absl::Status CheckLinks(const Plan& plan, const std::vector<LinkCost>& links) {
  for (const LinkCost& cost : links) {
    const absl::Status checked = CheckLink(plan, cost.link);
    if (checked.ok()) continue;
    return absl::InvalidArgumentError(absl::StrCat(cost.place, ": ", checked.message()));
  }
  return absl::OkStatus();
}

}  // namespace stringline
