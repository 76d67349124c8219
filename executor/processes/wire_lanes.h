// The lanes of messages, each from one member of a group to another, at least one of them in this
// process. On a lane are the ends that have come to it: sends and receives of this process, and
// receivers of other processes that are ready. The k-th send of a lane meets the k-th receive;
// whatever completes a message ends it at once.
//
// In a collective every member sends to every other and cannot end before all have come. So a small
// message of a collective is sent unasked, with a header that describes the call, and one that
// comes before its receiver is kept: at most kMostEarly on a lane, since its sender cannot go on to
// another call. A receiver that has waited for long reports itself as ready all the same: then a
// sender whose call differs says so. Where something carries frames that leaves bytes with
// their sender until they are taken (MPI), messages of collectives go unasked whatever their size.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/engine/group.h"
#include "executor/processes/pooled_queues.h"
#include "executor/processes/process_names.h"
#include "executor/processes/wire_connection.h"
#include "executor/processes/wire_ends.h"
#include "executor/processes/wire_frames.h"
#include "executor/processes/wire_waits.h"

namespace stringline {

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

  // Frames of other processes: kReady, kData, kUnasked, and kDiffers with the sender's name for its
  // call. False: the frame is none that may come now from this process. *target: the destination
  // of its bytes; null: the text for Come, or they are taken later.
  bool MayCome(int process, const WireHeader& header, void** target);
  absl::Status Come(const WireHeader& header, const std::string& text);
  // The bytes of a frame with a tag are there (FrameCarrier::TakeBytes).
  absl::Status Took(const WireHeader& header);
  // Reports receivers as ready that have waited for a while for an unasked message; to be called
  // now and then.
  void AskLate();

  // An end of this process that waits: its rank, and the rank for which it waits.
  struct WaitingEnd {
    int rank = 0, peer = 0;
    int64_t since_ns = 0;
    const Call* call = nullptr;
  };
  // visit(WaitingEnd) for the first of every lane and side, in the order of their coming.
  template <typename Visit>
  void ForWaitingEnds(Visit visit) const {
    for (int at = ends_.oldest(); at >= 0; at = ends_.at(at).newer) {
      ++looked_;
      if (ends_.at(at).first) visit(Waiting(ends_.at(at)));
    }
  }
  // The one of these that waits longest.
  std::optional<WaitingEnd> Oldest() const {
    if (ends_.oldest() < 0) return std::nullopt;
    ++looked_;
    return Waiting(ends_.at(ends_.oldest()));
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
  static constexpr int kMostEarly = 1 + kMostRowArrays;  // counts, and rows of each array
  using Readies = PooledQueues<WireHeader>;
  // A message that came while its receiver had not, or while the one before was being taken.
  struct Early {
    WireHeader header;
    int slot = -1;      // of its bytes; -1: none
    std::string bytes;  // if they are in no slot
  };
  struct Lane {
    WireEnds::Queue sends, receives;
    Readies::Queue ready;  // receivers of other processes
    PooledQueues<Early>::Queue early;
    int64_t done = 0;                     // sends that have left, or receives that have ended
    int64_t posted = 0;                   // receives
    int64_t came = 0;                     // messages of another process
    int slot = -1;                        // of the message under way
    uint8_t slots = 0;                    // in use, by bit
    bool direct = false, taking = false;  // the message under way, of the first receive
  };
  struct Members {
    std::vector<int> ranks;   // empty: none is in this process
    std::vector<int> seats;   // by member: its number among those in this process; -1: elsewhere
    std::vector<Lane> lanes;  // of each of these to all members, then from all members elsewhere
    int64_t slot_bytes = 0;
    std::unique_ptr<char[]> slots;  // kMostEarly for each lane from a member
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
  WaitingEnd Waiting(const WireEnd& end) const {
    const std::vector<int>& ranks = groups_[end.group].ranks;
    const int from = ranks[end.transfer.from], to = ranks[end.transfer.to];
    return {end.sends ? from : to, end.sends ? to : from, end.since_ns, end.transfer.call};
  }
  WireConnection& ConnectionOf(int group, int member);
  char* SlotOf(const WireHeader& header, int slot);
  bool IsUnasked(int group, const Transfer& transfer, int other);
  void Report(int group, WireEnd* receive);
  absl::Status MeetHere(int group, Lane& lane);
  absl::Status SendOn(int group, Lane& lane);
  void SendUnasked(int group, Lane& lane);
  absl::Status MeetReady(int group, Lane& lane);
  absl::Status MeetEarly(int group, Lane& lane);
  void EndReceive(int group, Lane& lane);
  void TellDiffers(int group, int own, int other, const Call& call);
  void NoteEnded(int group, const Transfer& transfer);
  absl::Status CountsDiffer(int group, const Transfer& send, int64_t room) const;

  const ProcessNames* const names_;
  std::deque<WireConnection>* const connections_;
  WireWaits* const waits_;
  std::deque<Members> groups_;
  WireEnds ends_;
  Readies readies_;
  PooledQueues<Early> early_;
  int64_t asked_ns_ = 0;  // the last AskLate
  mutable int64_t looked_ = 0;
  std::vector<Ended> ended_;
};

}  // namespace stringline
