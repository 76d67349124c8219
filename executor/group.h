// What the members of a group call to exchange data, with NCCL's contract and no kinder one.
//
// A group is a communicator of its own. Its members' calls match by order: the k-th send from one
// member to another meets the k-th receive there, and the k-th collective of a member meets the
// k-th of all others. A call may wait for everybody it concerns: nothing is buffered. Every member
// makes its calls on streams of its own, one after the other; calls that shall go at once, a
// grouped call, stand on streams of their own.
//
// Calls that meet must be the same operation on the same thing and of the same size. The matching
// does not depend on it; a difference is an error (InvalidArgument, naming both) instead of an
// activation taken for a gradient.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/device.h"
#include "executor/rank_states.h"

namespace stringline {

// What the member does; n is the number of members and b is Call::bytes. A member's own piece is
// copied too.
enum class CallKind : uint8_t {
  kSend,             // b bytes to member `peer`
  kRecv,             // b bytes from member `peer`
  kAllToAll,         // from: n pieces of b bytes, the i-th for member i; to: the i-th is from it
  kAllToAllCounted,  // the same with pieces of rows of b bytes; counts say how many, see below
  kAllReduce,        // to[i] = sum over the members, in their order, of from[i]; floats, b bytes
  kReduceScatter,    // from: n pieces of b bytes; to: the sum of everybody's piece for this member
  kAllGather,        // from: b bytes; to: n pieces of b bytes, in the order of the members
  kBroadcast,        // b bytes of member `peer` to everybody
};
const char* NameOf(CallKind kind);

// How many rows a kAllToAllCounted moves, read when the call runs: piece i has as many as the
// `per_piece` numbers from[i * per_piece] and on add up to. The pieces follow each other without a
// gap.
struct RowCounts {
  const int32_t* from = nullptr;
  const int32_t* to = nullptr;
  int32_t per_piece = 1;
  int64_t most_rows = 0;        // what Call::to has room for
  int64_t most_piece_rows = 0;  // what a piece has at most, either way; 0: most_rows
};

// A kReduceScatter or kAllGather whose pieces are not alike: piece k is the bytes from begin[k] to
// begin[k + 1] of the whole, and member m has piece (m / stride) % pieces. Several members may have
// one piece of a sum: each gets it. Of a gather, each piece is of one member.
struct Pieces {
  std::vector<int64_t> begin = {0};  // multiples of 4
  int stride = 1;

  int count() const { return static_cast<int>(begin.size()) - 1; }
  int Of(int member) const { return member / stride % count(); }
  int64_t bytes(int piece) const { return begin[piece + 1] - begin[piece]; }
};

// What one member does in one call. It stays as it is until the call is over.
struct Call {
  CallKind kind = CallKind::kSend;
  int32_t peer = -1;
  // Buffers of this member; null: no bytes move, and `bytes` only tells the size. An all-reduce may
  // have one buffer for both. A call with `pieces` may have its piece in its place in the whole;
  // what such a sum leaves elsewhere in the whole is not said. No other buffers overlap.
  const void* from = nullptr;
  void* to = nullptr;
  int64_t bytes = 0;
  const RowCounts* rows = nullptr;  // of kAllToAllCounted
  const Pieces* pieces = nullptr;   // then b is the whole's bytes, and n of them are not alike
  // What is exchanged, for messages; ends that meet have the same index.
  LazyName name;
  // What this member does it for: "1SEND_F0 (zb_v.sched:41)"; may be none.
  LazyName action;
  // Where the moments are written when this member has come to the call, on devices that see it,
  // and when the bytes are there; or null.
  int64_t* came_ns = nullptr;
  int64_t* ended_ns = nullptr;
};

// "a send of the activation of stage 1, microbatch 0 (64 bytes)", and that without "a send of".
std::string Describe(const Call& call);
std::string DescribeData(const Call& call);

// Describe, with the action: "a send of the activation of stage 1, microbatch 0 (64 bytes) for
// 1SEND_F0 (zb_v.sched:41)".
std::string DescribeWithAction(const Call& call);
// " for 1SEND_F0 (zb_v.sched:41)", or "".
std::string DescribeAction(const Call& call);

// The part of a kAllReduce, or of a sum with pieces, that a member adds up, for itself and for all
// who get it: members share out what they get alike, in whole `unit`s of bytes but for the last.
struct SumSlice {
  int64_t begin = 0;  // in the whole
  int64_t end = 0;
  int64_t bytes() const { return end - begin; }
};
SumSlice SliceOf(const Call& call, int member, int members, int64_t unit);
// Whether both get it, and how many do.
bool GetAlike(const Call& call, int one, int other);
int HowManyGet(const Call& call, int members);
// Where in Call::to of `member` that byte of the whole goes.
int64_t PlaceInSum(const Call& call, int member, int64_t at);

// Whether two calls that meet are the same; InvalidArgument names both when not.
absl::Status MatchCalls(const Call& one, const Call& other);

// The bytes that a member of so many sends to others in that call, or gets from them, if that is
// more.
int64_t BytesOnTheWay(const Call& call, int member, int members);

class Group {
 public:
  // What a call takes of a stream's capacity, at most.
  static constexpr int OpsOf(CallKind kind) {
    return kind == CallKind::kSend || kind == CallKind::kRecv ? 1 : 3;
  }

  virtual ~Group() = default;
  virtual int members() const = 0;
  // Enqueues the next call of `member` on a stream of its. Errors come from Device::Synchronize:
  // InvalidArgument where calls that meet differ, OutOfRange where counted rows do not fit.
  virtual void Enqueue(int member, StreamId stream, const Call* call) = 0;
};

// A member that sends to another.
struct MemberPair {
  int from = 0;
  int to = 0;
};

// Makes groups of ranks. A rank of the mesh is a number; who makes a group for the ranks of this
// process and of others names them all, in the order of the members. The groups live as long as
// this object.
//
// Processes make their groups together: all call New equally often, in the same order and with the
// same ranks, also for groups in which they hold none. Then all call Connect, and only after it
// anything is called on a group.
class Groups {
 public:
  virtual ~Groups() = default;
  // `talks` says which members send to which, where the group is for such messages alone: only
  // these are connected. Empty: all to all.
  virtual Group* New(absl::Span<const int> ranks, absl::Span<const MemberPair> talks) = 0;
  Group* New(absl::Span<const int> ranks) { return New(ranks, {}); }
  // Whether calls of one member on one group may begin together, each on a stream of its own, and
  // end one by one. Else a call may wait for the one that was enqueued before it.
  virtual bool BeginsTogether() const { return true; }
  // Connects the groups made since the last time. All processes call it equally often.
  // InvalidArgument where they have not made the same ones; else as World::Exchange.
  virtual absl::Status Connect() { return absl::OkStatus(); }
  // The run has failed with that status, and ends. What all processes that are left say that it
  // was: where one of them died or was late, the same everywhere. It waits for them for a while.
  virtual absl::Status Agree(const absl::Status& status) { return status; }
  // Who knows what the ranks of this process do, for messages; null: nobody any more, and the names
  // in calls may not be printed any more.
  virtual void TellStates(const RankStates* /*states*/) {}
  // Whether a sum takes memory of the host for what the others have: as much as there are members,
  // times what each adds up of the largest.
  virtual bool SumsTakeMemory() const { return false; }
  // What they take of the machine, for people: "5 communicators of NCCL, which took …"; may be "".
  virtual std::string Describe() const { return ""; }
  // Whether what has been enqueued since Connect, and not yet submitted, is what the other members
  // have enqueued: InvalidArgument names the first two calls that differ, and is then what
  // Device::Synchronize ends with too. All processes call it, if any does, in their first step; the
  // later ones are like it.
  virtual absl::Status CheckCalls() { return absl::OkStatus(); }
};

}  // namespace stringline
