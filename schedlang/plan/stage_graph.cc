#include "schedlang/plan/stage_graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

// By stage the number of the edges before its own, which begin or end there as `end` tells.
std::vector<uint32_t> FirstOf(int stages, const std::vector<Edge>& edges, StageId Edge::*end) {
  std::vector<uint32_t> first(static_cast<size_t>(stages) + 1, 0);
  for (const Edge& edge : edges) ++first[static_cast<size_t>((edge.*end).value) + 1];
  for (size_t s = 1; s < first.size(); ++s) first[s] += first[s - 1];
  return first;
}

}  // namespace

StageGraph::StageGraph(int stages, std::vector<Edge> edges) : chain_(false), in_(std::move(edges)) {
  std::sort(in_.begin(), in_.end(), [](const Edge& a, const Edge& b) {
    return std::pair(a.to, a.from) < std::pair(b.to, b.from);
  });
  for (size_t i = 0; i < in_.size(); ++i) in_[i].id = static_cast<int32_t>(i);
  out_ = in_;
  std::sort(out_.begin(), out_.end(), [](const Edge& a, const Edge& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  CountEdges(stages);
}

void StageGraph::CountEdges(int stages) {
  chain_ = in_.size() + 1 == static_cast<size_t>(stages);
  for (size_t k = 0; k < in_.size(); ++k) {
    const auto from = static_cast<int32_t>(k);
    chain_ = chain_ && in_[k].from.value == from && in_[k].to.value == from + 1;
  }
  first_in_ = FirstOf(stages, in_, &Edge::to);
  first_out_ = FirstOf(stages, out_, &Edge::from);
}

StageGraph StageGraph::Chains(absl::Span<const int32_t> pipes) {
  std::vector<Edge> edges;
  for (size_t s = 1; s < pipes.size(); ++s) {
    const auto id = static_cast<int32_t>(s);
    if (pipes[s] == pipes[s - 1]) edges.push_back({StageId(id - 1), StageId(id)});
  }
  StageGraph graph(static_cast<int>(pipes.size()), std::move(edges));
  graph.chain_ = true;
  return graph;
}

const Edge* StageGraph::Find(StageId from, StageId to) const {
  const auto in = In(to);
  const auto* const edge = std::lower_bound(
      in.begin(), in.end(), from, [](const Edge& e, StageId stage) { return e.from < stage; });
  return edge != in.end() && edge->from == from ? edge : nullptr;
}

std::vector<StageId> StageGraph::InOrder() const {
  std::vector<size_t> left;  // by stage: the edges to it from stages not yet in the order
  std::vector<StageId> order;
  for (int s = 0; s < stages(); ++s) {
    left.push_back(In(StageId(s)).size());
    if (left.back() == 0) order.emplace_back(s);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    for (const Edge& edge : Out(order[i])) {
      if (--left[static_cast<size_t>(edge.to.value)] == 0) order.push_back(edge.to);
    }
  }
  return order;
}

std::vector<StageId> StageGraph::FindCycle() const {
  std::vector<bool> ordered(static_cast<size_t>(stages()), false);
  for (const StageId stage : InOrder()) ordered[static_cast<size_t>(stage.value)] = true;
  const auto open = std::find(ordered.begin(), ordered.end(), false);
  if (open == ordered.end()) return {};
  // Each stage left out has an edge from another such stage: a walk back over these meets a cycle.
  std::vector<int32_t> at(ordered.size(), -1);  // by stage: its place in the walk
  std::vector<StageId> walk;
  StageId stage(static_cast<int32_t>(open - ordered.begin()));
  while (at[static_cast<size_t>(stage.value)] < 0) {
    at[static_cast<size_t>(stage.value)] = static_cast<int32_t>(walk.size());
    walk.push_back(stage);
    const auto in = In(stage);
    stage = std::find_if(in.begin(), in.end(), [&](const Edge& edge) {
              return !ordered[static_cast<size_t>(edge.from.value)];
            })->from;
  }
  walk.erase(walk.begin(), walk.begin() + at[static_cast<size_t>(stage.value)]);
  std::reverse(walk.begin(), walk.end());
  std::rotate(walk.begin(), std::min_element(walk.begin(), walk.end()), walk.end());
  return walk;
}

std::string PrintEdges(const std::vector<Edge>& edges) {
  if (edges.empty()) return "";
  std::string out = "edges";
  for (const Edge& edge : edges) absl::StrAppend(&out, " ", edge.from.value, ">", edge.to.value);
  return absl::StrCat(out, "\n");
}

std::string PrintCycle(const std::vector<StageId>& cycle) {
  std::string out;
  for (const StageId stage : cycle) absl::StrAppend(&out, stage.value, " -> ");
  return absl::StrCat(out, cycle[0].value);
}

}  // namespace stringline
