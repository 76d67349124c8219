// For each value a breadth-first walk from its stage gives the way to every reader; the ways of a
// value are a tree, so that it comes to no stage twice.
#include "stages/models/routes.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

std::string NameOfPart(int part, int parts) {
  if (part == 0) return "the embedding";
  return part + 1 == parts ? "the head" : absl::StrCat("layer ", part - 1);
}

class Router {
 public:
  // `edges`: in the order of `from`, then `to`.
  Router(int stages, const std::vector<StageEdge>& edges)
      : edges_(edges), carried_(edges.size()), out_of_(stages) {
    for (size_t e = 0; e < edges.size(); ++e) out_of_[edges[e].from].push_back(e);
  }

  // The first reader to whose stage no edges lead; -1: none. `stage_of`: by part.
  int Route(const PartValue& value, const std::vector<int>& stage_of) {
    const int from = stage_of[value.made_in];
    const bool stays = std::all_of(value.read_in.begin(), value.read_in.end(),
                                   [&](int reader) { return stage_of[reader] == from; });
    if (stays) return -1;
    const std::vector<int> came_over = WalkFrom(from);
    for (const int reader : value.read_in) {
      for (int stage = stage_of[reader]; stage != from;) {
        const int edge = came_over[stage];
        if (edge < 0) return reader;
        std::vector<int>& ids = carried_[edge];
        if (!ids.empty() && ids.back() == value.id) break;  // the rest of the way is known
        ids.push_back(value.id);
        stage = edges_[edge].from;
      }
    }
    return -1;
  }

  const std::vector<int>& carried(size_t edge) const { return carried_[edge]; }

 private:
  // By stage: the edge over which the walk came; -1: none.
  std::vector<int> WalkFrom(int from) const {
    std::vector<int> came_over(out_of_.size(), -1);
    std::vector<int> met = {from};
    for (size_t next = 0; next < met.size(); ++next) {
      for (const size_t edge : out_of_[met[next]]) {
        const int to = edges_[edge].to;
        if (to == from || came_over[to] >= 0) continue;
        came_over[to] = static_cast<int>(edge);
        met.push_back(to);
      }
    }
    return came_over;
  }

  const std::vector<StageEdge>& edges_;
  std::vector<std::vector<int>> carried_;  // by edge: ids
  std::vector<std::vector<size_t>> out_of_;
};

// `edges` in the order of `from`, then `to`.
absl::Status CheckEdges(const std::vector<StageEdge>& edges) {
  for (const StageEdge& edge : edges) {
    if (edge.from < edge.to) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("edge ", edge.from, " -> ", edge.to,
                     " of the schedule leads back, and the stages of a model follow one another"));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<PartValue> ValuesInARow(int layers) {
  std::vector<PartValue> values;
  for (int part = 0; part <= layers; ++part) values.push_back({part, part, {part + 1}});
  return values;
}

absl::StatusOr<std::vector<StageRoutes>> RouteValues(const std::vector<PartValue>& values,
                                                     const std::vector<int>& stage_of, int stages,
                                                     std::vector<StageEdge> edges) {
  const bool chain = edges.empty();
  for (int s = 0; chain && s + 1 < stages; ++s) edges.push_back({s, s + 1});
  std::sort(edges.begin(), edges.end(), [](const StageEdge& a, const StageEdge& b) {
    return std::tie(a.from, a.to) < std::tie(b.from, b.to);
  });
  SL_RETURN_IF_ERROR(CheckEdges(edges));
  Router router(stages, edges);
  const int parts = static_cast<int>(stage_of.size());
  for (const PartValue& value : values) {
    const int reader = router.Route(value, stage_of);
    if (reader < 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(NameOfPart(reader, parts), ", in stage ", stage_of[reader],
                     ", reads a result of ", NameOfPart(value.made_in, parts), ", in stage ",
                     stage_of[value.made_in], ", and no edges of the schedule lead there"));
  }
  std::vector<StageRoutes> routes(stages);
  std::vector<int> edges_in(stages, 0), edges_out(stages, 0);
  for (size_t e = 0; e < edges.size(); ++e) {
    const auto& [from, to] = edges[e];
    if (router.carried(e).empty()) {
      return absl::InvalidArgumentError(absl::StrCat("the schedule has an edge ", from, " -> ", to,
                                                     ", and nothing of this model goes over it"));
    }
    for (const int id : router.carried(e)) {
      routes[from].out.push_back({id, edges_out[from]});
      routes[to].in.push_back({id, edges_in[to]});
    }
    ++edges_out[from];
    ++edges_in[to];
  }
  return routes;
}

}  // namespace stringline
