// Runs a lowered plan until nothing can run: the deadlock check, whose model the simulator shares.
//
// The model is NCCL's at its strictest:
//
// - Every rank has a compute stream that performs its groups in the plan's order, and its copies
//   too: what is listed behind a copy waits for it or for nothing more. A group starts
//   when all needs of all its parts are live; the values it gives exist when it has ended.
// - Every rank has an in-order stream of calls for each communicator it uses (communicators.h). A
//   call is a send, a receive, or several joined by `&` (one call on each communicator they use).
//   It starts when the call before it has ended, the values of its sends exist, and every
//   computation that the rank lists before it has ended. Its parts go on independently, and the
//   call ends when all of them have.
// - The k-th send from a rank to another meets the k-th receive, whatever they carry. Without
//   buffers both end when both have started. With k buffers a send ends as long as fewer than k
//   messages of its channel are sent and not received; a receive ends when its message was sent.
// - Collectives never wait, unless asked for: then those of a rank follow each other, each when
//   everything listed before it has ended, a reduction of replicas ends when all ranks have come to
//   it (replica_reductions.h), and a group starts when the last UNSHARD of its stages has ended.
//
// - A schedule's own actions on the network (rows.h) are a stream of their own on each rank, like a
//   queue of calls. An action of all ranks, there or on the compute stream, begins when all ranks
//   have come to it with its needs live.
//
// The order in which ready streams run does not change the outcome: they form a Kahn network. Cost:
// linear in actions.
#pragma once

#include <vector>

#include "schedlang/plan/channels.h"
#include "schedlang/plan/communicators.h"
#include "schedlang/plan/effects.h"
#include "schedlang/plan/own_meetings.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/replica_reductions.h"

namespace stringline {

class Replay {
 public:
  enum class Collectives : uint8_t { kNeverWait, kPerformed };

  Replay(const Plan& plan, CommLayout layout = CommLayout::kEdge, int buffers = 0,
         Collectives collectives = Collectives::kNeverWait);

  // True when every action ran and the step is whole (effects.h).
  bool Run();

  // The state of a stopped replay, from which the cause of the stop can be explained.
  const Channels& channels() const { return channels_; }
  const CommQueues& queues() const { return queues_; }
  const LiveValues& live() const { return live_; }
  // Index of the next action of the compute stream of `rank` (a compute action, or the end of the
  // rank).
  uint32_t cursor(RankId rank) const { return cursor_[rank.value]; }
  // With performed collectives: the reduction at which the rank's collectives wait, or its cursor;
  // and true if the group at the rank's cursor waits for a gather behind that reduction.
  uint32_t collected(RankId rank) const {
    return collects_ ? collected_[rank.value] : cursor_[rank.value];
  }
  bool LacksGather(RankId rank) const;
  const ReplicaReductions& reductions() const { return reductions_; }
  // The parts of the call at the head of a queue, in order; empty when the queue has ended.
  absl::Span<const uint32_t> head(int queue) const {
    const Calls& calls = calls_[queue];
    if (calls.next + 1 == calls.first.size()) return {};
    return absl::MakeConstSpan(calls.parts)
        .subspan(calls.first[calls.next], calls.first[calls.next + 1] - calls.first[calls.next]);
  }
  // The own action at the head of the rank's network lane, or the end of the rank.
  uint32_t own_head(RankId rank) const {
    if (own_.empty()) return plan_.first[rank.value + 1];
    const size_t next = own_next_[static_cast<size_t>(rank.value)];
    return next == own_.size() || own_[next] >= plan_.first[rank.value + 1]
               ? plan_.first[rank.value + 1]
               : own_[next];
  }
  const OwnMeetings& meetings() const { return meetings_; }
  // The own action for whose reading the rank's next group waits; its cursor if for none.
  uint32_t AwaitedReader(RankId rank) const {
    const uint32_t i = cursor_[rank.value];
    const bool awaits =
        HasRows() && i < plan_.first[rank.value + 1] && read_until_[i] > own_head(rank);
    return awaits ? read_until_[i] - 1 : i;
  }
  bool HasCome(uint32_t member) const { return come_[member] != 0; }
  bool started(int queue) const { return calls_[queue].started; }
  // The progress of a channel: messages started and ended on both sides.
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
    uint32_t left = 0;  // parts of the started call that have not ended
    bool started = false;
  };

  bool InOneGroup(uint32_t earlier, uint32_t later) const;
  void Wake(int task);
  void PrepareOwn();
  void PrepareCollectives();
  void AdvanceRank(int rank);
  void AdvanceCollectives(int rank);
  void AdvanceOwn(int rank);
  bool HasRows() const { return !read_until_.empty(); }
  bool MeetsAt(uint32_t action);
  void AdvanceQueue(int queue);
  bool CanStart(int queue) const;
  void AdvanceChannel(int channel);
  void EndPart(int queue);
  bool Meet(uint32_t send, uint32_t recv) const {
    return Match(plan_, plan_.actions[send], plan_.actions[recv]);
  }
  bool Ended() const;

  const Plan& plan_;
  int buffers_;
  const Channels channels_;
  const CommQueues queues_;
  LiveValues live_;
  std::vector<uint32_t> cursor_;                  // by rank
  std::vector<ChannelEnds> ends_;                 // by channel
  std::vector<Calls> calls_;                      // by queue
  std::vector<std::vector<int>> queues_of_rank_;  // by rank
  std::vector<int> ready_;                        // ranks, then queues at ranks() + queue
  std::vector<char> queued_;                      // by task: is in `ready_`
  bool lost_ = false;
  // State of performed collectives.
  bool collects_ = false;
  ReplicaReductions reductions_;
  std::vector<uint32_t> missing_;    // by reduction: ranks that have not come
  std::vector<uint32_t> collected_;  // by rank
  std::vector<char> came_;           // by rank: has come to the reduction at collected_
  std::vector<char> comes_;          // by action: its rank comes with this member
  // State of own actions, in a plan with rows.
  std::vector<uint32_t> own_;     // those on the network, by rank
  std::vector<size_t> own_next_;  // by rank: its next of them
  OwnMeetings meetings_;
  std::vector<uint32_t> absent_;  // by meeting: ranks that have not come
  std::vector<char> come_;        // by action: a member that has come
  // By action: one past the last own action on the network that reads what it releases; 0: none.
  std::vector<uint32_t> read_until_;
  // By action: one past the UNSHARD of its stage, of an UPDATE past its REDUCE_GRAD; 0: none.
  std::vector<uint32_t> gathered_;
};

// True if a step of the lowered plan ends well when ranks issue their actions in the plan's order:
// on each rank every action follows the producers of its needs, and the replay ends.
bool Ends(const Plan& lowered, CommLayout layout = CommLayout::kEdge, int buffers = 0);

}  // namespace stringline
