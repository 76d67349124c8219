// Time goes from one end of an action to the next. At each moment every action is asked, again and
// again, for its beginning, until none begins. No queue and no wiring could be wrong: every
// question is asked of the plan itself.
#include "tests/schedlang/slow_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "schedlang/plan/effects.h"

namespace stringline {
namespace {

class SlowModel {
 public:
  SlowModel(const Plan& plan, const CostModel& costs, CommLayout layout, int receive_buffers,
            const std::vector<ListedWait>* waits)
      : plan_(plan), costs_(costs), layout_(layout), buffers_(receive_buffers), waits_(waits) {
    const size_t n = plan.actions.size();
    times_.start_ns.assign(n, -1);
    times_.end_ns.assign(n, -1);
    posted_.assign(n, -1);
    free_.assign(n, -1);
    pieces_.resize(n);
    rank_.assign(n, 0);
    for (int r = 0; r < plan.ranks(); ++r) {
      for (uint32_t i = plan.first[r]; i < plan.first[r + 1]; ++i) rank_[i] = r;
    }
    for (uint32_t i = 0; i < n; ++i) {
      const Action& a = plan.actions[i];
      index_[{static_cast<int>(a.kind), a.stage.value, a.microbatch.value}] = i;
    }
  }

  SlowTimes Run() {
    std::vector<int64_t> moments = {0};
    while (!moments.empty() || !moving_.empty()) {
      now_ = NextEndOnLinks();
      if (!moments.empty())
        now_ = std::min(now_, *std::min_element(moments.begin(), moments.end()));
      moments.erase(std::remove(moments.begin(), moments.end(), now_), moments.end());
      AdvanceLinks(&moments);
      for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < plan_.actions.size(); ++i) moved = Try(i, &moments) || moved;
      }
    }
    times_.ends = std::all_of(times_.end_ns.begin(), times_.end_ns.end(),
                              [](int64_t end) { return end >= 0; });
    return times_;
  }

 private:
  // A message on a shared link, and its remaining part (in nanoseconds of the whole link).
  struct Shared {
    int32_t link;
    uint32_t one, other;
    double left;
    int64_t latency_ns;
  };

  double SharersOf(const Shared& message) const {
    double sharers = 0;
    for (const Shared& m : moving_) sharers += m.link == message.link ? 1 : 0;
    return sharers;
  }
  // The first exact end from link_ns_ on, and the index of the ending message.
  std::pair<double, size_t> FirstEnd() const {
    std::pair<double, size_t> first = {1e18, moving_.size()};
    for (size_t k = 0; k < moving_.size(); ++k) {
      first = std::min(first, {link_ns_ + moving_[k].left * SharersOf(moving_[k]), k});
    }
    return first;
  }
  static int64_t Whole(double ns) { return static_cast<int64_t>(std::ceil(ns - 1e-3)); }
  int64_t NextEndOnLinks() const { return moving_.empty() ? INT64_MAX : Whole(FirstEnd().first); }

  // Moves everything on, from end to end, up to now.
  void AdvanceLinks(std::vector<int64_t>* moments) {
    while (!moving_.empty()) {
      const auto [end, who] = FirstEnd();
      const bool ends = Whole(end) <= now_;
      const double until = ends ? end : static_cast<double>(now_);
      std::vector<double> shares;
      for (const Shared& m : moving_) shares.push_back((until - link_ns_) / SharersOf(m));
      for (size_t k = 0; k < moving_.size(); ++k) moving_[k].left -= std::max(0.0, shares[k]);
      link_ns_ = std::max(link_ns_, until);
      if (!ends) return;
      const Shared done = moving_[who];
      moving_.erase(moving_.begin() + static_cast<std::ptrdiff_t>(who));
      for (const uint32_t i : {done.one, done.other}) {
        free_[i] = Whole(end);
        times_.end_ns[i] = free_[i] + done.latency_ns;
        moments->push_back(times_.end_ns[i]);
      }
    }
    link_ns_ = std::max(link_ns_, static_cast<double>(now_));
  }

  bool Ended(int64_t end) const { return end >= 0 && end <= now_; }
  bool EndedAction(uint32_t i) const { return Ended(times_.end_ns[i]); }
  const Action& At(uint32_t i) const { return plan_.actions[i]; }
  int Find(ActionKind kind, StageId stage, MicrobatchId m) const {
    const auto found = index_.find({static_cast<int>(kind), stage.value, m.value});
    return found == index_.end() ? -1 : static_cast<int>(found->second);
  }

  // The send or receive at `stage`, with `peer` at its other end.
  int FindMessage(ActionKind kind, StageId stage, StageId peer, MicrobatchId m) const {
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      const Action& a = At(i);
      const bool is_other = !plan_.graph.is_chain() && StageId(a.other) != peer;
      if (a.kind == kind && a.stage == stage && a.microbatch == m && !is_other) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  bool Try(uint32_t i, std::vector<int64_t>* moments) {
    if (IsMessage(At(i).kind)) return TryMessage(i, moments);
    if (times_.end_ns[i] >= 0 || At(i).joined) return false;
    if (IsCollective(At(i).kind)) return TryCollective(i, moments);
    if (IsCopy(At(i).kind)) return TryCopy(i, moments);
    const auto group = GroupAt(plan_.actions, i);
    // The group before this group has ended.
    for (uint32_t k = i; k-- > plan_.first[rank_[i]];) {
      if (IsCompute(At(k).kind) && !EndedAction(k)) return false;
    }
    // All copies to the host that are listed before have ended: their memory is free.
    if (!AreCopied(i)) return false;
    if (!IsPastWaits(i)) return false;
    for (const Action& part : group) {
      if (!HasNeeds(part, i)) return false;
    }
    if (IsAlone(i)) {
      // The k-th piece needs the k-th bucket of the parameters.
      const int gather = GatherOf(At(i), i);
      const size_t k = pieces_[i].size();
      if (gather >= 0 && !HasPiece(static_cast<uint32_t>(gather), k)) return false;
      return TryPiece(i, GroupCost(costs_, group), moments);
    }
    const int64_t end = now_ + GroupCost(costs_, group);
    for (uint32_t k = i; k < i + group.size(); ++k) {
      times_.start_ns[k] = now_;
      times_.end_ns[k] = end;
    }
    moments->push_back(end);
    return true;
  }

  bool AreCopied(uint32_t until) const {
    for (uint32_t k = plan_.first[rank_[until]]; k < until; ++k) {
      if (At(k).kind == ActionKind::kOffload && !EndedAction(k)) return false;
    }
    return true;
  }

  // A copy follows those of its direction. A D begins as soon as its F has ended; a U when
  // everything listed before it has, but other U.
  bool TryCopy(uint32_t i, std::vector<int64_t>* moments) {
    const bool out = At(i).kind == ActionKind::kOffload;
    for (uint32_t k = plan_.first[rank_[i]]; k < i; ++k) {
      const bool same = At(k).kind == At(i).kind;
      const bool before = !out && (IsCompute(At(k).kind) || IsCopy(At(k).kind));
      const bool gives = At(k).kind == ActionKind::kForward && At(k).stage == At(i).stage &&
                         At(k).microbatch == At(i).microbatch;
      if ((same || before || gives) && !EndedAction(k)) return false;
    }
    times_.start_ns[i] = now_;
    times_.end_ns[i] = now_ + (out ? costs_.offload : costs_.fetch)[At(i).stage.value];
    moments->push_back(times_.end_ns[i]);
    return true;
  }

  // True when every wait listed before the action is over.
  bool IsPastWaits(uint32_t i) const {
    if (waits_ == nullptr) return true;
    return std::all_of(waits_->begin(), waits_->end(), [&](const ListedWait& wait) {
      return wait.rank.value != rank_[i] || wait.before > i || EndedAction(wait.until);
    });
  }

  // True when a rank that performs its list in order has come to the message.
  bool IsIssued(uint32_t message) const {
    for (uint32_t k = plan_.first[rank_[message]]; k < message && waits_ != nullptr; ++k) {
      if (IsCompute(At(k).kind) && !EndedAction(k)) return false;
    }
    return IsPastWaits(message);
  }

  bool HasNeeds(const Action& part, uint32_t group) const {
    const Values needs = EffectsOf(part.kind).needs;
    const auto arrived = [&](StageId from, ActionKind recv) {
      if (plan_.stage(from).rank == plan_.stage(part.stage).rank) return true;
      const int i = FindMessage(recv, part.stage, from, part.microbatch);
      return i >= 0 && EndedAction(static_cast<uint32_t>(i));
    };
    for (const Edge& edge : plan_.GraphOf(part.microbatch).edges()) {
      const bool leads_here = (needs & kInput) && edge.to == part.stage;
      const bool leaves = (needs & kOutGrad) && edge.from == part.stage;
      if (leads_here && !arrived(edge.from, ActionKind::kRecvForward)) return false;
      if (leaves && !arrived(edge.to, ActionKind::kRecvBackward)) return false;
    }
    const int brought = Find(ActionKind::kFetch, part.stage, part.microbatch);
    const bool reads =
        part.kind != ActionKind::kForward && part.kind != ActionKind::kWeightGradient;
    if (reads && brought >= 0 && !EndedAction(static_cast<uint32_t>(brought))) return false;
    const int gather = GatherOf(part, group);
    return gather < 0 || IsAlone(group) || EndedAction(static_cast<uint32_t>(gather));
  }

  // The stage's last collective before the group, if it is an UNSHARD; -1: it is none.
  int GatherOf(const Action& part, uint32_t group) const {
    for (uint32_t k = group; k-- > plan_.first[plan_.stage(part.stage).rank.value];) {
      if (At(k).stage != part.stage) continue;
      if (At(k).kind == ActionKind::kUnshard) return static_cast<int>(k);
      if (IsCollective(At(k).kind)) break;
    }
    return -1;
  }

  // The pieces of a collective, and of a computation alone on its rank.
  int64_t PiecesOf(uint32_t i) const {
    const auto s = static_cast<size_t>(At(i).stage.value);
    const bool cut = !costs_.parts.empty() && costs_.parts[s].layers > 0;
    return cut || costs_.buckets.empty() || plan_.chunks > 1 ? 1 : costs_.buckets[s];
  }
  bool IsAlone(uint32_t i) const {
    return !At(i).joined && GroupAt(plan_.actions, i).size() == 1 && plan_.chunks == 1;
  }
  bool HasPiece(uint32_t i, size_t k) const {
    return k < pieces_[i].size() && Ended(pieces_[i][k]);
  }

  // Begins the next piece, if the one before has ended: each takes the same, the first the rest.
  bool TryPiece(uint32_t i, int64_t all_ns, std::vector<int64_t>* moments) {
    const int64_t pieces = PiecesOf(i), each_ns = all_ns / pieces;
    std::vector<int64_t>& ends = pieces_[i];
    if (!ends.empty() && !Ended(ends.back())) return false;
    if (ends.empty()) times_.start_ns[i] = now_;
    ends.push_back(now_ + (ends.empty() ? all_ns - (pieces - 1) * each_ns : each_ns));
    moments->push_back(ends.back());
    if (static_cast<int64_t>(ends.size()) == pieces) times_.end_ns[i] = ends.back();
    return true;
  }

  // The computation before the reduction, if it is alone and gives its gradients; -1: none.
  int GiverOf(uint32_t reduce) const {
    for (uint32_t k = plan_.first[rank_[reduce]]; k < plan_.first[rank_[reduce] + 1]; ++k) {
      if (k != reduce && AreReducedTogether(k, reduce)) return -1;  // its rank adds up first
    }
    uint32_t k = reduce;
    while (k-- > plan_.first[rank_[reduce]]) {
      if (!IsCompute(At(k).kind)) continue;
      const bool gives = (EffectsOf(At(k).kind).gives & kWeightGrad) != 0;
      return gives && IsAlone(k) && At(k).stage == At(reduce).stage ? static_cast<int>(k) : -1;
    }
    return -1;
  }

  // True when the next bucket of the reduction has its gradients.
  bool HasGradients(uint32_t reduce) const {
    const int giver = GiverOf(reduce);
    return giver >= 0 && HasPiece(static_cast<uint32_t>(giver), pieces_[reduce].size());
  }

  bool TryCollective(uint32_t i, std::vector<int64_t>* moments) {
    const ActionKind kind = At(i).kind;
    const auto& costs = kind == ActionKind::kUnshard ? costs_.unshard : costs_.reduce;
    const bool free = kind == ActionKind::kReshard || costs.empty();
    int64_t cost_ns = free ? 0 : costs[At(i).stage.value];
    if (!IsTurnOf(i)) return false;
    if (kind == ActionKind::kReduceGrad && IsLastReplicaOfItsRank(i)) {
      for (uint32_t other = 0; other < plan_.actions.size(); ++other) {
        if (!AreReducedTogether(i, other)) continue;
        const bool has_begun = pieces_[other].size() > pieces_[i].size();
        if (IsLastReplicaOfItsRank(other) && !has_begun && !IsTurnOf(other)) return false;
        if (!free) cost_ns = std::max(cost_ns, costs[At(other).stage.value]);
      }
    } else if (kind == ActionKind::kReduceGrad) {
      cost_ns = 0;  // its rank has more to add up before anything is sent
    }
    if (kind == ActionKind::kReshard) {
      times_.start_ns[i] = times_.end_ns[i] = now_;
      return true;
    }
    return TryPiece(i, cost_ns, moments);
  }

  // Reductions of stages that are the same part of the model, in two pipes.
  bool AreReducedTogether(uint32_t a, uint32_t b) const {
    const auto part_of = [&](uint32_t i) {
      int part = 0;
      for (StageId s = At(i).stage; plan_.graph.Before(s).valid(); s = plan_.graph.Before(s)) {
        ++part;
      }
      return part;
    };
    if (At(a).kind != ActionKind::kReduceGrad || At(b).kind != ActionKind::kReduceGrad) {
      return false;
    }
    return a == b || (!plan_.pipes.empty() && part_of(a) == part_of(b));
  }

  bool IsLastReplicaOfItsRank(uint32_t i) const {
    for (uint32_t k = i + 1; k < plan_.first[rank_[i] + 1]; ++k) {
      if (AreReducedTogether(i, k)) return false;
    }
    return true;
  }

  // True when nothing on its own rank holds the collective up.
  bool IsTurnOf(uint32_t i) const {
    const ActionKind kind = At(i).kind;
    const uint32_t first = plan_.first[rank_[i]];
    // The collective follows the computation before it; a gather follows the last drop instead.
    uint32_t until = i;
    if (kind == ActionKind::kUnshard) {
      while (until > first && At(until).kind != ActionKind::kReshard) --until;
    }
    const bool by_bucket = kind == ActionKind::kReduceGrad && HasGradients(i);
    for (uint32_t k = first; k < until && !by_bucket; ++k) {
      if (IsCompute(At(k).kind) && !EndedAction(k)) return false;
    }
    for (uint32_t k = first; k < i && kind != ActionKind::kReshard; ++k) {
      if (IsCollective(At(k).kind) && At(k).kind != ActionKind::kReshard && !EndedAction(k)) {
        return false;
      }
    }
    return true;
  }

  // The key of the queue of the rank on which this message travels.
  std::tuple<int, int, bool> QueueOf(uint32_t i) const {
    const int peer = plan_.stage(PeerStage(plan_, At(i))).rank.value;
    if (layout_ == CommLayout::kShared) return {rank_[i], 0, false};
    if (layout_ == CommLayout::kUpDown)
      return {rank_[i], 0, IsSend(At(i).kind) == (peer > rank_[i])};
    return {rank_[i], peer, layout_ == CommLayout::kEdge && IsSend(At(i).kind)};
  }

  uint32_t OtherEnd(uint32_t i) const {
    static constexpr ActionKind kOther[] = {ActionKind::kRecvForward, ActionKind::kSendForward,
                                            ActionKind::kRecvBackward, ActionKind::kSendBackward};
    const int kind = static_cast<int>(At(i).kind) - static_cast<int>(ActionKind::kSendForward);
    return static_cast<uint32_t>(
        FindMessage(kOther[kind], PeerStage(plan_, At(i)), At(i).stage, At(i).microbatch));
  }

  bool CanPost(uint32_t i) const {
    const auto queue = QueueOf(i);
    for (uint32_t k = plan_.first[rank_[i]]; k < i; ++k) {
      if (IsMessage(At(k).kind) && QueueOf(k) == queue && !Ended(free_[k])) return false;
    }
    const Action& a = At(i);
    if (a.kind == ActionKind::kSendForward) {
      return EndedAction(static_cast<uint32_t>(Find(ActionKind::kForward, a.stage, a.microbatch)));
    }
    if (a.kind == ActionKind::kSendBackward) {
      const int whole = Find(ActionKind::kBackward, a.stage, a.microbatch);
      const int input = Find(ActionKind::kInputGradient, a.stage, a.microbatch);
      return EndedAction(static_cast<uint32_t>(whole >= 0 ? whole : input));
    }
    return HasBuffer(i);
  }

  // Fewer values than buffers are received before `recv` in the list and not used yet.
  bool HasBuffer(uint32_t recv) const {
    int held = 0;
    for (uint32_t k = plan_.first[rank_[recv]]; k < recv; ++k) {
      if (IsRecv(At(k).kind) && !EndedAction(UserOf(At(k)))) ++held;
    }
    return buffers_ == 0 || held < buffers_;
  }

  uint32_t UserOf(const Action& recv) const {
    if (recv.kind == ActionKind::kRecvForward) {
      return static_cast<uint32_t>(Find(ActionKind::kForward, recv.stage, recv.microbatch));
    }
    const int whole = Find(ActionKind::kBackward, recv.stage, recv.microbatch);
    const int input = Find(ActionKind::kInputGradient, recv.stage, recv.microbatch);
    return static_cast<uint32_t>(whole >= 0 ? whole : input);
  }

  bool TryMessage(uint32_t i, std::vector<int64_t>* moments) {
    if (posted_[i] >= 0 || !IsIssued(i) || !CanPost(i)) return false;
    posted_[i] = now_;
    const uint32_t other = OtherEnd(i);
    if (posted_[other] < 0) return true;
    const Hop hop = HopOf(plan_, costs_, At(IsSend(At(i).kind) ? i : other));
    if (hop.link >= 0) {
      times_.start_ns[i] = times_.start_ns[other] = now_;
      moving_.push_back({hop.link, i, other, static_cast<double>(hop.transfer_ns), hop.latency_ns});
      if (hop.transfer_ns == 0) moments->push_back(now_);
      return true;
    }
    for (const uint32_t end : {i, other}) {
      times_.start_ns[end] = now_;
      times_.end_ns[end] = now_ + hop.transfer_ns + hop.latency_ns;
      free_[end] = now_ + hop.transfer_ns;
      moments->push_back(free_[end]);
      moments->push_back(times_.end_ns[end]);
    }
    return true;
  }

  const Plan& plan_;
  const CostModel& costs_;
  const CommLayout layout_;
  const int buffers_;
  const std::vector<ListedWait>* const waits_;
  SlowTimes times_;
  std::vector<int64_t> posted_, free_;  // by message: the start, and the time of leaving its queue
  std::vector<std::vector<int64_t>> pieces_;  // by action: the ends of its pieces so far
  std::vector<int> rank_;                     // by action
  std::map<std::tuple<int, int, int>, uint32_t> index_;
  std::vector<Shared> moving_;
  double link_ns_ = 0;  // up to when moving_ is advanced
  int64_t now_ = 0;
};

}  // namespace

SlowTimes RunSlowly(const Plan& lowered, const CostModel& costs, CommLayout layout,
                    int receive_buffers, const std::vector<ListedWait>* waits) {
  return SlowModel(lowered, costs, layout, receive_buffers, waits).Run();
}

}  // namespace stringline
