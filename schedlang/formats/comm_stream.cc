// Every rank goes on until it lacks something, every queue until its first call lacks its other
// end; when both ends are there, both queues get the time and go on. If all stops, reasons are
// followed from one that is stuck until one comes up a second time: that is the circle.
#include "schedlang/formats/comm_stream.h"

#include <algorithm>
#include <map>
#include <utility>

#include "schedlang/effects.h"

namespace stringline {
namespace {

constexpr int64_t kUnknown = -1;

// The in-order stream of one communicator on one rank.
struct MessageQueue {
  std::vector<uint32_t> calls;  // indices into plan.actions
  size_t head = 0;              // the first call that has not ended
  int64_t free_ns = 0;          // when the one before it ended
};

// Advances ranks and queues until none can go on. The order does not matter: what one of them waits
// for, nobody takes away.
class StreamClock {
 public:
  StreamClock(const Plan& plan, const std::vector<TorchWait>& waits, const CostModel& costs,
              CommLayout queues)
      : plan_(plan),
        waits_(waits),
        costs_(costs),
        cursor_(plan.first.begin(), plan.first.end() - 1),
        wait_(plan.ranks(), 0),
        now_ns_(plan.ranks(), 0),
        queue_of_(plan.actions.size(), -1),
        peer_of_(plan.actions.size(), 0),
        issued_ns_(plan.actions.size(), kUnknown),
        started_ns_(plan.actions.size(), kUnknown),
        input_ns_(plan.stages.size() * static_cast<size_t>(plan.microbatches), kUnknown),
        grad_ns_(input_ns_.size(), kUnknown),
        sent_forward_ns_(input_ns_.size(), kUnknown),
        sent_backward_ns_(input_ns_.size(), kUnknown) {
    for (size_t w = waits.size(); w-- > 0;) wait_[waits[w].rank.value] = w;
    matched_ = FormQueues(queues);
  }

  StreamRun Run() {
    if (!matched_) return run_;
    for (int r = 0; r < plan_.ranks(); ++r) ranks_to_do_.push_back(r);
    while (!ranks_to_do_.empty()) {
      const int rank = ranks_to_do_.back();
      ranks_to_do_.pop_back();
      AdvanceRank(rank);
      while (!queues_to_do_.empty()) {
        const int queue = queues_to_do_.back();
        queues_to_do_.pop_back();
        StartHead(queue);
      }
    }
    run_.ends = Ended();
    if (!run_.ends) FindCircle();
    return std::move(run_);
  }

 private:
  size_t Index(StageId stage, MicrobatchId m) const {
    return static_cast<size_t>(stage.value) * plan_.microbatches + m.value;
  }
  RankId RankOf(StageId stage) const { return plan_.stage(stage).rank; }

  // Puts every message into its queue and finds its other end: the k-th send from one rank to
  // another meets the k-th receive. False when they do not pair up.
  bool FormQueues(CommLayout layout) {
    std::map<std::pair<RankId, RankId>, std::vector<uint32_t>> sends, recvs;
    std::map<std::pair<RankId, int>, int> queue_of;  // of a rank, by what its messages share
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      const Action& action = plan_.actions[i];
      if (!IsMessage(action.kind)) continue;
      const StageId other = PeerStage(plan_, action);
      if (!other.valid()) return false;
      const RankId rank = RankOf(action.stage);
      const RankId peer = RankOf(other);
      const bool send = IsSend(action.kind);
      (send ? sends[{rank, peer}] : recvs[{peer, rank}]).push_back(i);
      int key = 0;
      if (layout == CommLayout::kPair) key = peer.value;
      if (layout == CommLayout::kEdge) key = 2 * peer.value + (send ? 1 : 0);
      const auto [queue, is_new] =
          queue_of.try_emplace({rank, key}, static_cast<int>(queues_.size()));
      if (is_new) queues_.emplace_back();
      queues_[queue->second].calls.push_back(i);
      queue_of_[i] = queue->second;
    }
    if (sends.size() != recvs.size()) return false;
    for (const auto& [edge, list] : sends) {
      const std::vector<uint32_t>& other = recvs[edge];
      if (list.size() != other.size()) return false;
      for (size_t k = 0; k < list.size(); ++k) {
        peer_of_[list[k]] = other[k];
        peer_of_[other[k]] = list[k];
      }
    }
    return true;
  }

  void AdvanceRank(int rank) {
    uint32_t& i = cursor_[rank];
    const uint32_t last = plan_.first[rank + 1];
    while (PassWaits(rank, i) && i < last) {
      const Action& action = plan_.actions[i];
      if (IsCompute(action.kind)) {
        const auto group = GroupAt(absl::MakeConstSpan(plan_.actions).subspan(0, last), i);
        if (!Compute(rank, group)) return;
        i += static_cast<uint32_t>(group.size());
        continue;
      }
      if (IsMessage(action.kind)) {
        issued_ns_[i] = now_ns_[rank];
        queues_to_do_.push_back(queue_of_[i]);
      }
      ++i;
    }
    run_.makespan_ns = std::max(run_.makespan_ns, now_ns_[rank]);
  }

  // Whether the rank's compute stream gets past the waits that stand before actions[before].
  bool PassWaits(int rank, uint32_t before) {
    for (size_t& w = wait_[rank];
         w < waits_.size() && waits_[w].rank.value == rank && waits_[w].before <= before; ++w) {
      const TorchWait& wait = waits_[w];
      if (wait.of == ActionKind::kReduceGrad) continue;
      const int64_t sent_ns = SentNs(wait.of)[Index(wait.stage, wait.microbatch)];
      if (sent_ns == kUnknown) return false;
      now_ns_[rank] = std::max(now_ns_[rank], sent_ns);
    }
    return true;
  }

  std::vector<int64_t>& SentNs(ActionKind send) {
    return send == ActionKind::kSendForward ? sent_forward_ns_ : sent_backward_ns_;
  }

  bool Compute(int rank, absl::Span<const Action> group) {
    int64_t start_ns = now_ns_[rank];
    for (const Action& part : group) {
      const Values needs = EffectsOf(part.kind).needs;
      const size_t i = Index(part.stage, part.microbatch);
      if ((needs & kInput) && plan_.stage(part.stage).previous.valid()) {
        if (input_ns_[i] == kUnknown) return false;
        start_ns = std::max(start_ns, input_ns_[i]);
      }
      if (needs & kOutGrad) {
        if (grad_ns_[i] == kUnknown) return false;
        start_ns = std::max(start_ns, grad_ns_[i]);
      }
    }
    now_ns_[rank] = start_ns + GroupCost(costs_, group);
    for (const Action& part : group) HandOn(part, now_ns_[rank]);
    return true;
  }

  // What an action gives to a stage of its own rank is there when it ends.
  void HandOn(const Action& part, int64_t end_ns) {
    const Values gives = EffectsOf(part.kind).gives;
    const Stage& stage = plan_.stage(part.stage);
    const auto is_local = [&](StageId other) {
      return other.valid() && RankOf(other) == stage.rank;
    };
    if ((gives & kOutput) && !stage.next.valid()) {
      grad_ns_[Index(part.stage, part.microbatch)] = end_ns;
    }
    if ((gives & kOutput) && is_local(stage.next)) {
      input_ns_[Index(stage.next, part.microbatch)] = end_ns;
    }
    if ((gives & kInGrad) && is_local(stage.previous)) {
      grad_ns_[Index(stage.previous, part.microbatch)] = end_ns;
    }
  }

  // Starts the queue's first call if it is issued; the message goes if its other end has started.
  void StartHead(int queue) {
    MessageQueue& q = queues_[queue];
    if (q.head == q.calls.size()) return;
    const uint32_t i = q.calls[q.head];
    if (issued_ns_[i] == kUnknown || started_ns_[i] != kUnknown) return;
    started_ns_[i] = std::max(q.free_ns, issued_ns_[i]);
    NoteHeld(q, i);
    const uint32_t peer = peer_of_[i];
    if (started_ns_[peer] == kUnknown) return;
    const int64_t end_ns = std::max(started_ns_[i], started_ns_[peer]) + costs_.hop;
    End(i, end_ns);
    End(peer, end_ns);
  }

  void NoteHeld(const MessageQueue& q, uint32_t send) {
    if (q.head == 0 || !IsSend(plan_.actions[send].kind)) return;
    const uint32_t before = q.calls[q.head - 1];
    const int64_t held_ns = started_ns_[send] - issued_ns_[send];
    if (!IsRecv(plan_.actions[before].kind) || held_ns == 0) return;
    // The first one of the longest, so that the answer does not depend on the order of events.
    const bool worse = !run_.worst || held_ns > run_.worst->held_ns ||
                       (held_ns == run_.worst->held_ns && send < run_.worst->send);
    if (worse) run_.worst = HeldSend{send, before, held_ns};
  }

  void End(uint32_t i, int64_t end_ns) {
    const Action& action = plan_.actions[i];
    MessageQueue& q = queues_[queue_of_[i]];
    ++q.head;
    q.free_ns = end_ns;
    queues_to_do_.push_back(queue_of_[i]);
    const size_t slot = Index(action.stage, action.microbatch);
    if (action.kind == ActionKind::kRecvForward) input_ns_[slot] = end_ns;
    if (action.kind == ActionKind::kRecvBackward) grad_ns_[slot] = end_ns;
    if (IsSend(action.kind)) SentNs(action.kind)[slot] = end_ns;
    run_.makespan_ns = std::max(run_.makespan_ns, end_ns);
    ranks_to_do_.push_back(RankOf(action.stage).value);
  }

  bool Ended() const {
    for (int r = 0; r < plan_.ranks(); ++r) {
      if (cursor_[r] != plan_.first[r + 1]) return false;
      const size_t w = wait_[r];
      if (w < waits_.size() && waits_[w].rank.value == r) return false;
    }
    return std::all_of(queues_.begin(), queues_.end(),
                       [](const MessageQueue& q) { return q.head == q.calls.size(); });
  }

  // What keeps the call or group at plan.actions[i] from going on, and the next one to ask.
  std::pair<Blocked::Why, uint32_t> ReasonOf(uint32_t i) const {
    const Action& action = plan_.actions[i];
    if (IsMessage(action.kind)) {
      if (started_ns_[i] != kUnknown) return {Blocked::Why::kOtherEnd, peer_of_[i]};
      const MessageQueue& q = queues_[queue_of_[i]];
      if (issued_ns_[i] != kUnknown) return {Blocked::Why::kQueue, q.calls[q.head]};
    }
    const int rank = RankOf(action.stage).value;
    const size_t w = wait_[rank];
    const uint32_t at = cursor_[rank];
    const bool waits = w < waits_.size() && waits_[w].rank.value == rank && waits_[w].before <= at;
    if (waits) return {Blocked::Why::kWait, CallOf(waits_[w].of, waits_[w])};
    if (IsMessage(action.kind)) return {Blocked::Why::kComputation, at};
    return {Blocked::Why::kNeeds, Lacking(i)};
  }

  // The receive that gives what the group at plan.actions[i] lacks; i itself if there is none.
  uint32_t Lacking(uint32_t i) const {
    for (const Action& part : GroupAt(plan_.actions, i)) {
      const Values needs = EffectsOf(part.kind).needs;
      const size_t slot = Index(part.stage, part.microbatch);
      if ((needs & kInput) && plan_.stage(part.stage).previous.valid() &&
          input_ns_[slot] == kUnknown) {
        return CallOf(ActionKind::kRecvForward, part, i);
      }
      if ((needs & kOutGrad) && grad_ns_[slot] == kUnknown) {
        return CallOf(ActionKind::kRecvBackward, part, i);
      }
    }
    return i;
  }

  template <typename Named>
  uint32_t CallOf(ActionKind kind, const Named& named, uint32_t otherwise = 0) const {
    const int rank = RankOf(named.stage).value;
    for (uint32_t i = plan_.first[rank]; i < plan_.first[rank + 1]; ++i) {
      const Action& action = plan_.actions[i];
      if (action.kind == kind && action.stage == named.stage &&
          action.microbatch == named.microbatch) {
        return i;
      }
    }
    return otherwise;
  }

  // Asks for reasons, from the first queue that is stuck on, until one comes up a second time.
  void FindCircle() {
    const auto stuck = std::find_if(queues_.begin(), queues_.end(),
                                    [](const MessageQueue& q) { return q.head < q.calls.size(); });
    if (stuck == queues_.end()) return;
    std::vector<Blocked> walk;
    std::map<uint32_t, size_t> place;
    for (uint32_t i = stuck->calls[stuck->head]; place.try_emplace(i, walk.size()).second;) {
      const auto [why, next] = ReasonOf(i);
      walk.push_back({i, why});
      i = next;
      const auto seen = place.find(i);
      if (seen != place.end()) {
        run_.circle.assign(walk.begin() + static_cast<std::ptrdiff_t>(seen->second), walk.end());
        return;
      }
    }
  }

  const Plan& plan_;
  const std::vector<TorchWait>& waits_;
  const CostModel& costs_;
  std::vector<uint32_t> cursor_;  // by rank: the first action its compute stream has not passed
  std::vector<size_t> wait_;      // by rank: its first wait not passed
  std::vector<int64_t> now_ns_;   // by rank: when its compute stream is free
  std::vector<MessageQueue> queues_;
  std::vector<int> queue_of_;        // by action
  std::vector<uint32_t> peer_of_;    // by action: the other end of the message
  std::vector<int64_t> issued_ns_;   // by action: when all computation before it had ended
  std::vector<int64_t> started_ns_;  // by action: when its queue had reached it, too
  std::vector<int64_t> input_ns_;    // by stage and microbatch: when it is there
  std::vector<int64_t> grad_ns_;
  std::vector<int64_t> sent_forward_ns_;
  std::vector<int64_t> sent_backward_ns_;
  bool matched_ = false;
  StreamRun run_;
  std::vector<int> ranks_to_do_;
  std::vector<int> queues_to_do_;
};

}  // namespace

StreamRun RunOnStreams(const Plan& lowered, const std::vector<TorchWait>& waits,
                       const CostModel& costs, CommLayout queues) {
  return StreamClock(lowered, waits, costs, queues).Run();
}

}  // namespace stringline
