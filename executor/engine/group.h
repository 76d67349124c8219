// Calls by which the members of a group exchange data, with NCCL's contract and no kinder one.
//
// A group is a communicator of its own. Its members' calls match by order: the k-th send from one
// member to another meets the k-th receive there, and the k-th collective of a member meets the
// k-th of all others. A call may block until all its peers have come: nothing is buffered. Every
// member makes its calls on streams of its own, in sequence; the calls of a grouped call, which
// start together, are on a stream each.
//
// Calls that meet must be the same operation on the same data and of the same size. Matching
// ignores these; a difference is an error (InvalidArgument, naming both calls), so that an
// activation is never taken for a gradient.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/engine/device.h"
#include "executor/engine/rank_states.h"

namespace stringline {

// The operations; n is the number of members and b is Call::bytes. A member's own piece is copied
// too.
enum class CallKind : uint8_t {
  kSend,             // b bytes to member `peer`
  kRecv,             // b bytes from member `peer`
  kAllToAllCounted,  // from: n pieces of rows of b bytes, the i-th for member i; to: the i-th from
                     // member i; counted by RowCounts, which may list more arrays of rows
  kAllReduce,        // to[i] = sum over the members, in their order, of from[i]; floats, b bytes
  kReduceScatter,    // from: n pieces of b bytes; to: the sum over all members of this member's
                     // piece
  kAllGather,        // from: b bytes; to: n pieces of b bytes, in the order of the members
  kBroadcast,        // b bytes of member `peer` to all members
};
const char* NameOf(CallKind kind);

// Rows of `bytes` each, which travel in one call with others of the same counts.
struct RowArray {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t bytes = 0;
};
constexpr int kMostRowArrays = 4;  // of a call

// Row counts of a kAllToAllCounted, read when the call runs: piece i has as many rows as the
// `per_piece` numbers from[i * per_piece] and on add up to. The pieces are contiguous. Members that
// do not know what they receive are told: the call writes the others' counts. Then there is room
// for most_piece_rows of every member, and what lies behind the rows is unspecified.
struct RowCounts {
  const int32_t* from = nullptr;
  const int32_t* to = nullptr;  // null: not known, by any member; the call writes `told`
  int32_t per_piece = 1;
  int64_t most_rows = 0;        // room in Call::to
  int64_t most_piece_rows = 0;  // bound of a piece's rows, sent or received; 0: most_rows
  int32_t* told = nullptr;
  std::vector<RowArray> more;  // beside the call's own array, with the same room

  bool tells() const { return to == nullptr; }
  // The counts of the rows received, once they are known.
  const int32_t* received() const { return tells() ? told : to; }
};

// A kReduceScatter or kAllGather with pieces of unequal size: piece k is the bytes from begin[k] to
// begin[k + 1] of the whole, and member m has piece (m / stride) % pieces. Several members may own
// the same piece of a sum: each gets the sum. In a gather, each piece has a single owner.
struct Pieces {
  std::vector<int64_t> begin = {0};  // multiples of 4
  int stride = 1;

  int count() const { return static_cast<int>(begin.size()) - 1; }
  int Of(int member) const { return member / stride % count(); }
  int64_t bytes(int piece) const { return begin[piece + 1] - begin[piece]; }
};

// One member's part in a call. It stays unchanged until the call is over.
struct Call {
  CallKind kind = CallKind::kSend;
  int32_t peer = -1;
  // Buffers of this member; null: no bytes move, and `bytes` only tells the size. An all-reduce may
  // use one buffer for both. A call with `pieces` may have its piece in its place in the whole; the
  // rest of the whole is then unspecified after a sum. No other buffers overlap.
  const void* from = nullptr;
  void* to = nullptr;
  int64_t bytes = 0;
  const RowCounts* rows = nullptr;  // for kAllToAllCounted, whose first array is the call's own
  const Pieces* pieces = nullptr;   // then b is the whole's bytes, in unequal pieces
  // The data exchanged, for messages to people; matching calls have the same index.
  LazyName name;
  // The action served by this call: "1SEND_F0 (zb_v.sched:41)"; may be empty.
  LazyName action;
  // Destinations, or null: the moment when this member came to the call (on devices that observe
  // it), and the moment when the bytes had arrived.
  int64_t* came_ns = nullptr;
  int64_t* ended_ns = nullptr;
};

// "a send of the activation of stage 1, microbatch 0 (64 bytes)", and the same without "a send of".
std::string Describe(const Call& call);
std::string DescribeData(const Call& call);

// Describe, with the action: "a send of the activation of stage 1, microbatch 0 (64 bytes) for
// 1SEND_F0 (zb_v.sched:41)".
std::string DescribeWithAction(const Call& call);
// " for 1SEND_F0 (zb_v.sched:41)", or "".
std::string DescribeAction(const Call& call);

// The arrays of a kAllToAllCounted, one after the other; the bytes of a row in all of them; and the
// bytes of the counts that a member tells each other member.
inline int ArraysOf(const Call& call) { return 1 + static_cast<int>(call.rows->more.size()); }
inline RowArray ArrayOf(const Call& call, int array) {
  return array == 0 ? RowArray{call.from, call.to, call.bytes} : call.rows->more[array - 1];
}
int64_t RowBytes(const Call& call);
int64_t ToldBytes(const Call& call);
// The same number for calls with rows of the same bytes that tell counts alike; 0: no rows.
uint64_t ShapeOfRows(const Call& call);
// The number of rows in a piece, and in all pieces before it.
int64_t RowsOfPiece(const int32_t* counts, int per_piece, int piece);
int64_t RowsBeforePiece(const int32_t* counts, int per_piece, int piece);

// The slice of a kAllReduce, or of a sum with pieces, that a member adds up for itself and for all
// members with the same result: they divide the sum in whole `unit`s of bytes, the last aside.
struct SumSlice {
  int64_t begin = 0;  // offset in the whole
  int64_t end = 0;
  int64_t bytes() const { return end - begin; }
};
SumSlice SliceOf(const Call& call, int member, int members, int64_t unit);
// True if both members get the same result; and the number of members that do.
bool GetAlike(const Call& call, int one, int other);
int HowManyGet(const Call& call, int members);
// The offset in Call::to of `member` of the byte `at` of the whole.
int64_t PlaceInSum(const Call& call, int member, int64_t at);

// OK if two calls that meet agree; else InvalidArgument, naming both.
absl::Status MatchCalls(const Call& one, const Call& other);

// The larger of the bytes that a member sends to others and receives from them in a call among
// `members`; of one that tells counts, once they are told.
int64_t BytesOnTheWay(const Call& call, int member, int members);
// The most of these over all members, whose calls have met; counts need not be told yet.
int64_t MostBytesOnTheWay(absl::Span<const Call* const> met);

class Group {
 public:
  // The operations of a call on a stream, at most; counts against the stream's capacity.
  static constexpr int OpsOf(CallKind kind) {
    return kind == CallKind::kSend || kind == CallKind::kRecv ? 1 : 3;
  }

  virtual ~Group() = default;
  virtual int members() const = 0;
  // Enqueues the next call of `member` on a stream of that member. Errors come from
  // Device::Synchronize: InvalidArgument if calls that meet differ, OutOfRange if counted rows do
  // not fit.
  virtual void Enqueue(int member, StreamId stream, const Call* call) = 0;
};

// A member that sends to another.
struct MemberPair {
  int from = 0;
  int to = 0;
};

// Makes groups of ranks, numbered as in the mesh. A group is made with the ranks of all processes,
// in the order of the members. The groups live as long as this object.
//
// Processes make their groups together: all call New equally often, in the same order and with the
// same ranks, also for groups without a rank of theirs. Then all call Connect, and no call is made
// on a group before.
class Groups {
 public:
  virtual ~Groups() = default;
  // `talks` lists the pairs of members that exchange messages, in a group for messages alone: only
  // these are connected. Empty: all to all.
  virtual Group* New(absl::Span<const int> ranks, absl::Span<const MemberPair> talks) = 0;
  Group* New(absl::Span<const int> ranks) { return New(ranks, {}); }
  // True if calls of one member on one group, each on a stream of its own, may begin together and
  // end independently. Otherwise a call may wait for the call enqueued before it.
  virtual bool BeginsTogether() const { return true; }
  // Connects the groups made since the last Connect. All processes call it equally often.
  // InvalidArgument if their groups differ; other errors as World::Exchange.
  virtual absl::Status Connect() { return absl::OkStatus(); }
  // The run has failed with `status`, and ends. Returns the cause agreed on by all surviving
  // processes: the same everywhere if a process died or was late. Waits for them for a while.
  virtual absl::Status Agree(const absl::Status& status) { return status; }
  // Sets the source of the ranks' states for messages; null: states are gone, and names in calls
  // may no longer be printed.
  virtual void TellStates(const RankStates* /*states*/) {}
  // Wishes for records of the run under way. AskForRecords sends wish `number` to all other
  // processes; `asked` is called with the number of each new wish of another process, on a thread
  // that must not wait. Any thread, at any time. Groups without a thread of their own tell nobody.
  virtual void AskForRecords(int64_t /*number*/) {}
  virtual void OnAskForRecords(const std::function<void(int64_t number)>& /*asked*/) {}
  // True if a sum buffers the other members' shares in host memory: as many as there are members,
  // each of the size of the largest slice.
  virtual bool SumsTakeMemory() const { return false; }
  // Resources taken from the machine, for people: "5 communicators of NCCL, which took …"; may be
  // "".
  virtual std::string Describe() const { return ""; }
  // Checks that the calls enqueued since Connect, and not yet submitted, match those of the other
  // members: InvalidArgument names the first two that differ, and Device::Synchronize then ends
  // with the same error. If any process calls it, all do, in their first step; later steps are
  // alike.
  virtual absl::Status CheckCalls() { return absl::OkStatus(); }
};

}  // namespace stringline
