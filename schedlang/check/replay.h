// Runs a lowered plan until nothing can run. Checking for deadlock and simulating both stand on it.
//
// The model, which is NCCL's at its strictest:
//
// - Every rank has a compute stream that performs its groups in the plan's order. A group starts
//   when all needs of all its parts are there; what it gives exists when it has ended.
// - Every rank has an in-order stream of calls for each communicator it uses (communicators.h). A
//   call is a send, a receive, or several joined by `&` (one call on each communicator they use).
//   It starts when the call before it has ended, the values of its sends exist, and every
//   computation that the rank lists before it has ended. Its parts go on independently, and it
//   ends when all of them have.
// - The k-th send from one rank to another meets the k-th receive, whatever they carry. Without
//   buffers both end when both have started. With k buffers a send ends as long as fewer than k
//   messages of its channel are sent and not received; a receive ends when its message was sent.
//
// Who runs first among those that can does not change the outcome: the streams form a Kahn network.
// Cost: linear in actions.
#pragma once

#include <algorithm>
#include <vector>

#include "schedlang/effects.h"
#include "schedlang/messages/channels.h"
#include "schedlang/messages/communicators.h"
#include "schedlang/plan.h"

namespace stringline {

// Watches a replay. A clock computes times in it; this one does nothing.
struct NoClock {
  // The group of parts actions[begin] .. actions[end - 1] runs.
  void Compute(uint32_t /*begin*/, uint32_t /*end*/) {}
  // actions[send] meets actions[recv] on `channel`.
  void Transfer(int /*channel*/, uint32_t /*send*/, uint32_t /*recv*/) {}
};

// Whether `recv` is what `send` is for.
inline bool Match(const Plan& plan, const Action& send, const Action& recv) {
  const bool kinds =
      (send.kind == ActionKind::kSendForward) == (recv.kind == ActionKind::kRecvForward);
  return kinds && recv.stage == PeerStage(plan, send) && recv.microbatch == send.microbatch;
}

template <typename Clock>
class Replay {
 public:
  Replay(const Plan& plan, Clock* clock, CommLayout layout = CommLayout::kEdge, int buffers = 0)
      : plan_(plan),
        clock_(clock),
        buffers_(buffers),
        channels_(ChannelsOf(plan)),
        queues_(QueuesOf(channels_, layout)),
        live_(plan),
        cursor_(plan.first.begin(), plan.first.end() - 1),
        ends_(channels_.all.size()),
        calls_(queues_.all.size()),
        queues_of_rank_(plan.ranks()) {
    for (size_t q = 0; q < queues_.all.size(); ++q) {
      queues_of_rank_[queues_.all[q].rank.value].push_back(static_cast<int>(q));
    }
    for (uint32_t i = 0; i < plan.actions.size(); ++i) {
      const Action& action = plan.actions[i];
      if (!IsMessage(action.kind)) continue;
      const int channel = channels_.Of(plan, action);
      // A message to one's own rank, or to nobody, never goes: it blocks nothing but itself.
      if (channel < 0) {
        lost_ = true;
        continue;
      }
      const bool send = IsSend(action.kind);
      (send ? ends_[channel].sends : ends_[channel].recvs).push_back(i);
      Calls& calls = calls_[send ? queues_.of_send[channel] : queues_.of_recv[channel]];
      // Joined to a part of the same queue: the same call.
      const bool joins = action.joined && !calls.parts.empty() && InOneGroup(calls.parts.back(), i);
      if (!joins) calls.first.push_back(static_cast<uint32_t>(calls.parts.size()));
      calls.parts.push_back(i);
    }
    for (Calls& calls : calls_) calls.first.push_back(static_cast<uint32_t>(calls.parts.size()));
  }

  // True when every action ran and the step is whole (effects.h).
  bool Run() {
    std::vector<int> ready;  // ranks, then queues at ranks() + queue
    std::vector<char> queued(plan_.ranks() + queues_.all.size(), 1);
    for (int i = static_cast<int>(queued.size()) - 1; i >= 0; --i) ready.push_back(i);
    auto wake = [&](int task) {
      if (queued[task]) return;
      queued[task] = 1;
      ready.push_back(task);
    };
    while (!ready.empty()) {
      const int task = ready.back();
      ready.pop_back();
      queued[task] = 0;
      if (task < plan_.ranks()) {
        AdvanceRank(task, wake);
      } else {
        AdvanceQueue(task - plan_.ranks(), wake);
      }
    }
    return Ended();
  }

  // What stands where, for whoever explains why a replay stopped.
  const Channels& channels() const { return channels_; }
  const CommQueues& queues() const { return queues_; }
  const LiveValues& live() const { return live_; }
  // Index of the first action that the compute stream of `rank` has not performed (a compute
  // action, or the end of the rank).
  uint32_t cursor(RankId rank) const { return cursor_[rank.value]; }
  // The parts of the call at the head of a queue, in order; empty when the queue has ended.
  absl::Span<const uint32_t> head(int queue) const {
    const Calls& calls = calls_[queue];
    if (calls.next + 1 == calls.first.size()) return {};
    return absl::MakeConstSpan(calls.parts)
        .subspan(calls.first[calls.next], calls.first[calls.next + 1] - calls.first[calls.next]);
  }
  bool started(int queue) const { return calls_[queue].started; }
  // How far a channel is: messages started and ended on both sides.
  struct Progress {
    uint32_t sends_started = 0, sends_ended = 0, recvs_started = 0, recvs_ended = 0;
  };
  Progress progress(int channel) const { return ends_[channel].progress; }
  // The channel's sends and receives, as indices of actions, in order.
  absl::Span<const uint32_t> sends(int channel) const { return ends_[channel].sends; }
  absl::Span<const uint32_t> recvs(int channel) const { return ends_[channel].recvs; }

 private:
  // The two ends of a channel.
  struct ChannelEnds {
    std::vector<uint32_t> sends;
    std::vector<uint32_t> recvs;
    Progress progress;
  };
  // The calls of a queue: call c has parts[first[c]] .. parts[first[c + 1] - 1].
  struct Calls {
    std::vector<uint32_t> parts;  // indices of actions
    std::vector<uint32_t> first;
    uint32_t next = 0;  // the call at the head
    uint32_t left = 0;  // its parts that have not ended, once it has started
    bool started = false;
  };

  bool InOneGroup(uint32_t earlier, uint32_t later) const {
    for (uint32_t i = earlier + 1; i <= later; ++i) {
      if (!plan_.actions[i].joined) return false;
    }
    return true;
  }

  template <typename Wake>
  void AdvanceRank(int rank, Wake wake) {
    const uint32_t last = plan_.first[rank + 1];
    uint32_t& i = cursor_[rank];
    const uint32_t before = i;
    while (true) {
      while (i < last && !IsCompute(plan_.actions[i].kind)) ++i;
      if (i == last) break;
      const auto group = GroupAt(plan_.actions, i);
      bool ready = true;
      for (size_t k = 0; ready && k < group.size(); ++k) ready = live_.Missing(group, k) == 0;
      if (!ready) break;
      clock_->Compute(i, i + static_cast<uint32_t>(group.size()));
      i += static_cast<uint32_t>(group.size());
      for (const Action& part : group) live_.Perform(part);
    }
    if (i == before) return;
    for (const int queue : queues_of_rank_[rank]) {
      if (!calls_[queue].started) wake(plan_.ranks() + queue);
    }
  }

  template <typename Wake>
  void AdvanceQueue(int queue, Wake wake) {
    Calls& calls = calls_[queue];
    while (!calls.started && CanStart(queue)) {
      calls.started = true;
      const absl::Span<const uint32_t> parts = head(queue);
      calls.left = static_cast<uint32_t>(parts.size());
      for (const uint32_t part : parts) {
        const Action& action = plan_.actions[part];
        Progress& progress = ends_[channels_.Of(plan_, action)].progress;
        ++(IsSend(action.kind) ? progress.sends_started : progress.recvs_started);
      }
      // The parts may end, and with them the call, while their channels go on.
      for (const uint32_t part : parts)
        AdvanceChannel(channels_.Of(plan_, plan_.actions[part]), wake);
    }
  }

  bool CanStart(int queue) const {
    const absl::Span<const uint32_t> parts = head(queue);
    if (parts.empty() || cursor_[queues_.all[queue].rank.value] < parts.front()) return false;
    for (const uint32_t part : parts) {
      if (live_.Missing(plan_.actions[part]) != 0) return false;
    }
    return true;
  }

  template <typename Wake>
  void AdvanceChannel(int channel, Wake wake) {
    ChannelEnds& ends = ends_[channel];
    Progress& at = ends.progress;
    while (true) {
      const bool room = buffers_ == 0 ? at.recvs_started > at.sends_ended
                                      : at.sends_ended - at.recvs_ended < Buffers();
      if (at.sends_ended < at.sends_started && room &&
          (buffers_ > 0 || Meet(ends.sends[at.sends_ended], ends.recvs[at.sends_ended]))) {
        live_.Perform(plan_.actions[ends.sends[at.sends_ended]]);
        ++at.sends_ended;
        EndPart(queues_.of_send[channel], wake);
      } else if (at.recvs_ended < std::min(at.recvs_started, at.sends_ended) &&
                 Meet(ends.sends[at.recvs_ended], ends.recvs[at.recvs_ended])) {
        clock_->Transfer(channel, ends.sends[at.recvs_ended], ends.recvs[at.recvs_ended]);
        live_.Perform(plan_.actions[ends.recvs[at.recvs_ended]]);
        ++at.recvs_ended;
        EndPart(queues_.of_recv[channel], wake);
        wake(channels_.all[channel].to.value);
      } else {
        return;
      }
    }
  }

  uint32_t Buffers() const { return static_cast<uint32_t>(buffers_); }
  bool Meet(uint32_t send, uint32_t recv) const {
    return Match(plan_, plan_.actions[send], plan_.actions[recv]);
  }

  template <typename Wake>
  void EndPart(int queue, Wake wake) {
    Calls& calls = calls_[queue];
    if (--calls.left > 0) return;
    calls.started = false;
    ++calls.next;
    wake(plan_.ranks() + queue);
  }

  bool Ended() const {
    for (int r = 0; r < plan_.ranks(); ++r) {
      if (cursor_[r] != plan_.first[r + 1]) return false;
    }
    for (const Calls& calls : calls_) {
      if (calls.next + 1 != calls.first.size()) return false;
    }
    return !lost_ && live_.Whole();
  }

  const Plan& plan_;
  Clock* clock_;
  int buffers_;
  const Channels channels_;
  const CommQueues queues_;
  LiveValues live_;
  std::vector<uint32_t> cursor_;                  // by rank
  std::vector<ChannelEnds> ends_;                 // by channel
  std::vector<Calls> calls_;                      // by queue
  std::vector<std::vector<int>> queues_of_rank_;  // by rank
  bool lost_ = false;
};

// Whether a step of the lowered plan ends well when ranks issue their actions in the plan's order:
// every action stands after what gives its needs on its own rank, and the replay ends.
bool Ends(const Plan& lowered, CommLayout layout = CommLayout::kEdge, int buffers = 0);

}  // namespace stringline
