// A stage's copies are laid out one by one in our own layout; in Megatron's every group is so many
// ranks at even steps. Rings and their links follow from that.
#include "schedlang/costs/data_parallel.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace stringline {
namespace {

constexpr int64_t kGradientBytes = 4;

// first, first + step, …: so many.
struct Range {
  int64_t first = 0;
  int64_t count = 1;
  int64_t step = 1;
};

// The nodes of the first and the last tensor-parallel rank of a pipeline's rank on a coordinate.
struct Nodes {
  int64_t first = 0;
  int64_t last = 0;
};
Nodes NodesOf(const Plan& plan, const ModelShape& model, int64_t node_ranks, int64_t coordinate,
              int64_t rank) {
  const int64_t first = (coordinate * plan.ranks() + rank) * model.tensor;
  return {first / node_ranks, (first + model.tensor - 1) / node_ranks};
}

// The copies of one stage on the mesh.
class StageCopies {
 public:
  StageCopies(const Plan& plan, StageId stage, const ModelShape& model, const MeshLinks& links)
      : plan_(plan), model_(model), links_(links) {
    const int parts =
        plan.pipes.empty() ? static_cast<int>(plan.stages.size()) : plan.pipes[0].stages;
    for (size_t s = static_cast<size_t>(stage.value % parts); s < plan.stages.size();
         s += static_cast<size_t>(parts)) {
      const int32_t rank = plan.stages[s].rank.value;
      if (std::find(holders_.begin(), holders_.end(), rank) == holders_.end()) {
        holders_.push_back(rank);
      }
    }
  }

  int64_t holders() const { return static_cast<int64_t>(holders_.size()); }

  // The links with the slow ones among the ranks that hold the stage, numbered from the first of
  // each of them.
  MeshLinks WithSlowOfStage() const {
    MeshLinks own = links_;
    own.slow.clear();
    const int64_t ranks = model_.tensor * model_.sequence * model_.copies;
    for (const SlowPair& slow : links_.slow) {
      const int64_t holder = slow.a / ranks;
      if (holder != slow.b / ranks) continue;
      if (std::find(holders_.begin(), holders_.end(), holder) == holders_.end()) continue;
      own.slow.push_back({slow.a % ranks, slow.b % ranks, slow.share});
    }
    return own;
  }

  // The link of rings over all shares: a group for each replica, expert coordinate and holder.
  RingLink LinkOfShares() const {
    for (int64_t k = 0; k < model_.copies / model_.shard; ++k) {
      for (int64_t x = 0; x < model_.expert; ++x) {
        for (const int32_t holder : holders_) {
          if (Leaves({k * model_.shard, model_.shard}, {x}, {holder})) return links_.between;
        }
      }
    }
    return Inside();
  }

  // The link of rings over the replicas of every share; for experts, of each expert coordinate.
  RingLink LinkOfReplicas(bool experts) const {
    for (int64_t i = 0; i < model_.shard; ++i) {
      const Range data = {i, model_.copies / model_.shard, model_.shard};
      if (LeavesOverExperts(data, experts)) return links_.between;
    }
    return Inside();
  }

  // Links of the collectives of one of these ranks inside layers.
  LayerLinks LinksOfLayers(int32_t rank) const {
    LayerLinks layers = {Inside(), Inside()};
    for (int64_t d = 0; d < model_.copies; ++d) {
      if (Leaves({d}, {0, model_.expert}, {rank})) layers.experts = links_.between;
      for (int64_t x = 0; x < model_.expert; ++x) {
        if (Leaves({d}, {x}, {rank})) layers.tensor = links_.between;
      }
    }
    return layers;
  }

  RingLink LinkOfAll(bool experts) const {
    return LeavesOverExperts({0, model_.copies}, experts) ? links_.between : Inside();
  }

 private:
  RingLink Inside() const { return links_.node_ranks > 0 ? links_.inside : links_.between; }

  bool LeavesOverExperts(const Range& data, bool experts) const {
    if (!experts) return Leaves(data, {0, model_.expert}, holders_);
    for (int64_t x = 0; x < model_.expert; ++x) {
      if (Leaves(data, {x}, holders_)) return true;
    }
    return false;
  }

  // True if these ranks are on more than one node: tensor-parallel ranks at one place pass bytes on
  // to each other, and two neighbours are apart at some place if a node ends anywhere in them.
  bool Leaves(const Range& data, const Range& expert, const std::vector<int32_t>& ranks) const {
    if (links_.node_ranks == 0) return false;
    int64_t node = -1;
    for (int64_t d = 0; d < data.count; ++d) {
      for (int64_t x = 0; x < expert.count; ++x) {
        const int64_t coordinate =
            (data.first + d * data.step) * model_.expert + expert.first + x * expert.step;
        for (const int32_t rank : ranks) {
          const Nodes here = NodesOf(plan_, model_, links_.node_ranks, coordinate, rank);
          if (node < 0) node = here.first;
          if (node != here.first || node != here.last) return true;
        }
      }
    }
    return false;
  }

  const Plan& plan_;
  const ModelShape& model_;
  const MeshLinks& links_;
  std::vector<int32_t> holders_;  // ranks of the pipeline that hold the stage, in any pipe
};

// A group of Megatron's layout: so many ranks, `step` apart.
struct EvenGroup {
  int64_t count = 1;
  int64_t step = 1;

  int64_t InNode(const MeshLinks& links) const {
    if (links.node_ranks == 0) return 1;
    return std::clamp<int64_t>(links.node_ranks / step, 1, count);
  }
  // The link of a ring over the group with its slow ones.
  RingLink Link(const MeshLinks& links) const { return Slowed(EvenLink(links), SlowShare(links)); }
  // The link of its exchange inside a node, or between nodes: a slow one has bytes for one of a
  // rank's partners there.
  RingLink ExchangeLink(const MeshLinks& links, bool between) const {
    const int64_t near = InNode(links);
    const int64_t partners = between ? count / near - 1 : near - 1;
    double most = 0;
    for (const SlowPair& slow : links.slow) {
      const std::optional<Pair> pair = PairOf(slow, near);
      if (!pair || (pair->nodes > 0) != between || (between && pair->places > 0)) continue;
      most = std::max(most, slow.share / static_cast<double>(partners));
    }
    return Slowed(between || links.node_ranks == 0 ? links.between : links.inside, most);
  }

 private:
  // Two ranks of one group: how many nodes and places in a node they are apart.
  struct Pair {
    int64_t nodes = 0, places = 0;
  };
  std::optional<Pair> PairOf(const SlowPair& slow, int64_t near) const {
    const bool same = slow.a / (step * count) == slow.b / (step * count);
    if (!same || slow.a % step != slow.b % step) return std::nullopt;
    const int64_t a = slow.a / step % count, b = slow.b / step % count;
    return Pair{std::abs(a / near - b / near), std::abs(a % near - b % near)};
  }

  // The largest share by which a slow link makes the ring's hops longer.
  double SlowShare(const MeshLinks& links) const {
    const int64_t near = InNode(links), nodes = (count + near - 1) / near;
    double most = 0;
    for (const SlowPair& slow : links.slow) {
      const std::optional<Pair> pair = PairOf(slow, near);
      if (!pair) continue;
      const bool inside = pair->nodes == 0 && (pair->places == 1 || pair->places == near - 1);
      const bool across = pair->places == 0 && (pair->nodes == 1 || pair->nodes == nodes - 1);
      if (inside || across) most = std::max(most, slow.share);
    }
    return most;
  }

  static RingLink Slowed(RingLink link, double share) {
    link.latency_ns = std::llround(static_cast<double>(link.latency_ns) * (1 + share));
    link.bandwidth = std::llround(static_cast<double>(link.bandwidth) / (1 + share));
    return link;
  }

  // The link of a ring over the group, its latency the mean of the ring's hops.
  RingLink EvenLink(const MeshLinks& links) const {
    const int64_t near = InNode(links);
    if (links.node_ranks > 0 && near == count) return links.inside;
    RingLink link = links.between;
    if (near == 1) return link;
    const int64_t nodes = (count + near - 1) / near;
    link.latency_ns =
        ((count - nodes) * links.inside.latency_ns + (nodes - 1) * links.between.latency_ns) /
        (count - 1);
    if (link.bandwidth > 0) link.bandwidth *= near;
    if (links.inside.bandwidth > 0) {
      link.bandwidth = link.bandwidth == 0 ? links.inside.bandwidth
                                           : std::min(link.bandwidth, links.inside.bandwidth);
    }
    return link;
  }
};
EvenGroup CopiesOfDense(const ModelShape& model) {
  return {model.copies * model.sequence, model.tensor};
}
EvenGroup CopiesOfExperts(const ModelShape& model) {
  return {model.tensor * model.sequence * model.copies / model.expert, model.expert};
}
EvenGroup FirstOf(EvenGroup group, int64_t count) {
  return {std::min(group.count, count), group.step};
}

int64_t CallsOf(int64_t bytes, int64_t bucket) { return (bytes + bucket - 1) / bucket; }

}  // namespace

double RingNs(int64_t bytes, int64_t calls, int64_t ranks, const RingLink& link) {
  const auto n = static_cast<double>(ranks);
  const double transfer_ns = link.bandwidth == 0 ? 0
                                                 : static_cast<double>(bytes) / n * 1e9 /
                                                       static_cast<double>(link.bandwidth);
  return (n - 1) * (static_cast<double>(calls * link.latency_ns) + transfer_ns);
}

int64_t SharesOf(const ModelShape& model, bool experts) {
  if (model.layout == MeshLayout::kOwn || !experts) return model.shard;
  return std::clamp<int64_t>(model.shard * model.tensor / model.expert, 1,
                             CopiesOfExperts(model).count);
}

namespace {

// Parameters are gathered before use, or after the step.
CollectiveTimes TimesFrom(Sharding sharding, double gather_ns, double reduce_ns, int64_t buckets) {
  const bool gathers = sharding == Sharding::kParameters;
  const bool updates = sharding != Sharding::kNone && !gathers;
  return {gathers ? std::llround(gather_ns) : 0, std::llround(reduce_ns),
          updates ? std::llround(gather_ns) : 0, std::max<int64_t>(buckets, 1)};
}

CollectiveTimes TimesOfMegatron(const ModelShape& model, Sharding sharding,
                                const StageFormula& part, int64_t holders, const MeshLinks& links) {
  double gather_ns = 0, reduce_ns = 0;
  int64_t buckets = 0;
  for (const bool experts : {false, true}) {
    const int64_t parameters =
        experts ? part.expert_parameters : part.parameters - part.expert_parameters;
    if (parameters == 0) continue;
    const EvenGroup all = experts ? CopiesOfExperts(model) : CopiesOfDense(model);
    const int64_t bytes = parameters * kGradientBytes, calls = CallsOf(bytes, model.bucket);
    buckets += calls;
    const EvenGroup shares = FirstOf(all, SharesOf(model, experts));
    const int64_t replicas = all.count / shares.count * holders;
    gather_ns += RingNs(parameters * model.bytes, calls, shares.count, shares.Link(links));
    if (sharding == Sharding::kNone) {
      reduce_ns += 2 * RingNs(bytes, calls, all.count * holders, all.Link(links));
      continue;
    }
    const EvenGroup between = {replicas, all.step * shares.count};
    reduce_ns += RingNs(bytes, calls, shares.count, shares.Link(links)) +
                 2 * RingNs(bytes / shares.count, calls, replicas, between.Link(links));
  }
  return TimesFrom(sharding, gather_ns, reduce_ns, buckets);
}

}  // namespace

CollectiveTimes TimesOfCollectives(const Plan& plan, StageId stage, const ModelShape& model,
                                   Sharding sharding, const StageFormula& part,
                                   const MeshLinks& links) {
  const StageCopies copies(plan, stage, model, links);
  if (model.layout == MeshLayout::kMegatron) {
    return TimesOfMegatron(model, sharding, part, copies.holders(), copies.WithSlowOfStage());
  }
  const RingLink of_shares = copies.LinkOfShares();
  double gather_ns = 0, reduce_ns = 0;
  int64_t buckets = 0;
  for (const bool experts : {false, true}) {
    const int64_t parameters =
        experts ? part.expert_parameters : part.parameters - part.expert_parameters;
    if (parameters == 0) continue;
    const int64_t holders = copies.holders() * (experts ? 1 : model.expert);
    const int64_t bytes = parameters * kGradientBytes, calls = CallsOf(bytes, model.bucket);
    buckets += calls;
    gather_ns += RingNs(parameters * model.bytes, calls, model.shard, of_shares);
    if (sharding < Sharding::kGradients) {
      reduce_ns += 2 * RingNs(bytes, calls, model.copies * holders, copies.LinkOfAll(experts));
      continue;
    }
    const int64_t replicas = model.copies / model.shard * holders;
    reduce_ns += RingNs(bytes, calls, model.shard, of_shares) +
                 2 * RingNs(bytes / model.shard, calls, replicas, copies.LinkOfReplicas(experts));
  }
  return TimesFrom(sharding, gather_ns, reduce_ns, buckets);
}

bool IsByLayer(const ModelShape& model, Sharding sharding) {
  return model.layout == MeshLayout::kMegatron && sharding == Sharding::kParameters &&
         model.shard > 1;
}

MicrobatchWaits WaitsOf(const CollectiveTimes& times, const StageFormula& part) {
  const int64_t back_ns = part.input_gradient_ns + part.weight_gradient_ns;
  return {std::max<int64_t>(0, times.gather_ns - part.forward_ns),
          std::max<int64_t>(0, times.gather_ns + times.reduce_ns - back_ns)};
}

LayerLinks LinksOfLayers(const Plan& plan, StageId stage, const ModelShape& model,
                         const MeshLinks& links) {
  const StageCopies copies(plan, stage, model, links);
  if (model.layout == MeshLayout::kMegatron) {
    const MeshLinks own = copies.WithSlowOfStage();
    const EvenGroup experts = {model.expert, 1};
    return {EvenGroup{model.tensor, 1}.Link(own), experts.ExchangeLink(own, /*between=*/true),
            EvenGroup{model.sequence, model.tensor}.Link(own),
            experts.ExchangeLink(own, /*between=*/false), experts.InNode(own)};
  }
  return copies.LinksOfLayers(plan.stage(stage).rank.value);
}

int64_t CopiesOf(const ModelShape& model) {
  return model.copies * (model.layout == MeshLayout::kOwn ? model.expert : model.sequence);
}

int64_t CopiesOf(const Plan& plan, StageId stage, const ModelShape& model) {
  return StageCopies(plan, stage, model, {}).holders() * CopiesOf(model);
}

std::optional<std::pair<int64_t, int64_t>> NodesApart(const Plan& plan, RankId from, RankId to,
                                                      const ModelShape& model, int64_t node_ranks) {
  if (model.layout == MeshLayout::kMegatron) {
    const int64_t ranks = model.tensor * model.sequence * model.copies;
    for (int64_t i = 0; i < ranks; ++i) {
      const std::pair<int64_t, int64_t> nodes((from.value * ranks + i) / node_ranks,
                                              (to.value * ranks + i) / node_ranks);
      if (nodes.first != nodes.second) return nodes;
    }
    return std::nullopt;
  }
  for (int64_t c = 0; c < model.copies * model.expert; ++c) {
    const Nodes a = NodesOf(plan, model, node_ranks, c, from.value);
    const Nodes b = NodesOf(plan, model, node_ranks, c, to.value);
    const bool onward = from.value < to.value;
    const std::pair<int64_t, int64_t> nodes(onward ? a.first : a.last, onward ? b.last : b.first);
    if (nodes.first != nodes.second) return nodes;
  }
  return std::nullopt;
}

}  // namespace stringline
