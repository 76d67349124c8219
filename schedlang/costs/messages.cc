#include "schedlang/costs/messages.h"

#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/cost_keys.h"
#include "schedlang/costs/data_parallel.h"

namespace stringline {
namespace {

using Part = LinkCost::Part;

class MessagePricer {
 public:
  MessagePricer(const Plan& plan, const CostSpec& spec, const std::vector<int64_t>& message)
      : plan_(plan),
        spec_(spec),
        message_(message),
        node_(One("node.ranks", 0)),
        copies_(spec.formula ? spec.formula->model : ModelShape()) {}

  // Each edge of stages that are no chain may have a size of its own, in place of `message`.
  absl::Status CheckSizes() const {
    if (!message_.empty()) return absl::OkStatus();
    const bool chain = plan_.graph.is_chain();
    if (Has("bandwidth") && chain) return NeedsSize("bandwidth", "");
    for (const Edge& edge : plan_.graph.edges()) {
      if (spec_.values.count(EdgeKey(edge)) > 0) continue;
      const std::string key = chain ? "" : EdgeKey(edge);
      if (Has("bandwidth")) return NeedsSize("bandwidth", key);
      const RankId a = RankOf(edge.from), b = RankOf(edge.to);
      for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
        const LinkCost* const own = FindLinkCost(spec_.links, Part::kBandwidth, from, to);
        if (own != nullptr) return NeedsSize(own->place, key);
      }
    }
    return absl::OkStatus();
  }

  Hop HopBetween(StageId from, StageId to, int64_t bytes) {
    const RankId a = RankOf(from), b = RankOf(to);
    std::optional<std::pair<int64_t, int64_t>> apart;
    if (node_ > 0) apart = NodesApart(plan_, a, b, copies_, node_);
    const bool inside = node_ > 0 && !apart;
    const auto value = [&](Part part, const char* of_all, const char* of_node) {
      const LinkCost* const own = FindLinkCost(spec_.links, part, a, b);
      if (own != nullptr) return own->value;
      return inside ? One(of_node, One(of_all, 0)) : One(of_all, 0);
    };
    Hop hop{.latency_ns = value(Part::kLatency, "p2p", "node.p2p")};
    const int64_t bandwidth = value(Part::kBandwidth, "bandwidth", "node.bandwidth");
    if (bandwidth > 0) {
      hop.transfer_ns =
          std::llround(static_cast<double>(bytes) / static_cast<double>(bandwidth) * 1e9);
    }
    if (!apart || One("node.sharing", 0) == 0) return hop;
    const bool is_own = FindLinkCost(spec_.links, Part::kBandwidth, a, b) != nullptr;
    const auto ends = is_own ? std::pair<int64_t, int64_t>(a.value, b.value) : *apart;
    const auto next = static_cast<int32_t>(shared_.size());
    hop.link = shared_.emplace(std::tuple(is_own, ends.first, ends.second), next).first->second;
    return hop;
  }

 private:
  bool Has(const char* key) const { return spec_.values.count(key) > 0; }
  int64_t One(const char* key, int64_t otherwise) const {
    const auto found = spec_.values.find(key);
    return found == spec_.values.end() ? otherwise : found->second[0];
  }
  RankId RankOf(StageId stage) const { return plan_.stage(stage).rank; }

  static absl::Status NeedsSize(absl::string_view place, const std::string& edge) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": needs the size of a message ('message=16MiB'",
                     edge.empty() ? "" : absl::StrCat(", or '", edge, "=16MiB'"), ")"));
  }

  const Plan& plan_;
  const CostSpec& spec_;
  const std::vector<int64_t>& message_;
  const int64_t node_;
  const ModelShape copies_;
  // Links that messages share: between two nodes, or between two ranks with a bandwidth of their
  // own.
  std::map<std::tuple<bool, int64_t, int64_t>, int32_t> shared_;
};

}  // namespace

int64_t BytesOver(const CostSpec& spec, const std::vector<int64_t>& message, const Edge& edge) {
  const auto own = spec.values.find(EdgeKey(edge));
  if (own != spec.values.end()) return own->second[0];
  return message.empty() ? 0 : message[static_cast<size_t>(edge.from.value)];
}

absl::Status AddMessages(const Plan& plan, const CostSpec& spec,
                         const std::vector<int64_t>& message, CostModel* costs) {
  const auto of_all = spec.values.find("p2p");
  costs->hop = of_all == spec.values.end() ? 0 : of_all->second[0];
  if (!spec.spares_links) SL_RETURN_IF_ERROR(CheckLinks(plan, spec.links));
  if (spec.values.count("bandwidth") + spec.values.count("node.ranks") == 0 && spec.links.empty()) {
    return absl::OkStatus();
  }
  MessagePricer pricer(plan, spec, message);
  SL_RETURN_IF_ERROR(pricer.CheckSizes());
  for (const Edge& edge : plan.graph.edges()) {
    const int64_t bytes = BytesOver(spec, message, edge);
    costs->activation_hops.push_back(pricer.HopBetween(edge.from, edge.to, bytes));
    costs->gradient_hops.push_back(pricer.HopBetween(edge.to, edge.from, bytes));
  }
  return absl::OkStatus();
}

}  // namespace stringline
