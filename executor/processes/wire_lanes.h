// The lanes of messages, each from one member of a group to another, at least one of them in this
// process. On a lane are the ends that have come to it: sends and receives of this process, and
// receivers of other processes that are ready. The k-th send of a lane meets the k-th receive;
// whatever completes a message ends it at once.
//
// Ends that wait are also in one list, the oldest first: which is late, and what waits, is found
// without a look at lanes on which nothing does.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/engine/group.h"
#include "executor/processes/pooled_queues.h"
#include "executor/processes/process_names.h"
#include "executor/processes/wire_connection.h"
#include "executor/processes/wire_frames.h"
#include "executor/processes/wire_waits.h"

namespace stringline {

// A member's message to another.
struct Transfer {
  int from = 0, to = 0;  // members
  const void* source = nullptr;
  void* target = nullptr;
  int64_t bytes = 0;
  const Call* call = nullptr;
  bool at_most = false;  // the receiver has room for `bytes`, and takes fewer too

  // True if its receiver takes a message of so many bytes.
  bool Takes(int64_t sent) const { return at_most ? sent <= bytes : sent == bytes; }
};

class WireLanes {
 public:
  // Connections by process.
  WireLanes(const ProcessNames* names, std::deque<WireConnection>* connections, WireWaits* waits)
      : names_(names),
        connections_(connections),
        waits_(waits),
        ended_(connections->size(), {.rank = -1}) {}

  // A group of these ranks, by its number.
  int NewGroup(absl::Span<const int> ranks);

  // An end of a message comes from this process. InvalidArgument if it differs from the other end.
  absl::Status PostSend(int group, const Transfer& send, int waiting);
  absl::Status PostReceive(int group, const Transfer& receive, int waiting);

  // Frames of other processes: kReady, kData, and kDiffers with the sender's name for its call.
  // False: the frame is none that may come now from this process. *target: the destination of
  // kData.
  bool MayCome(int process, const WireHeader& header, void** target) const;
  absl::Status Come(const WireHeader& header, const std::string& text);

  // An end of this process that waits: its rank, and the rank for which it waits.
  struct WaitingEnd {
    int rank = 0, peer = 0;
    int64_t since_ns = 0;
    const Call* call = nullptr;
  };
  // visit(WaitingEnd) for the first of every lane and side, in the order of their coming.
  template <typename Visit>
  void ForWaitingEnds(Visit visit) const {
    for (int at = oldest_; at >= 0; at = ends_.at(at).newer) {
      ++looked_;
      if (ends_.at(at).first) visit(Waiting(ends_.at(at)));
    }
  }
  // The one of these that waits longest.
  std::optional<WaitingEnd> Oldest() const {
    if (oldest_ < 0) return std::nullopt;
    ++looked_;
    return Waiting(ends_.at(oldest_));
  }
  // The number of ends that these two have looked at since the beginning.
  int64_t looked() const { return looked_; }
  // The last message between a rank of this process and one of another, by that process.
  struct Ended {
    int rank = 0, peer = 0;  // rank -1: none
    int64_t ended_ns = 0;
    Call call;  // a copy, for its names
  };
  absl::Span<const Ended> ended() const { return ended_; }
  void ForgetEnded() { ended_.assign(ended_.size(), {.rank = -1}); }

 private:
  struct End {
    Transfer transfer;
    int group = 0;
    bool sends = false;
    int waiting = -1;
    int64_t since_ns = 0;
    bool first = false;          // of its lane and side
    int older = -1, newer = -1;  // places in ends_
  };
  using Ends = PooledQueues<End>;
  using Readies = PooledQueues<WireHeader>;
  struct Lane {
    Ends::Queue sends, receives;
    Readies::Queue ready;  // receivers of other processes
  };
  struct Members {
    std::vector<int> ranks;   // empty: none is in this process
    std::vector<int> seats;   // by member: its number among those in this process; -1: elsewhere
    std::vector<Lane> lanes;  // of each of these to all members, then from all members elsewhere
  };

  Lane& LaneOf(int group, int from, int to) {
    Members& members = groups_[group];
    return members.lanes[PlaceOfLane(members, from, to)];
  }
  Lane& LaneOf(const WireHeader& header) { return LaneOf(header.group, header.from, header.to); }
  static size_t PlaceOfLane(const Members& members, int from, int to) {
    const size_t n = members.ranks.size();
    const int seat = members.seats[from];
    return seat >= 0 ? 2 * n * seat + to : 2 * n * members.seats[to] + n + from;
  }
  WaitingEnd Waiting(const End& end) const {
    const std::vector<int>& ranks = groups_[end.group].ranks;
    const int from = ranks[end.transfer.from], to = ranks[end.transfer.to];
    return {end.sends ? from : to, end.sends ? to : from, end.since_ns, end.transfer.call};
  }
  void Append(Ends::Queue* queue, End end);
  void Take(Ends::Queue* queue);
  WireConnection& ConnectionOf(int group, int member);
  absl::Status MeetHere(int group, Lane& lane);
  absl::Status MeetReady(int group, Lane& lane);
  void NoteEnded(int group, const Transfer& transfer);
  absl::Status CountsDiffer(int group, const Transfer& send, int64_t room) const;

  const ProcessNames* const names_;
  std::deque<WireConnection>* const connections_;
  WireWaits* const waits_;
  std::deque<Members> groups_;
  Ends ends_;
  Readies readies_;
  int oldest_ = -1, newest_ = -1;  // places in ends_
  mutable int64_t looked_ = 0;
  std::vector<Ended> ended_;
};

}  // namespace stringline
