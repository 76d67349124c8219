// Runs a lowered plan until nothing can run. Checking for deadlock and simulating both stand on it.
//
// Every rank has a compute stream that performs its groups in the plan's order, and every channel
// has a stream on either side, in order too. A group runs once all its needs are there; a send runs
// together with its receive (rendezvous). Who runs first among those that can does not change the
// outcome: the streams form a Kahn network. Cost: linear in actions.
#pragma once

#include <vector>

#include "schedlang/channels.h"
#include "schedlang/effects.h"
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
  Replay(const Plan& plan, Clock* clock)
      : plan_(plan),
        clock_(clock),
        channels_(ChannelsOf(plan)),
        live_(plan),
        cursor_(plan.first.begin(), plan.first.end() - 1),
        sends_(channels_.all.size()),
        recvs_(channels_.all.size()),
        done_(channels_.all.size(), 0) {
    for (uint32_t i = 0; i < plan.actions.size(); ++i) {
      const Action& action = plan.actions[i];
      if (!IsMessage(action.kind)) continue;
      const int channel = channels_.Of(plan, action);
      // A message to one's own rank, or to nobody, never goes: it blocks nothing but itself.
      if (channel < 0) {
        lost_ = true;
        continue;
      }
      (IsSend(action.kind) ? sends_ : recvs_)[channel].push_back(i);
    }
  }

  // True when every action ran and the step is whole (effects.h).
  bool Run() {
    std::vector<int> ready;  // ranks, then channels at ranks() + channel
    std::vector<char> queued(plan_.ranks() + channels_.all.size(), 1);
    for (int i = static_cast<int>(queued.size()) - 1; i >= 0; --i) ready.push_back(i);
    auto wake = [&](int task) {
      if (task < 0 || queued[task]) return;
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
        AdvanceChannel(task - plan_.ranks(), wake);
      }
    }
    return Ended();
  }

  // Index of the first action that the compute stream of `rank` has not performed (a compute
  // action, or the end of the rank).
  uint32_t cursor(RankId rank) const { return cursor_[rank.value]; }
  const LiveValues& live() const { return live_; }

 private:
  template <typename Wake>
  void AdvanceRank(int rank, Wake wake) {
    const uint32_t last = plan_.first[rank + 1];
    uint32_t& i = cursor_[rank];
    while (true) {
      while (i < last && !IsCompute(plan_.actions[i].kind)) ++i;
      if (i == last) return;
      const auto group = GroupAt(plan_.actions, i);
      for (size_t k = 0; k < group.size(); ++k) {
        if (live_.Missing(group, k) != 0) return;
      }
      clock_->Compute(i, i + static_cast<uint32_t>(group.size()));
      i += static_cast<uint32_t>(group.size());
      for (const Action& part : group) {
        live_.Perform(part);
        const Values gives = EffectsOf(part.kind).gives;
        if (gives & kOutput) WakeChannel(channels_.of_activation[part.stage.value], wake);
        if (gives & kInGrad) WakeChannel(channels_.of_gradient[part.stage.value], wake);
      }
    }
  }

  template <typename Wake>
  void WakeChannel(int channel, Wake wake) {
    if (channel >= 0) wake(plan_.ranks() + channel);
  }

  template <typename Wake>
  void AdvanceChannel(int channel, Wake wake) {
    const auto& sends = sends_[channel];
    const auto& recvs = recvs_[channel];
    uint32_t& k = done_[channel];
    const uint32_t before = k;
    for (; k < sends.size() && k < recvs.size(); ++k) {
      const Action& send = plan_.actions[sends[k]];
      const Action& recv = plan_.actions[recvs[k]];
      if (live_.Missing(send) != 0 || !Match(plan_, send, recv)) break;
      clock_->Transfer(channel, sends[k], recvs[k]);
      live_.Perform(send);
      live_.Perform(recv);
    }
    if (k != before) wake(channels_.all[channel].to.value);
  }

  bool Ended() const {
    for (int r = 0; r < plan_.ranks(); ++r) {
      if (cursor_[r] != plan_.first[r + 1]) return false;
    }
    for (size_t c = 0; c < done_.size(); ++c) {
      if (done_[c] != sends_[c].size() || done_[c] != recvs_[c].size()) return false;
    }
    return !lost_ && live_.Whole();
  }

  const Plan& plan_;
  Clock* clock_;
  const Channels channels_;
  LiveValues live_;
  std::vector<uint32_t> cursor_;              // by rank
  std::vector<std::vector<uint32_t>> sends_;  // by channel: indices of its actions, in order
  std::vector<std::vector<uint32_t>> recvs_;
  std::vector<uint32_t> done_;  // by channel: messages delivered
  bool lost_ = false;
};

// Whether a step of the lowered plan ends well when ranks issue their actions in the plan's order:
// every action stands after what gives its needs on its own rank, and the replay ends.
bool Ends(const Plan& lowered);

}  // namespace stringline
