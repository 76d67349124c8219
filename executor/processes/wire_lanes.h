// Every two members of a group have a lane with the ends of messages that have come to it: sends
// and receives of this process, and receivers of other processes that are ready. The k-th send of a
// lane meets the k-th receive; whatever completes a message ends it at once.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/engine/group.h"
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
  // False: the frame is none that may come now. *target: the destination of kData.
  bool MayCome(const WireHeader& header, void** target);
  absl::Status Come(const WireHeader& header, const std::string& text);

  // An end of this process that waits: its rank, and the rank for which it waits.
  struct WaitingEnd {
    int rank = 0, peer = 0;
    int64_t since_ns = 0;
    const Call* call = nullptr;
  };
  // visit(WaitingEnd) for the first of every lane and side.
  template <typename Visit>
  void ForWaitingEnds(Visit visit) const {
    for (const Members& group : groups_) {
      const size_t n = group.ranks.size();
      for (size_t i = 0; i < group.lanes.size(); ++i) {
        const Lane& lane = group.lanes[i];
        const int from = group.ranks[i / n], to = group.ranks[i % n];
        if (!lane.receives.empty()) visit(lane.receives.front().Waiting(to, from));
        if (!lane.sends.empty()) visit(lane.sends.front().Waiting(from, to));
      }
    }
  }
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
    int waiting = -1;
    int64_t since_ns = 0;
    WaitingEnd Waiting(int rank, int peer) const { return {rank, peer, since_ns, transfer.call}; }
  };
  // Of one member to another. In nearly all runs at most one end waits, or is ready.
  struct Lane {
    absl::InlinedVector<End, 1> sends, receives;
    absl::InlinedVector<WireHeader, 1> ready;  // receivers of other processes
  };
  struct Members {
    std::vector<int> ranks;
    std::vector<Lane> lanes;  // by sender and receiver
  };

  Lane& LaneOf(int group, int from, int to) {
    Members& members = groups_[group];
    return members.lanes[from * members.ranks.size() + to];
  }
  Lane& LaneOf(const WireHeader& header) { return LaneOf(header.group, header.from, header.to); }
  absl::Status MeetHere(int group, Lane& lane);
  absl::Status MeetReady(int group, Lane& lane);
  void NoteEnded(int group, const Transfer& transfer);
  absl::Status CountsDiffer(int group, const Transfer& send, int64_t room) const;

  const ProcessNames* const names_;
  std::deque<WireConnection>* const connections_;
  WireWaits* const waits_;
  std::deque<Members> groups_;
  std::vector<Ended> ended_;
};

}  // namespace stringline
