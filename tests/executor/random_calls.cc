// A call's inputs are a function of its number, the rank and the place. So the reference needs no
// communication: each process computes what its members should have got, and compares the bits.
#include "tests/executor/random_calls.h"

#include <sched.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace stringline {
namespace {

constexpr int kGroups = 3;
constexpr int kCalls = 60;

struct RandomCall {
  CallKind kind = CallKind::kAllReduce;
  int number = 0, group = 0;
  int64_t floats = 0;       // of Call::bytes
  int from = 0, to = 1;     // members: of a message; `from` of a broadcast
  bool told = false;        // counts of rows
  std::vector<int> pauses;  // by rank: before it makes the call
  std::vector<int> rows;    // from member to member
};

float ValueOf(const RandomCall& call, int rank, int64_t at) {
  const auto mixed = static_cast<uint32_t>(at * 2654435761U + rank * 40503U + call.number * 97U);
  return static_cast<float>(mixed >> 8) / 9999.0F - 700.0F;
}

RandomCall NewCall(int number, int n, std::mt19937* random) {
  // Bytes around what goes unasked, what is behind a header of MPI, and what is summed at once.
  static constexpr int64_t kBytes[] = {4, 64, 3068, 3072, 3076, 4092, 4096, 4100, 16384, 65536};
  static constexpr CallKind kKinds[] = {CallKind::kAllReduce,       CallKind::kReduceScatter,
                                        CallKind::kAllGather,       CallKind::kBroadcast,
                                        CallKind::kAllToAllCounted, CallKind::kSend};
  RandomCall call;
  call.number = number;
  call.kind = kKinds[(*random)() % (n > 1 ? 6 : 5)];
  call.group = static_cast<int>((*random)() % kGroups);
  call.floats = kBytes[(*random)() % std::size(kBytes)] / 4;
  if ((*random)() % 8 == 0) call.floats = 65536 / 4 / std::max(n - 1, 1) + (*random)() % 3 - 1;
  if ((*random)() % 16 == 0) call.floats = 100'000;
  call.from = static_cast<int>((*random)() % n);
  call.to = n > 1 ? (call.from + 1 + static_cast<int>((*random)() % (n - 1))) % n : 0;
  call.told = (*random)() % 2 == 0;
  for (int r = 0; r < n; ++r) {
    call.pauses.push_back((*random)() % 4 == 0 ? static_cast<int>((*random)() % 200) : 0);
  }
  if (call.kind == CallKind::kAllToAllCounted) {
    call.floats = 1 + (*random)() % 40;  // of a row
    for (int i = 0; i < n * n; ++i) call.rows.push_back(static_cast<int>((*random)() % 60));
  }
  return call;
}

// The ranks of a group, in the order of its members.
std::vector<int> RanksOf(int group, int n) {
  std::vector<int> ranks(n);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::rotate(ranks.begin(), ranks.begin() + group % n, ranks.end());
  if (group == 2) std::reverse(ranks.begin(), ranks.end());
  return ranks;
}

// A member's buffers and what they should hold in the end.
struct Part {
  RandomCall of;
  int member = 0;
  Call call;
  RowCounts rows;
  std::vector<float> from, to, expected;
  std::vector<int32_t> sent, received;
};

std::vector<float> Values(const RandomCall& call, int rank, int64_t begin, int64_t count) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = ValueOf(call, rank, begin + i);
  return values;
}

void Append(std::vector<float>* to, const std::vector<float>& more) {
  to->insert(to->end(), more.begin(), more.end());
}

std::vector<float> Sum(const RandomCall& call, const std::vector<int>& ranks, int64_t begin) {
  std::vector<float> sum = Values(call, ranks[0], begin, call.floats);
  for (size_t m = 1; m < ranks.size(); ++m) {
    for (int64_t i = 0; i < call.floats; ++i) sum[i] += ValueOf(call, ranks[m], begin + i);
  }
  return sum;
}

// The place of the rows for member `to` among those that `from` sends.
int64_t RowsBefore(const RandomCall& call, int n, int from, int to) {
  const auto begin = call.rows.begin() + static_cast<ptrdiff_t>(from) * n;
  return std::accumulate(begin, begin + to, int64_t{0});
}

void PrepareRows(Part* part, const std::vector<int>& ranks) {
  const RandomCall& of = part->of;
  const auto n = static_cast<int>(ranks.size());
  int64_t most_piece = 1;
  for (const int rows : of.rows) most_piece = std::max<int64_t>(most_piece, rows);
  for (int m = 0; m < n; ++m) {
    part->sent.push_back(of.rows[part->member * n + m]);
    const int in = of.rows[m * n + part->member];
    part->received.push_back(of.told ? -1 : in);
    Append(&part->expected,
           Values(of, ranks[m], RowsBefore(of, n, m, part->member) * of.floats, in * of.floats));
  }
  part->from =
      Values(of, ranks[part->member], 0, (RowsBefore(of, n, part->member, n) + 1) * of.floats);
  part->to.assign(n * most_piece * of.floats, -1);
  part->rows = {part->sent.data(), of.told ? nullptr : part->received.data(), 1, n * most_piece,
                most_piece};
  if (of.told) part->rows.told = part->received.data();
  part->call.rows = &part->rows;
}

void Prepare(Part* part, const std::vector<int>& ranks) {
  const RandomCall& of = part->of;
  const auto n = static_cast<int64_t>(ranks.size());
  const int rank = ranks[part->member];
  part->from = Values(of, rank, 0, of.floats);
  part->to.assign(of.floats, -1);
  switch (of.kind) {
    case CallKind::kAllReduce:
      part->expected = Sum(of, ranks, 0);
      break;
    case CallKind::kReduceScatter:
      part->from = Values(of, rank, 0, n * of.floats);
      part->expected = Sum(of, ranks, part->member * of.floats);
      break;
    case CallKind::kAllGather:
      part->to.assign(n * of.floats, -1);
      for (const int other : ranks) Append(&part->expected, Values(of, other, 0, of.floats));
      break;
    case CallKind::kAllToAllCounted:
      PrepareRows(part, ranks);
      break;
    default:  // a broadcast, or the receiver of a message
      part->expected = Values(of, ranks[of.from], 0, of.floats);
  }
  Call& call = part->call;
  const bool message = of.kind == CallKind::kSend;
  const int64_t row = CallOf(of.kind, of.floats * 4, of.number).bytes;
  const RowCounts* const rows = call.rows;
  call = CallOf(message && part->member == of.to ? CallKind::kRecv : of.kind, row, of.number,
                message && part->member == of.from ? of.to : of.from);
  call.rows = rows;
  call.from = part->from.data();
  call.to = part->to.data();
  if (message && part->member == of.from) part->expected.clear();
}

}  // namespace

void RandomCallsEqualTheReference(const NewGroupMachine& make, int count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<RandomCall> calls;
  for (int i = 0; i < kCalls; ++i) calls.push_back(NewCall(i, count, &random));
  const GroupMachine machine = make();
  std::vector<Group*> groups;
  for (int g = 0; g < kGroups; ++g) groups.push_back(machine.groups->New(RanksOf(g, count)));
  const absl::Status connected = machine.groups->Connect();
  ASSERT_TRUE(connected.ok()) << connected;
  std::deque<Part> parts;
  for (const int rank : machine.local) {
    std::vector<StreamId> streams;
    for (int g = 0; g < kGroups; ++g) streams.push_back(machine.device->NewStream({}, 5 * kCalls));
    for (const RandomCall& call : calls) {
      const std::vector<int> ranks = RanksOf(call.group, count);
      const auto member =
          static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
      const bool has_part =
          call.kind != CallKind::kSend || member == call.from || member == call.to;
      if (!has_part) continue;
      Part& part = parts.emplace_back(Part{.of = call, .member = member});
      Prepare(&part, ranks);
      const StreamId stream = streams[call.group];
      machine.device->Launch(stream, machine.work_of([pause = call.pauses[rank]] {
        for (int i = 0; i < pause; ++i) (void)sched_yield();
      }));
      groups[call.group]->Enqueue(member, stream, &part.call);
    }
  }
  const absl::Status status = machine.device->Synchronize();
  ASSERT_TRUE(status.ok()) << status;
  for (const Part& part : parts) {
    for (size_t i = 0; i < part.expected.size(); ++i) {
      ASSERT_EQ(part.to[i], part.expected[i])
          << NameOf(part.call.kind) << " " << part.of.number << " of " << part.of.floats
          << " floats, member " << part.member << ", element " << i;
    }
  }
}

}  // namespace stringline
