// The graph that microbatches go through: its nodes are the stages of a plan, and over an edge an
// output of one stage becomes an input of another. Backwards run against the edges.
//
// By default the stages of each pipe are a chain. Otherwise a stage may have several inputs and
// outputs, each a value of its own; it begins when all of them are there. A stage that no edge
// leads to reads the data, and a stage that none leaves has a loss.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/base/ids.h"

namespace stringline {

struct Edge {
  StageId from;
  StageId to;
  int32_t id = -1;  // the number of the edge, in the order of `to`, and of `from`
};

class StageGraph {
 public:
  StageGraph() = default;
  // Chains: stage s follows stage s - 1 if both have the same pipe. `pipes`: by stage.
  static StageGraph Chains(absl::Span<const int32_t> pipes);
  // Ends of edges, in any order, none of them twice; stages that they name are below `stages`.
  // Edges from each stage to the next one, and no others, are a chain.
  StageGraph(int stages, std::vector<Edge> edges);

  // The same edges, with the same numbers, but for those that `keeps` is false of.
  template <typename Keeps>
  StageGraph Only(Keeps keeps) const {
    StageGraph part = *this;
    part.Keep(keeps);
    return part;
  }

  bool is_chain() const { return chain_; }
  int stages() const { return static_cast<int>(first_in_.size()) - 1; }
  const std::vector<Edge>& edges() const { return in_; }
  // The edges that lead to the stage, by their numbers, and those that leave it.
  absl::Span<const Edge> In(StageId stage) const { return RowOf(in_, first_in_, stage); }
  absl::Span<const Edge> Out(StageId stage) const { return RowOf(out_, first_out_, stage); }
  // Null if there is no such edge.
  const Edge* Find(StageId from, StageId to) const;
  // The first edge that leads to the stage, and that leaves it: of a chain the only one. Null if
  // there is none.
  const Edge* FirstIn(StageId stage) const { return FirstInRow(in_, first_in_, stage); }
  const Edge* FirstOut(StageId stage) const { return FirstInRow(out_, first_out_, stage); }
  // The stages before and behind in a chain; none for its first and its last stage.
  StageId Before(StageId stage) const {
    return In(stage).empty() ? StageId() : in_[first_in_[stage.value]].from;
  }
  StageId Behind(StageId stage) const {
    return Out(stage).empty() ? StageId() : out_[first_out_[stage.value]].to;
  }
  // Arrays of the sizes and places of values have an entry for each stage. The values that move
  // over an edge of a chain are in the entries of its stages: at `from` the output and its
  // gradient, at `to` the input and its gradient. Where stages are no chain every edge has an
  // entry, behind those of all stages.
  int entries() const { return stages() + (chain_ ? 0 : static_cast<int>(in_.size())); }
  StageId EntryAtFrom(const Edge& edge) const {
    return chain_ ? edge.from : StageId(stages() + edge.id);
  }
  StageId EntryAtTo(const Edge& edge) const {
    return chain_ ? edge.to : StageId(stages() + edge.id);
  }
  // The stages in an order in which each follows all that lead to it. Stages of a cycle, and those
  // behind one, are left out.
  std::vector<StageId> InOrder() const;
  // The stages of a cycle, each with an edge to the next one, and the last to the first, which is
  // the lowest; empty if there is none.
  std::vector<StageId> FindCycle() const;

 private:
  static absl::Span<const Edge> RowOf(const std::vector<Edge>& edges,
                                      const std::vector<uint32_t>& first, StageId stage) {
    const uint32_t* const begin = first.data() + stage.value;
    return {edges.data() + begin[0], begin[1] - begin[0]};
  }

  static const Edge* FirstInRow(const std::vector<Edge>& edges, const std::vector<uint32_t>& first,
                                StageId stage) {
    const uint32_t* const begin = first.data() + stage.value;
    return begin[0] == begin[1] ? nullptr : edges.data() + begin[0];
  }

  template <typename Keeps>
  void Keep(Keeps keeps) {
    for (std::vector<Edge>* const edges : {&in_, &out_}) {
      std::erase_if(*edges, [&](const Edge& edge) { return !keeps(edge); });
    }
    CountEdges(stages());
  }
  void CountEdges(int stages);

  bool chain_ = true;
  std::vector<Edge> in_;                                    // ordered by `to`, then `from`
  std::vector<Edge> out_;                                   // ordered by `from`, then `to`
  std::vector<uint32_t> first_in_ = {0}, first_out_ = {0};  // by stage
};

// "edges 0>1 0>2 1>2\n", or nothing without edges: the line of a plan's text form.
std::string PrintEdges(const std::vector<Edge>& edges);
// "0 -> 2 -> 1 -> 0"
std::string PrintCycle(const std::vector<StageId>& cycle);

}  // namespace stringline
