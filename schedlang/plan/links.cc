// A pass down each rank's list tracks the producer of every value and ties each action to its
// producers. Then the k-th send of a channel gets the k-th receive as its other end. Reductions and
// receive buffers are tied last.
#include "schedlang/plan/links.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "schedlang/base/kept_memory.h"
#include "schedlang/base/threads.h"
#include "schedlang/plan/buckets.h"
#include "schedlang/plan/channels.h"
#include "schedlang/plan/effects.h"
#include "schedlang/plan/replica_reductions.h"

namespace stringline {
namespace {

constexpr ActionKinds SetOfAll(bool (*is)(ActionKind)) {
  ActionKinds all = 0;
  for (int kind = 0; kind < kActionKinds; ++kind) {
    if (is(static_cast<ActionKind>(kind))) all |= SetOf(static_cast<ActionKind>(kind));
  }
  return all;
}
constexpr ActionKinds kCollectives = SetOfAll(IsCollective);
constexpr ActionKinds kCopies = SetOfAll(IsCopy);

class Wirer {
 public:
  Wirer(const Plan& plan, CommLayout layout)
      : plan_(plan),
        channels_(ChannelsOf(plan)),
        made_(plan.stages.size() * static_cast<size_t>(plan.microbatches)),
        inputs_(plan.graph.edges().size() * static_cast<size_t>(plan.microbatches), kNoAction),
        gradients_(inputs_),
        gathered_(plan.stages.size(), kNoAction),
        reduced_(gathered_),
        updated_(gathered_),
        channels_alone_(layout == CommLayout::kEdge),
        sends_(channels_.all.size()),
        recvs_(channels_.all.size()) {
    wiring_.layout = layout;
    wiring_.queues = QueuesOf(channels_, layout);
    ReserveOnCores(plan.actions.size(), &wiring_.wires);
    wiring_.wires.resize(plan.actions.size());
  }

  Wiring Run(int receive_buffers) {
    CountCalls();
    // Ranks share what they know only of edges that are no chain's, and of rows.
    const bool apart = plan_.graph.is_chain() && plan_.rows.actions.empty();
    ForEachOnCores(plan_.ranks(), apart ? plan_.actions.size() : 0,
                   [this](int rank) { WireRank(rank); });
    if (!plan_.rows.actions.empty()) {
      WireOwnNeeds();
    } else if (!more_messages_.empty()) {
      WireMoreMessages();
    }
    Pair();
    WireReductions();
    if (kinds_ & kCollectives) wiring_.meeters = MeetersOfBuckets(plan_, wiring_);
    if (receive_buffers > 0) BoundBuffers(static_cast<size_t>(receive_buffers));
    wiring_.whole = whole_;
    wiring_.straight = whole_ && !groups_messages_ && wiring_.layout == CommLayout::kEdge &&
                       receive_buffers == 0 && plan_.rows.actions.empty();
    return std::move(wiring_);
  }

 private:
  // The producers so far of a stage's and microbatch's values on its rank.
  struct Made {
    uint32_t forward = kNoAction;
    uint32_t backward = kNoAction;  // B or I
    uint32_t saved = kNoAction;     // F, R or U: of what the stage saves, or keeps for R
    uint32_t hosted = kNoAction;    // D
  };

  // The last copies of a rank so far: from its device, to it, and of those that freed its memory.
  struct Copies {
    uint32_t out = kNoAction, in = kNoAction, freed = kNoAction;
  };

  Made& MadeOf(StageId stage, MicrobatchId m) {
    return made_[static_cast<size_t>(stage.value) * plan_.microbatches + m.value];
  }
  size_t AtEdge(const Edge& edge, MicrobatchId m) const {
    return static_cast<size_t>(edge.id) * plan_.microbatches + m.value;
  }
  bool Lives(StageId stage, int rank) const { return plan_.stage(stage).rank.value == rank; }

  // The queue of a message of the channel.
  int QueueOf(int channel, bool send) const {
    return (send ? wiring_.queues.of_send : wiring_.queues.of_recv)[static_cast<size_t>(channel)];
  }

  void CountCalls() {
    const size_t queues = wiring_.queues.all.size();
    wiring_.first_call.assign(queues + 1, 0);
    ForEachOnCores(plan_.ranks(), plan_.actions.size(), [this](int rank) { CountCallsOf(rank); });
    if (kinds_ & kCopies) wiring_.copies.resize(plan_.actions.size());
    for (size_t q = 0; q < queues; ++q) wiring_.first_call[q + 1] += wiring_.first_call[q];
    wiring_.calls.resize(wiring_.first_call.back());
    filled_.assign(wiring_.first_call.begin(), wiring_.first_call.end() - 1);
    SortQueues();
  }

  void CountCallsOf(int rank) {
    ActionKinds kinds = 0;
    bool groups_messages = false;
    for (const Action& action : plan_.of(RankId(rank))) {
      kinds |= SetOf(action.kind);
      if (!IsMessage(action.kind)) continue;
      groups_messages |= action.joined;
      const int channel = channels_.Of(plan_, action);
      if (channel >= 0) ++wiring_.first_call[QueueOf(channel, IsSend(action.kind)) + 1];
    }
    kinds_ |= kinds;
    if (groups_messages) groups_messages_ = true;
  }

  // Queues by rank, those of a rank in their order: a counting sort.
  void SortQueues() {
    const std::vector<CommQueue>& queues = wiring_.queues.all;
    const auto ranks = static_cast<size_t>(plan_.ranks());
    wiring_.first_queue.assign(ranks + 1, 0);
    for (const CommQueue& queue : queues) ++wiring_.first_queue[queue.rank.value + 1];
    for (size_t r = 0; r < ranks; ++r) wiring_.first_queue[r + 1] += wiring_.first_queue[r];
    std::vector<uint32_t> ends(wiring_.first_queue.begin(), wiring_.first_queue.end() - 1);
    wiring_.rank_queues.resize(queues.size());
    for (size_t q = 0; q < queues.size(); ++q) {
      wiring_.rank_queues[ends[queues[q].rank.value]++] = static_cast<int32_t>(q);
    }
  }

  void WireRank(int rank) {
    uint32_t group = kNoAction, collective = kNoAction, dropped = kNoAction, own = kNoAction;
    Copies copies;
    for (uint32_t i = plan_.first[rank]; i < plan_.first[rank + 1];) {
      const Action& action = plan_.actions[i];
      if (IsMessage(action.kind)) {
        WireMessage(i++);
      } else if (IsCopy(action.kind)) {
        WireCopy(i++, group, &copies);
      } else if (IsOwnNetwork(action.kind)) {
        wiring_.wires[i].before = std::exchange(own, i);
        ++i;
      } else if (IsCollective(action.kind)) {
        Wire& wire = wiring_.wires[i];
        const bool gathers = action.kind == ActionKind::kUnshard;
        const bool drops = action.kind == ActionKind::kReshard;
        wire.before = drops ? kNoAction : std::exchange(collective, i);
        wire.after = gathers ? LaterOf(dropped, updated_[action.stage.value]) : group;
        if (drops) dropped = group;
        gathered_[action.stage.value] = gathers ? i : kNoAction;
        if (action.kind == ActionKind::kReduceGrad) {
          // A rank sums the gradients of its replicas with the last of their REDUCE_GRADs.
          ForReplicasOnRank(plan_, action.stage,
                            [&](StageId replica) { reduced_[replica.value] = i; });
        }
        ++i;
      } else {
        const uint32_t begin = i;
        const auto parts = GroupAt(absl::MakeConstSpan(plan_.actions), begin);
        for (; i < begin + parts.size(); ++i) WireComputation(rank, i, group, copies);
        for (uint32_t k = begin; k < i; ++k) Make(k);
        group = begin;
      }
    }
  }

  void WireComputation(int rank, uint32_t i, uint32_t before, const Copies& copies) {
    const Action& action = plan_.actions[i];
    const Values needs = EffectsOf(plan_, action).needs;
    Wire& wire = wiring_.wires[i];
    wire.before = before;
    if (!wiring_.copies.empty()) wiring_.copies[i].freed = copies.freed;
    if (IsOwn(action.kind)) return;
    if (action.kind == ActionKind::kUpdate) {
      wire.gathered = std::exchange(reduced_[action.stage.value], kNoAction);
      updated_[action.stage.value] = i;
      return;
    }
    const Made& own = MadeOf(action.stage, action.microbatch);
    wire.gathered = gathered_[action.stage.value];
    if (needs & kInput) {
      for (const Edge& edge : plan_.GraphOf(action.microbatch).In(action.stage)) {
        if (Lives(edge.from, rank)) {
          Need(MadeOf(edge.from, action.microbatch).forward);
        } else {
          NeedMessage(i, inputs_[AtEdge(edge, action.microbatch)], &wire.input);
        }
      }
    }
    if (needs & kOutGrad) {
      const auto edges = plan_.GraphOf(action.microbatch).Out(action.stage);
      if (edges.empty()) Need(LossIsGiven() ? i : own.forward);
      for (const Edge& edge : edges) {
        if (Lives(edge.to, rank)) {
          Need(MadeOf(edge.to, action.microbatch).backward);
        } else {
          NeedMessage(i, gradients_[AtEdge(edge, action.microbatch)], &wire.gradient);
        }
      }
    }
    if (needs & (kSaved | kKept)) NeedSaved(i, own.saved);
    if (needs & kStash) Need(own.backward);
  }

  // The computation takes what `recv` brings. Its wire has room for one of its messages each way.
  void NeedMessage(uint32_t i, uint32_t recv, uint32_t* wire) {
    Need(recv);
    if (*wire == kNoAction) {
      *wire = recv;
    } else if (recv != kNoAction) {
      more_messages_.emplace_back(i, recv);
    }
  }

  bool LossIsGiven() const { return (plan_.rows.given() & kOutGrad) != 0; }

  // The later one in a rank's list; either may be none.
  static uint32_t LaterOf(uint32_t a, uint32_t b) {
    return a == kNoAction || b == kNoAction ? std::min(a, b) : std::max(a, b);
  }

  void Make(uint32_t i) {
    const Action& action = plan_.actions[i];
    if (action.kind == ActionKind::kUpdate) return;
    Made& made = MadeOf(action.stage, action.microbatch);
    if (action.kind == ActionKind::kForward) made.forward = i;
    const Values gives = EffectsOf(plan_, action).gives;
    if (gives & (kSaved | kKept)) made.saved = i;
    if (gives & kInGrad) made.backward = i;
  }

  // `giver` gave the values that the stage saved: a computation before this one, or a U.
  void NeedSaved(uint32_t i, uint32_t giver) {
    Need(giver);
    if (giver == kNoAction || plan_.actions[giver].kind != ActionKind::kFetch) return;
    wiring_.copies[i].source = giver;
  }

  // `group`: the last computation before.
  void WireCopy(uint32_t i, uint32_t group, Copies* copies) {
    const Action& action = plan_.actions[i];
    Made& made = MadeOf(action.stage, action.microbatch);
    CopyWire& copy = wiring_.copies[i];
    const bool out = CopiesOut(action.kind);
    wiring_.wires[i].before = std::exchange(out ? copies->out : copies->in, i);
    if (!out) {
      copy.freed = copies->freed;
      copy.after = group;
    }
    const Effects& effects = EffectsOf(plan_, action);
    if (action.kind == ActionKind::kOffload) {
      copy.source = std::exchange(made.saved, kNoAction);
      made.hosted = i;
    } else if (action.kind == ActionKind::kFetch) {
      copy.source = made.hosted;
      made.saved = i;
    } else if (effects.gives & (kSaved | kKept)) {
      made.saved = i;
    }
    if (effects.releases & kOnDevice) copies->freed = i;
    if (!IsOwn(action.kind)) Need(copy.source);
  }

  // The messages of computations that take several: in the order of the lists.
  void WireMoreMessages() {
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      wiring_.first_further_need.push_back(static_cast<uint32_t>(wiring_.further_needs.size()));
      AddMoreMessages(i);
    }
    wiring_.first_further_need.push_back(static_cast<uint32_t>(wiring_.further_needs.size()));
    wiring_.meetings = OwnMeetingsOf(plan_);
  }

  void AddMoreMessages(uint32_t i) {
    while (next_message_ < more_messages_.size() && more_messages_[next_message_].first == i) {
      wiring_.further_needs.push_back(more_messages_[next_message_++].second);
    }
  }

  // A second pass over the lists of a plan with rows: the last giver of every value on its rank,
  // and its readers, for which the end of its life waits. What runs on one lane needs no further
  // wire.
  void WireOwnNeeds() {
    std::map<std::tuple<int32_t, int32_t, Values>, uint32_t> givers;
    OwnReaders readers;
    for (uint32_t i = 0, rank = 0; i < plan_.actions.size(); ++i) {
      for (; i >= plan_.first[rank + 1]; ++rank) {
        givers.clear();
        readers.clear();
      }
      wiring_.first_further_need.push_back(static_cast<uint32_t>(wiring_.further_needs.size()));
      const Action& action = plan_.actions[i];
      if (!IsOfMicrobatch(action.kind)) continue;
      AddMoreMessages(i);
      const Effects& effects = EffectsOf(plan_, action);
      const auto at = [&](Values value) -> uint32_t& {
        return givers.try_emplace({action.stage.value, action.microbatch.value, value}, kNoAction)
            .first->second;
      };
      const auto wait_for = [&](uint32_t other) {
        const ActionKind kind = plan_.actions[other].kind;
        if (!IsOwn(kind) && !IsOwn(action.kind)) return;
        if (IsCompute(kind) && IsCompute(action.kind)) return;
        wiring_.further_needs.push_back(other);
      };
      ForEachSetOf(effects.needs, [&](Values value) {
        const uint32_t giver = at(value);
        // The values that no action gives are the data, and the neighbour's on the same rank.
        if (giver != kNoAction) wait_for(giver);
      });
      ForReadersOfReleased(plan_, i, &readers, wait_for);
      ForEachSetOf(effects.gives, [&](Values value) { at(value) = i; });
      if (action.kind == ActionKind::kForward && !LossIsGiven()) at(kOutGrad) = i;
    }
    wiring_.first_further_need.push_back(static_cast<uint32_t>(wiring_.further_needs.size()));
    wiring_.meetings = OwnMeetingsOf(plan_);
  }

  void WireMessage(uint32_t i) {
    const Action& action = plan_.actions[i];
    const int channel = channels_.Of(plan_, action);
    if (channel < 0) {
      whole_ = false;
      return;
    }
    Wire& wire = wiring_.wires[i];
    const bool send = IsSend(action.kind);
    const int queue = QueueOf(channel, send);
    wire.queue = static_cast<uint32_t>(queue);
    uint32_t& end = filled_[queue];
    if (end > wiring_.first_call[queue]) {
      const uint32_t before = wiring_.calls[end - 1];
      wire.before = SameCall(before, i) ? wiring_.wires[before].before : before;
    }
    wiring_.calls[end++] = i;
    if (send) {
      const Made& made = MadeOf(action.stage, action.microbatch);
      wire.maker = action.kind == ActionKind::kSendForward ? made.forward : made.backward;
      Need(wire.maker);
    } else {
      const bool forward = action.kind == ActionKind::kRecvForward;
      (forward ? inputs_ : gradients_)[AtEdge(*EdgeOf(plan_, action), action.microbatch)] = i;
    }
    if (!channels_alone_) (send ? sends_ : recvs_)[static_cast<size_t>(channel)].push_back(i);
  }

  // The sends of a channel, or its receives, in order.
  absl::Span<const uint32_t> MessagesOf(int channel, bool send) const {
    if (channels_alone_) return wiring_.of(QueueOf(channel, send));
    return (send ? sends_ : recvs_)[static_cast<size_t>(channel)];
  }

  // True if the message at i belongs to the grouped call of the message at `before`.
  bool SameCall(uint32_t before, uint32_t i) const {
    for (; i > before; --i) {
      if (!plan_.actions[i].joined) return false;
    }
    return true;
  }

  void Need(uint32_t action) {
    if (action == kNoAction) whole_ = false;
  }

  void Pair() {
    const auto channels = static_cast<int>(channels_.all.size());
    ForEachOnCores(channels, plan_.actions.size(), [this](int channel) {
      const auto sends = MessagesOf(channel, true), recvs = MessagesOf(channel, false);
      if (sends.size() != recvs.size()) whole_ = false;
      for (size_t k = 0; k < std::min(sends.size(), recvs.size()); ++k) {
        const uint32_t send = sends[k], recv = recvs[k];
        wiring_.wires[send].other = recv;
        wiring_.wires[recv].other = send;
        if (!Match(plan_, plan_.actions[send], plan_.actions[recv])) whole_ = false;
      }
    });
  }

  void WireReductions() {
    ReplicaReductions reductions = ReplicaReductionsOf(plan_);
    for (int k = 0; k < reductions.count(); ++k) {
      uint32_t last = kNoAction;  // the rank's
      const auto members = reductions.of(k);
      for (size_t m = members.size(); m-- > 0;) {
        Wire& wire = wiring_.wires[members[m].action];
        wire.meeting = static_cast<uint32_t>(k);
        if (members[m].comes) {
          last = members[m].action;
        } else {
          wire.comes_with = last;
        }
      }
    }
    wiring_.reductions = std::move(reductions);
  }

  void BoundBuffers(size_t buffers) {
    std::vector<uint32_t> user(plan_.actions.size(), kNoAction);
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      if (!IsCompute(plan_.actions[i].kind)) continue;
      const Wire& wire = wiring_.wires[i];
      if (wire.input != kNoAction) user[wire.input] = i;
      if (wire.gradient != kNoAction) user[wire.gradient] = i;
    }
    for (const auto& [computation, recv] : more_messages_) user[recv] = computation;
    for (int r = 0; r < plan_.ranks(); ++r) {
      // Users end in list order. A receive has room when all but buffers - 1 of the users of
      // earlier receives have ended: `last` holds the latest users, the earliest on top.
      std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> last;
      for (uint32_t i = plan_.first[r]; i < plan_.first[r + 1]; ++i) {
        if (!IsRecv(plan_.actions[i].kind)) continue;
        if (last.size() == buffers) wiring_.wires[i].room = last.top();
        last.push(user[i]);
        if (last.size() > buffers) last.pop();
      }
    }
  }

  const Plan& plan_;
  const Channels channels_;
  Wiring wiring_;
  std::vector<Made> made_;  // by stage and microbatch
  // By edge and microbatch, the receives of what comes over the edge, and of its gradient.
  std::vector<uint32_t> inputs_, gradients_;
  // Computations, each with a receive that its wire has no room for.
  std::vector<std::pair<uint32_t, uint32_t>> more_messages_;
  size_t next_message_ = 0;         // of these
  std::vector<uint32_t> gathered_;  // by stage: the UNSHARD that holds, on its rank
  std::vector<uint32_t> reduced_;   // by stage: the REDUCE_GRAD since its last UPDATE
  std::vector<uint32_t> updated_;   // by stage: its last UPDATE
  std::vector<uint32_t> filled_;    // by queue: the end of its calls so far
  // True if each queue holds one end of one channel. Else the sends and receives, by channel.
  const bool channels_alone_;
  std::vector<std::vector<uint32_t>> sends_, recvs_;
  std::atomic<ActionKinds> kinds_ = 0;
  std::atomic<bool> groups_messages_ = false;
  std::atomic<bool> whole_ = true;
};

}  // namespace

Wiring WiringOf(const Plan& lowered, CommLayout layout, int receive_buffers) {
  return Wirer(lowered, layout).Run(receive_buffers);
}

Wiring WiringAsWritten(const Plan& lowered, CommLayout layout, int receive_buffers,
                       std::vector<ListedWait> waits) {
  Wiring wiring = WiringOf(lowered, layout, receive_buffers);
  wiring.straight = false;
  wiring.waits = std::move(waits);
  wiring.listed.resize(lowered.actions.size());
  uint32_t wait = 0;
  const auto all_waits = static_cast<uint32_t>(wiring.waits.size());
  for (int r = 0; r < lowered.ranks(); ++r) {
    const auto is_mine = [&] { return wait < all_waits && wiring.waits[wait].rank.value == r; };
    uint32_t computation = kNoAction, first_wait = wait;
    for (uint32_t i = lowered.first[r]; i < lowered.first[r + 1]; ++i) {
      while (is_mine() && wiring.waits[wait].before <= i) ++wait;
      wiring.listed[i] = {computation, first_wait, wait};
      if (!IsCompute(lowered.actions[i].kind) || lowered.actions[i].joined) continue;
      computation = i;
      first_wait = wait;
    }
    while (is_mine()) ++wait;  // at the end of the rank they hold up nothing
  }
  return wiring;
}

}  // namespace stringline
