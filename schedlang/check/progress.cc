// The rule `progress`: the plan is run; if it stops, every stream waits for others. These waits
// form a wait-for graph, and the finding is a shortest cycle of it. More buffers never hurt, so the
// number of buffers that would help is found by bisection.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/check/replay.h"
#include "schedlang/check/rules.h"
#include "schedlang/check/waits.h"
#include "schedlang/plan/effects.h"

namespace stringline {
namespace {

// A dependency in the wait-for graph: the node waited for, and its action. A rank, and a started
// receive, also wait for the computation that produces their value, until it has ended: a cycle
// over computations alone is shorter than a cycle over the messages between them.
struct Wait {
  int node = -1;
  uint32_t action = 0;
};

// The nodes are the compute streams of all ranks, then the communicator queues of all ranks, then
// the collectives of all ranks, then their own actions on the network. Each waits with the action
// at its head; collectives at a reduction.
class WaitGraph {
 public:
  WaitGraph(const Plan& plan, const Replay& stopped, int buffers)
      : plan_(plan), stopped_(stopped), buffers_(buffers) {
    for (int node = 0; node < OwnLaneOf(RankId(plan.ranks())); ++node) {
      waits_.push_back(IsRank(node)      ? RankWaits(RankId(node))
                       : IsOwnLane(node) ? OwnLaneWaits(RankOf(node))
                       : Collects(node)  ? ReductionWaits(RankOf(node))
                                         : QueueWaits(QueueOf(node)));
    }
  }

  // A shortest cycle of the graph: nodes, each with the wait for the next.
  std::vector<std::pair<int, Wait>> Cycle() const {
    std::vector<std::vector<int>> edges(waits_.size());
    for (size_t n = 0; n < waits_.size(); ++n) {
      for (const Wait& wait : waits_[n]) edges[n].push_back(wait.node);
    }
    const std::vector<int> nodes = ShortestCycle(edges);
    std::vector<std::pair<int, Wait>> cycle;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const int next = nodes[(i + 1) % nodes.size()];
      const auto& waits = waits_[nodes[i]];
      cycle.emplace_back(nodes[i], *std::find_if(waits.begin(), waits.end(),
                                                 [next](const Wait& w) { return w.node == next; }));
    }
    return cycle;
  }

  bool IsRank(int node) const { return node < plan_.ranks(); }
  bool IsOwnLane(int node) const { return node >= OwnLaneOf(RankId(0)); }
  bool Collects(int node) const { return node >= CollectivesOf(RankId(0)) && !IsOwnLane(node); }
  int OwnLaneOf(RankId rank) const { return CollectivesOf(RankId(plan_.ranks())) + rank.value; }
  int CollectivesOf(RankId rank) const {
    return plan_.ranks() + static_cast<int>(stopped_.queues().all.size()) + rank.value;
  }
  int QueueOf(int node) const { return node - plan_.ranks(); }
  RankId RankOf(int node) const {
    if (IsOwnLane(node)) return RankId(node - OwnLaneOf(RankId(0)));
    if (Collects(node)) return RankId(node - CollectivesOf(RankId(0)));
    return IsRank(node) ? RankId(node) : stopped_.queues().all[QueueOf(node)].rank;
  }
  // The action at the node's head.
  uint32_t HeadOf(int node) const {
    if (IsOwnLane(node)) return stopped_.own_head(RankOf(node));
    if (Collects(node)) return stopped_.collected(RankOf(node));
    return IsRank(node) ? stopped_.cursor(RankId(node)) : stopped_.head(QueueOf(node)).front();
  }

  // The part of a rank's next group that lacks a value from another rank, and that value.
  std::pair<uint32_t, Values> Lack(RankId rank) const {
    const uint32_t begin = stopped_.cursor(rank);
    if (begin == plan_.first[rank.value + 1]) return {begin, Values{0}};
    const auto group = GroupAt(plan_.actions, begin);
    for (uint32_t k = 0; k < group.size(); ++k) {
      const Values missing = stopped_.live().Missing(group, k);
      if (missing == 0) continue;
      const Values from_others = missing & (kInput | kOutGrad);
      if (from_others == 0) return {begin + k, LowestOf(missing)};
      return {begin + k, static_cast<Values>(missing & kInput ? kInput : kOutGrad)};
    }
    return {begin, Values{0}};
  }

  // True if the node has come to an own action of all ranks, and others have not.
  bool WaitsForRanks(int node) const {
    if (Collects(node) || !(IsRank(node) || IsOwnLane(node))) return false;
    const uint32_t head = HeadOf(node);
    return stopped_.meetings().count() > 0 && head < plan_.first[RankOf(node).value + 1] &&
           stopped_.meetings().Of(head) >= 0 && stopped_.HasCome(head);
  }

 private:
  // The receive of the value that the rank's next group lacks. It exists by the rule `dataflow`.
  std::vector<Wait> RankWaits(RankId rank) const {
    if (stopped_.LacksGather(rank)) return {{CollectivesOf(rank), stopped_.collected(rank)}};
    if (WaitsForRanks(rank.value)) return AbsentFrom(stopped_.cursor(rank));
    const auto [part, lacks] = Lack(rank);
    const uint32_t reader = stopped_.AwaitedReader(rank);
    if (reader != stopped_.cursor(rank)) return {{OwnLaneOf(rank), reader}};
    if (lacks == 0) return {};
    return WaitsForValue(rank, part, lacks);
  }

  // The waits of the rank's actions[part] for a value: for the receive that gives it, or for the
  // own action. One of them exists by the rule `dataflow`.
  std::vector<Wait> WaitsForValue(RankId rank, uint32_t part, Values lacks) const {
    const Action& action = plan_.actions[part];
    for (uint32_t i = stopped_.own_head(rank); i < part; ++i) {
      const Action& other = plan_.actions[i];
      if (IsOwnNetwork(other.kind) && other.stage == action.stage &&
          other.microbatch == action.microbatch && (EffectsOf(plan_, other).gives & lacks) != 0) {
        return {{OwnLaneOf(rank), i}};
      }
    }
    const ActionKind recv = lacks == kInput ? ActionKind::kRecvForward : ActionKind::kRecvBackward;
    for (uint32_t i = plan_.first[rank.value]; i < part; ++i) {
      const Action& other = plan_.actions[i];
      if (other.kind != recv || other.stage != action.stage ||
          other.microbatch != action.microbatch) {
        continue;
      }
      // Some of several inputs may be there.
      if (stopped_.live().IsAtEdge(*EdgeOf(plan_, other), other.microbatch, lacks)) continue;
      const int channel = stopped_.channels().Of(plan_, other);
      std::vector<Wait> waits = {{plan_.ranks() + stopped_.queues().of_recv[channel], i}};
      AddMaker(SenderOf(channel, i), &waits);
      return waits;
    }
    return {};
  }

  // The ranks that have not come to an own action of all ranks.
  std::vector<Wait> AbsentFrom(uint32_t member) const {
    std::vector<Wait> waits;
    const bool on_network = IsOwnNetwork(plan_.actions[member].kind);
    for (const uint32_t other : stopped_.meetings().of(stopped_.meetings().Of(member))) {
      const RankId rank = stringline::RankOf(plan_, plan_.actions[other]);
      if (!stopped_.HasCome(other)) {
        waits.push_back({on_network ? OwnLaneOf(rank) : rank.value, other});
      }
    }
    return waits;
  }

  std::vector<Wait> OwnLaneWaits(RankId rank) const {
    const uint32_t head = stopped_.own_head(rank);
    if (head >= plan_.first[rank.value + 1]) return {};
    if (head > stopped_.cursor(rank)) return {{rank.value, LastTurnBefore(rank.value, head)}};
    if (WaitsForRanks(OwnLaneOf(rank))) return AbsentFrom(head);
    const Values missing = stopped_.live().Missing(plan_.actions[head]);
    return missing == 0 ? std::vector<Wait>() : WaitsForValue(rank, head, LowestOf(missing));
  }

  // The rank's last computation or copy listed before the action.
  uint32_t LastTurnBefore(int rank, uint32_t before) const {
    while (before > plan_.first[rank] && !TakesTurn(plan_.actions[before].kind)) --before;
    return before;
  }

  std::vector<Wait> QueueWaits(int queue) const {
    const absl::Span<const uint32_t> parts = stopped_.head(queue);
    if (parts.empty()) return {};
    if (!stopped_.started(queue)) {
      // Waits for a computation listed before the call; its values come from such computations too.
      const int rank = stopped_.queues().all[queue].rank.value;
      return {{rank, LastTurnBefore(rank, parts.front())}};
    }
    std::vector<Wait> waits;
    for (const uint32_t part : parts) {
      const Wait wait = PartnerOf(part);
      if (wait.node < 0) continue;
      waits.push_back(wait);
      if (IsRecv(plan_.actions[part].kind)) AddMaker(wait.action, &waits);
    }
    return waits;
  }

  bool WaitsAtReduction(RankId rank) const {
    return stopped_.collected(rank) < stopped_.cursor(rank);
  }

  // The ranks that have not come to the reduction.
  std::vector<Wait> ReductionWaits(RankId rank) const {
    std::vector<Wait> waits;
    if (!WaitsAtReduction(rank)) return waits;
    const ReplicaReductions& reductions = stopped_.reductions();
    for (const auto& [action, comes] :
         reductions.of(reductions.of_action[stopped_.collected(rank)])) {
      const RankId other = plan_.stage(plan_.actions[action].stage).rank;
      if (!comes || (WaitsAtReduction(other) && stopped_.collected(other) == action)) continue;
      waits.push_back({WaitsAtReduction(other) ? CollectivesOf(other) : other.value, action});
    }
    return waits;
  }

  // The send matched by the receive.
  uint32_t SenderOf(int channel, uint32_t recv) const {
    const auto recvs = stopped_.recvs(channel);
    return stopped_.sends(
        channel)[std::lower_bound(recvs.begin(), recvs.end(), recv) - recvs.begin()];
  }

  // The computation that produces the value of `send`, if it has not ended.
  void AddMaker(uint32_t send, std::vector<Wait>* waits) const {
    const Action& sends = plan_.actions[send];
    const RankId rank = plan_.stage(sends.stage).rank;
    for (uint32_t i = stopped_.cursor(rank); i < send; ++i) {
      const Action& other = plan_.actions[i];
      if (other.stage == sends.stage && other.microbatch == sends.microbatch &&
          (EffectsOf(other.kind).gives & EffectsOf(sends.kind).needs) != 0) {
        waits->push_back({rank.value, i});
        return;
      }
    }
  }

  // The wait of a started part; none if it has ended.
  Wait PartnerOf(uint32_t part) const {
    const bool send = IsSend(plan_.actions[part].kind);
    const int channel = stopped_.channels().Of(plan_, plan_.actions[part]);
    const auto progress = stopped_.progress(channel);
    const auto own = send ? stopped_.sends(channel) : stopped_.recvs(channel);
    const auto others = send ? stopped_.recvs(channel) : stopped_.sends(channel);
    const auto k =
        static_cast<uint32_t>(std::lower_bound(own.begin(), own.end(), part) - own.begin());
    if (k < (send ? progress.sends_ended : progress.recvs_ended)) return {};
    // A buffered send waits for the receive that frees its slot.
    const uint32_t partner = send && buffers_ > 0 ? k - static_cast<uint32_t>(buffers_) : k;
    const auto& queues = stopped_.queues();
    return {plan_.ranks() + (send ? queues.of_recv : queues.of_send)[channel], others[partner]};
  }

  const Plan& plan_;
  const Replay& stopped_;
  const int buffers_;
  std::vector<std::vector<Wait>> waits_;
};

// Puts a cycle into words.
class CycleText {
 public:
  CycleText(const Plan& plan, const Replay& stopped, const WaitGraph& graph)
      : plan_(plan), stopped_(stopped), graph_(graph), cycle_(graph.Cycle()) {
    SL_CHECK(!cycle_.empty()) << "the replay stops without a cycle";
    // Begin with a computation if possible: a rank is seen to hang at a computation.
    const auto first = std::find_if(cycle_.begin(), cycle_.end(),
                                    [&](const auto& link) { return graph_.IsRank(link.first); });
    if (first != cycle_.end()) std::rotate(cycle_.begin(), first, cycle_.end());
  }

  void Report(Code code, const std::string& least_buffers, Diagnostics* diagnostics) const {
    const Action& head = plan_.actions[HeadPart(0)];
    Diagnostic& finding =
        diagnostics->Add(code, SpanOf(plan_, head),
                         absl::StrCat("rank ", graph_.RankOf(cycle_[0].first).value,
                                      " waits forever at ", Head(0), ": ", Reason(0)));
    finding.where = WhereOf(plan_, head);
    for (size_t i = 1; i < cycle_.size(); ++i) {
      finding.notes.push_back(NoteAt(plan_, plan_.actions[HeadPart(i)], Link(i)));
    }
    finding.notes.push_back({.text = Closing(), .has_place = false});
    if (!least_buffers.empty()) {
      finding.notes.push_back({.text = least_buffers, .has_place = false});
    }
  }

 private:
  int Node(size_t i) const { return cycle_[i % cycle_.size()].first; }
  const Wait& WaitOf(size_t i) const { return cycle_[i % cycle_.size()].second; }
  std::string Name(uint32_t action) const { return Print(plan_, plan_.actions[action]); }

  std::string Head(size_t i) const {
    const int node = Node(i);
    if (graph_.IsRank(node)) return PrintGroup(plan_, plan_.actions, graph_.HeadOf(node));
    if (graph_.Collects(node) || graph_.IsOwnLane(node)) return Name(graph_.HeadOf(node));
    std::string out;
    for (const uint32_t part : stopped_.head(graph_.QueueOf(node))) {
      absl::StrAppend(&out, out.empty() ? "" : "&", Name(part));
    }
    return out;
  }
  // The action whose line is marked in a message about the node.
  uint32_t HeadPart(size_t i) const {
    const int node = Node(i);
    return graph_.IsRank(node) ? graph_.Lack(RankId(node)).first : graph_.HeadOf(node);
  }

  // True if link i waits for a computation of another rank, whose value will be sent.
  bool IsForValue(size_t i) const {
    const int node = Node(i);
    if (!graph_.IsRank(Node(i + 1)) || graph_.Collects(node) || graph_.IsOwnLane(node) ||
        graph_.WaitsForRanks(node)) {
      return false;
    }
    return graph_.IsRank(node) || stopped_.started(graph_.QueueOf(node));
  }

  std::string Lack(int node) const {
    const auto [part, lacks] = graph_.Lack(RankId(node));
    const Action& action = plan_.actions[part];
    return Describe(plan_, action.stage, action.microbatch, lacks, &stopped_.live());
  }

  // ", which stands behind 3SEND_B0 in the queue of communicator 0-1": if the awaited action is not
  // at the head of its node.
  std::string Behind(size_t i) const {
    const int next = Node(i + 1);
    const uint32_t awaited = WaitOf(i).action;
    if (graph_.IsRank(next)) {
      const auto group = GroupAt(plan_.actions, graph_.HeadOf(next));
      const bool same =
          awaited >= graph_.HeadOf(next) && awaited < graph_.HeadOf(next) + group.size();
      return same ? "" : absl::StrCat(", which comes after ", Head(i + 1));
    }
    if (graph_.IsOwnLane(next) && awaited == graph_.HeadOf(next)) return "";
    if (graph_.Collects(next) || graph_.IsOwnLane(next)) {
      return absl::StrCat(", which comes after ", Head(i + 1));
    }
    const auto parts = stopped_.head(graph_.QueueOf(next));
    if (std::find(parts.begin(), parts.end(), awaited) != parts.end()) return "";
    return absl::StrCat(", which stands behind ", Head(i + 1), " in the queue of communicator ",
                        stopped_.queues().all[graph_.QueueOf(next)].communicator);
  }

  std::string Reason(size_t i) const {
    const int node = Node(i);
    const std::string awaited = Name(WaitOf(i).action);
    if (graph_.Collects(node) || graph_.WaitsForRanks(node)) {
      return absl::StrCat("rank ", graph_.RankOf(Node(i + 1)).value, " has still to come to ",
                          awaited, Behind(i));
    }
    if (graph_.IsRank(node) && graph_.Collects(Node(i + 1))) {
      return absl::StrCat("its parameters are gathered after ", awaited);
    }
    if (graph_.IsRank(node) && graph_.IsOwnLane(Node(i + 1)) &&
        graph_.Lack(RankId(node)).second == 0) {
      return absl::StrCat("it ends the life of what ", awaited, " reads", Behind(i));
    }
    if (graph_.IsRank(node)) {
      const std::string behind = IsForValue(i) ? "" : Behind(i);
      return absl::StrCat("it needs the ", Lack(node),
                          behind.empty() ? "" : absl::StrCat(", from ", awaited, behind));
    }
    if (graph_.IsOwnLane(node)) {
      return absl::StrCat(graph_.IsRank(Node(i + 1)) ? "it is listed after " : "it waits for ",
                          awaited, Behind(i));
    }
    if (!stopped_.started(graph_.QueueOf(node))) {
      return absl::StrCat("it is listed after ", awaited, Behind(i));
    }
    const int other = graph_.RankOf(Node(i + 1)).value;
    if (IsForValue(i)) return absl::StrCat("it has to be sent by rank ", other);
    const bool send = IsRecv(plan_.actions[WaitOf(i).action].kind);
    return absl::StrCat(send ? "it has to be received by rank " : "it has to be sent by rank ",
                        other, ", at ", awaited, Behind(i));
  }

  std::string Link(size_t i) const {
    const std::string rank = absl::StrCat("rank ", graph_.RankOf(Node(i)).value);
    if (!IsForValue(i - 1)) return absl::StrCat(rank, " waits at ", Head(i), ": ", Reason(i));
    return absl::StrCat(rank, " would send it after ", Name(WaitOf(i - 1).action),
                        ", but waits at ", Head(i), ": ", Reason(i));
  }

  // The link from the last node of the cycle to the first.
  std::string Closing() const {
    const std::string rank = absl::StrCat("rank ", graph_.RankOf(Node(0)).value);
    const size_t last = cycle_.size() - 1;
    if (!IsForValue(last)) {
      return absl::StrCat("that is where ", rank, " waits: this closes the cycle");
    }
    return absl::StrCat(rank, " would send it after ", Name(WaitOf(last).action), Behind(last),
                        ": this closes the cycle");
  }

  const Plan& plan_;
  const Replay& stopped_;
  const WaitGraph& graph_;
  std::vector<std::pair<int, Wait>> cycle_;
};

bool EndsWith(const Plan& plan, CommLayout layout, int buffers) {
  return Replay(plan, layout, buffers).Run();
}

// "safe only from k = 3 on: …", the least number of buffers with which the plan ends; "" if no
// number does.
std::string LeastBuffers(const Plan& plan, const CheckOptions& options) {
  int most = 1;
  for (const Action& action : plan.actions) most += IsSend(action.kind) ? 1 : 0;
  if (!EndsWith(plan, options.layout, most)) return "";
  int bad = options.buffers, good = most;
  for (int k = std::max(1, 2 * bad); k < good; k *= 2) {
    if (EndsWith(plan, options.layout, k)) {
      good = k;
    } else {
      bad = k;
    }
  }
  while (good - bad > 1) {
    const int middle = bad + (good - bad) / 2;
    (EndsWith(plan, options.layout, middle) ? good : bad) = middle;
  }
  return absl::StrCat("safe only from k = ", good, " on: with ", good,
                      good == 1 ? " buffered send" : " buffered sends", " a channel it ends");
}

}  // namespace

void FindCycle(const Plan& plan, const CheckOptions& options, Diagnostics* diagnostics) {
  Replay replay(plan, options.layout, options.buffers);
  if (replay.Run()) return;
  const WaitGraph graph(plan, replay, options.buffers);
  CycleText(plan, replay, graph).Report(Code::kProgress, LeastBuffers(plan, options), diagnostics);
}

void FindGatherCycle(const Plan& plan, const CheckOptions& options, Diagnostics* diagnostics) {
  Replay replay(plan, options.layout, options.buffers, Replay::Collectives::kPerformed);
  if (replay.Run()) return;
  const WaitGraph graph(plan, replay, options.buffers);
  CycleText(plan, replay, graph).Report(Code::kCollectives, "", diagnostics);
}

}  // namespace stringline
