// A contract is a row of a table. It fills buffers with values that encode member and place, makes
// a call, and compares every element. Copies before and after the call are on the member's stream,
// so the call's place in the order is tested, too.
#include "tests/executor/group_contract.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schedlang/base/sl_check.h"

namespace stringline {

Call CallOf(CallKind kind, int64_t bytes, int64_t name, int peer) {
  Call call;
  call.kind = kind;
  call.bytes = bytes;
  call.peer = peer;
  call.name = {[](const void*, int64_t i) { return absl::StrCat("thing ", i); }, nullptr, name};
  return call;
}

std::function<Work(std::function<void()>)> WorkOfThreads() {
  return [kept = std::make_shared<std::deque<std::function<void()>>>()](auto run) {
    const auto call = [](const void* self, int64_t, NativeStream) {
      (*static_cast<const std::function<void()>*>(self))();
    };
    return Work{call, &kept->emplace_back(std::move(run)), 0};
  };
}

GroupMembers::GroupMembers(GroupMachine machine, int count)
    : machine_(std::move(machine)), count_(count) {
  std::vector<int> ranks;
  for (int m = 0; m < count; ++m) ranks.push_back(m);
  group_ = machine_.groups->New(ranks);
  const absl::Status connected = machine_.groups->Connect();
  SL_CHECK(connected.ok()) << connected.ToString();
  for (int m = 0; m < count; ++m) {
    streams_.push_back(StreamId());
    if (!Has(m)) continue;
    device().MakeFor(m);
    streams_.back() = device().NewStream(
        {[](const void*, int64_t i) { return absl::StrCat("member ", i); }, nullptr, m}, 256);
  }
}

bool GroupMembers::Has(int member) const {
  return std::find(local().begin(), local().end(), member) != local().end();
}

void GroupMembers::Enqueue(int member, const Call& call, StreamId stream) {
  calls_.push_back(call);
  group_->Enqueue(member, stream, &calls_.back());
}

namespace {

float ValueOf(int member, int64_t i) { return static_cast<float>(1000 * member + i) * 0.37F; }

std::vector<float> ValuesOf(int member, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(ValueOf(member, i));
  return values;
}

void AnAllReduceAddsUpInTheOrderOfTheMembers(const NewGroupMachine& make, int count, unsigned) {
  for (const int64_t elements : {1, 3, 16, 1000, 4099}) {
    GroupMembers members(make(), count);
    std::map<int, const float*> got;
    for (const int m : members.local()) {
      float* const values = members.Put(m, ValuesOf(m, elements));
      Call call = CallOf(CallKind::kAllReduce, elements * 4, 0);
      call.from = call.to = values;
      members.Enqueue(m, call);
      got[m] = members.Fetch(m, values, elements);
    }
    const absl::Status status = members.Run();
    ASSERT_TRUE(status.ok()) << status;
    for (int64_t i = 0; i < elements; ++i) {
      float sum = ValueOf(0, i);
      for (int m = 1; m < count; ++m) sum += ValueOf(m, i);
      for (const int m : members.local()) ASSERT_EQ(got[m][i], sum) << m << " " << i;
    }
  }
}

void PiecesGoWhereTheyBelong(const NewGroupMachine& make, int n, unsigned) {
  constexpr int64_t kPiece = 5;
  struct Case {
    CallKind kind;
    int64_t to_elements;
    float (*expected)(int n, int member, int64_t i);
  };
  const Case cases[] = {
      {CallKind::kAllGather, kPiece * n,
       [](int, int, int64_t i) { return ValueOf(static_cast<int>(i / kPiece), i % kPiece); }},
      {CallKind::kReduceScatter, kPiece,
       [](int n, int member, int64_t i) {
         float sum = ValueOf(0, member * kPiece + i);
         for (int m = 1; m < n; ++m) sum += ValueOf(m, member * kPiece + i);
         return sum;
       }},
      {CallKind::kBroadcast, kPiece, [](int n, int, int64_t i) { return ValueOf(n - 1, i); }},
  };
  for (const Case& c : cases) {
    GroupMembers members(make(), n);
    std::map<int, const float*> got;
    for (const int m : members.local()) {
      Call call = CallOf(c.kind, kPiece * 4, 0, n - 1);
      call.from = members.Put(m, ValuesOf(m, kPiece * n));
      call.to = members.Memory<float>(c.to_elements);
      members.Enqueue(m, call);
      // The call's input is overwritten after its last read.
      members.device().Copy(members.stream(m), const_cast<void*>(call.from),
                            *members.device().AllocateHost(kPiece * n * 4), kPiece * n * 4);
      got[m] = members.Fetch(m, static_cast<float*>(call.to), c.to_elements);
    }
    const absl::Status status = members.Run();
    ASSERT_TRUE(status.ok()) << status;
    for (const int m : members.local()) {
      for (int64_t i = 0; i < c.to_elements; ++i) {
        ASSERT_EQ(got[m][i], c.expected(n, m, i)) << NameOf(c.kind) << " " << m << " " << i;
      }
    }
  }
}

// Pieces of unequal size, one of them empty.
Pieces UnlikePieces(int count, int stride) {
  Pieces pieces;
  pieces.stride = stride;
  for (int p = 0; p < count; ++p) {
    pieces.begin.push_back(pieces.begin.back() + (p == 1 ? 0 : 4 * (3 + 1500 * p)));
  }
  return pieces;
}

// In place in the whole, or into another buffer.
void SumPieces(const NewGroupMachine& make, int n, const Pieces& pieces, bool in_place) {
  GroupMembers members(make(), n);
  std::map<int, const float*> got;
  const int64_t floats = pieces.begin.back() / 4;
  for (const int m : members.local()) {
    Call call = CallOf(CallKind::kReduceScatter, pieces.begin.back(), 0);
    const int64_t size = pieces.bytes(pieces.Of(m)) / 4;
    float* const whole = members.Put(m, ValuesOf(m, floats));
    float* const place =
        in_place ? whole + pieces.begin[pieces.Of(m)] / 4 : members.Memory<float>(size + 1);
    call.from = whole;
    call.to = place;
    call.pieces = &pieces;
    members.Enqueue(m, call);
    got[m] = members.Fetch(m, place, size);
  }
  const absl::Status status = members.Run();
  ASSERT_TRUE(status.ok()) << status;
  for (const int m : members.local()) {
    const int64_t begin = pieces.begin[pieces.Of(m)] / 4;
    for (int64_t i = 0; i < pieces.bytes(pieces.Of(m)) / 4; ++i) {
      float sum = ValueOf(0, begin + i);
      for (int other = 1; other < n; ++other) sum += ValueOf(other, begin + i);
      ASSERT_EQ(got[m][i], sum) << pieces.count() << " pieces, stride " << pieces.stride << ": "
                                << m << " " << i;
    }
  }
}

void GatherPieces(const NewGroupMachine& make, int n, const Pieces& pieces, bool in_place) {
  GroupMembers members(make(), n);
  std::map<int, const float*> got;
  const int64_t floats = pieces.begin.back() / 4;
  for (const int m : members.local()) {
    Call call = CallOf(CallKind::kAllGather, pieces.begin.back(), 0);
    float* const from = members.Put(m, ValuesOf(m, floats));
    float* const whole = in_place ? from : members.Memory<float>(floats + 1);
    call.from = from + pieces.begin[m] / 4;
    call.to = whole;
    call.pieces = &pieces;
    members.Enqueue(m, call);
    got[m] = members.Fetch(m, whole, floats);
  }
  const absl::Status status = members.Run();
  ASSERT_TRUE(status.ok()) << status;
  for (const int m : members.local()) {
    for (int of = 0; of < n; ++of) {
      for (int64_t i = pieces.begin[of] / 4; i < pieces.begin[of + 1] / 4; ++i) {
        ASSERT_EQ(got[m][i], ValueOf(of, i)) << n << " members: " << m << " " << i;
      }
    }
  }
}

void PiecesNeedNotBeAlike(const NewGroupMachine& make, int n, unsigned) {
  for (const bool in_place : {false, true}) {
    for (int count = 1; count <= n; ++count) {
      for (int stride = 1; stride * count <= n; ++stride) {
        if (n % (stride * count) == 0) SumPieces(make, n, UnlikePieces(count, stride), in_place);
      }
    }
    GatherPieces(make, n, UnlikePieces(n, 1), in_place);
  }
}

// A member's sends in a round: counts, several for each piece, and arrays of rows.
constexpr int kCountsAPiece = 3;
constexpr int kMostOfACount = 3;
struct RowsRound {
  std::vector<std::vector<int32_t>> sent;  // by member
  std::map<int, const int32_t*> told;
  std::map<int, std::vector<const char*>> got, back;  // by member and array
};

char ByteOf(size_t round, int array, int from, int to, int64_t i) {
  return static_cast<char>(17 * round + 53 * array + 31 * from + 7 * to + i);
}

int64_t RowsBetween(const RowsRound& round, int from, int to) {
  const auto begin = round.sent[from].begin() + static_cast<ptrdiff_t>(to) * kCountsAPiece;
  return std::accumulate(begin, begin + kCountsAPiece, int64_t{0});
}

// The bytes sent by a member, or received by it, in an array with such rows.
std::vector<char> BytesOf(const RowsRound& round, size_t r, int array, int member, bool received,
                          int64_t row_bytes) {
  std::vector<char> bytes;
  for (int other = 0; other < static_cast<int>(round.sent.size()); ++other) {
    const int from = received ? other : member, to = received ? member : other;
    const int64_t piece = RowsBetween(round, from, to) * row_bytes;
    for (int64_t i = 0; i < piece; ++i) bytes.push_back(ByteOf(r, array, from, to, i));
  }
  return bytes;
}

int64_t RoomOf(int members) { return int64_t{kMostOfACount} * kCountsAPiece * members; }

// Sends arrays of rows to members that do not know their counts, and from there back.
void EnqueueRows(GroupMembers* members, size_t r, RowsRound* round, int m,
                 const std::vector<int64_t>& row_bytes) {
  const int64_t room = RoomOf(members->count());
  const int64_t most_piece_rows = RoomOf(1);
  int32_t* const sent = members->Put(m, round->sent[m]);
  int32_t* const told = members->Memory<int32_t>(round->sent[m].size());
  RowCounts there = {sent, nullptr, kCountsAPiece, room, most_piece_rows, told};
  RowCounts back = {told, sent, kCountsAPiece, room, most_piece_rows};
  for (size_t a = 0; a < row_bytes.size(); ++a) {
    std::vector<char> rows = BytesOf(*round, r, static_cast<int>(a), m, false, row_bytes[a]);
    rows.push_back(0);  // never empty
    const std::vector<char> empty(static_cast<size_t>(room * row_bytes[a] + 16), -1);  // guarded
    char* const far = members->Put(m, empty);
    there.more.push_back({members->Put(m, rows), far, row_bytes[a]});
    back.more.push_back({far, members->Put(m, empty), row_bytes[a]});
  }
  for (RowCounts* const counts : {&there, &back}) {
    Call call = CallOf(CallKind::kAllToAllCounted, row_bytes[0], counts == &there ? 1 : 2);
    call.from = counts->more[0].from;
    call.to = counts->more[0].to;
    counts->more.erase(counts->more.begin());
    call.rows = members->Keep(*counts);
    members->Enqueue(m, call);
    for (int a = 0; a < ArraysOf(call); ++a) {
      const auto size = static_cast<size_t>(room * row_bytes[a] + 16);
      (counts == &there ? round->got : round->back)[m].push_back(
          members->Fetch(m, static_cast<char*>(ArrayOf(call, a).to), size));
    }
  }
  round->told[m] = members->Fetch(m, told, round->sent[m].size());
}

void ExpectRows(const std::vector<RowsRound>& rounds, size_t r, int m,
                const std::vector<int64_t>& row_bytes) {
  const RowsRound& round = rounds[r];
  for (size_t from = 0; from < round.sent.size(); ++from) {
    for (int k = 0; k < kCountsAPiece; ++k) {
      ASSERT_EQ(round.told.at(m)[from * kCountsAPiece + k],
                round.sent[from][static_cast<size_t>(m) * kCountsAPiece + k])
          << r << " " << m;
    }
  }
  for (size_t a = 0; a < row_bytes.size(); ++a) {
    for (const bool received : {true, false}) {
      const auto bytes = BytesOf(round, r, static_cast<int>(a), m, received, row_bytes[a]);
      const char* const got = (received ? round.got : round.back).at(m)[a];
      ASSERT_EQ(std::vector<char>(got, got + bytes.size()), bytes)
          << "round " << r << " member " << m << " array " << a << (received ? "" : " back");
      // Nothing is written behind the rows; of told ones, behind their room.
      const int64_t room = RoomOf(static_cast<int>(round.sent.size())) * row_bytes[a];
      ASSERT_EQ(got[received ? room : static_cast<int64_t>(bytes.size())], -1) << r << " " << m;
    }
  }
}

// Counts that the receivers are told by the call, then known ones; several rounds of both on the
// same streams. Several arrays with rows of all kinds of length. The last round fills every piece
// and all the room that there is.
void CountedRowsFollowTheirCounts(const NewGroupMachine& make, int n, unsigned seed) {
  std::mt19937 random(seed);
  const std::vector<std::vector<int64_t>> kinds = {{1}, {8, 4}, {48, 4, 6, 1}};
  for (const std::vector<int64_t>& row_bytes : kinds) {
    GroupMembers members(make(), n);
    std::vector<RowsRound> rounds(4);
    for (RowsRound& round : rounds) {
      const bool full = &round == &rounds.back();
      for (int m = 0; m < n; ++m) {
        std::vector<int32_t>& sent = round.sent.emplace_back();
        for (int i = 0; i < n * kCountsAPiece; ++i) {
          const auto some = static_cast<int32_t>(random() % (kMostOfACount + 1));
          sent.push_back(full ? kMostOfACount : some);
        }
      }
    }
    for (size_t r = 0; r < rounds.size(); ++r) {
      for (const int m : members.local()) EnqueueRows(&members, r, &rounds[r], m, row_bytes);
    }
    const absl::Status status = members.Run();
    ASSERT_TRUE(status.ok()) << status;
    for (size_t r = 0; r < rounds.size(); ++r) {
      for (const int m : members.local()) ExpectRows(rounds, r, m, row_bytes);
    }
  }
}

// A call's plan is not overwritten by the next call, which is on other streams.
void CountedCallsOnOtherStreamsWaitForEachOther(const NewGroupMachine& make, int count, unsigned) {
  GroupMembers members(make(), count);
  const auto sent = [count](int m, int each) {
    std::vector<int32_t> values;
    for (int i = 0; i < each * count; ++i) values.push_back(100 * m + i);
    return values;
  };
  constexpr int kRounds = 6;
  std::vector<std::map<int, const int32_t*>> got(kRounds);
  for (int r = 0; r < kRounds; ++r) {
    for (const int m : members.local()) {
      const StreamId stream = members.device().NewStream({}, 16);
      const auto each = static_cast<int32_t>(r + 1);  // rows to everybody
      const std::vector<int32_t> values = sent(m, each);
      auto* const from = members.Memory<int32_t>(values.size());
      auto* const to = members.Memory<int32_t>(values.size());
      auto* const counts = members.Memory<int32_t>(count);
      members.Do(stream, [=] {
        std::copy(values.begin(), values.end(), from);
        std::fill_n(counts, count, each);
      });
      Call call = CallOf(CallKind::kAllToAllCounted, 4, 1);
      call.from = from;
      call.to = to;
      call.rows = members.Keep({counts, counts, 1, int64_t{each} * count});
      members.Enqueue(m, call, stream);
      got[r][m] = to;
    }
  }
  const absl::Status status = members.Run();
  ASSERT_TRUE(status.ok()) << status;
  for (int r = 0; r < kRounds; ++r) {
    const int each = r + 1;
    for (const int m : members.local()) {
      for (int i = 0; i < each * count; ++i) {
        ASSERT_EQ(got[r][m][i], sent(i / each, each)[m * each + i % each])
            << r << " " << m << " " << i;
      }
    }
  }
}

// The sender overwrites its buffer right after each send, and the receiver reads its own right
// after each receive.
void MessagesCarryWhatWasThereWhenTheyWereSent(const NewGroupMachine& make, int count, unsigned) {
  if (count < 2) return;
  GroupMembers members(make(), count);
  auto* const from = members.Memory<int>(1);
  auto* const to = members.Memory<int>(1);
  std::vector<int> got;
  constexpr int kMessages = 10;
  for (int i = 0; i < kMessages && members.Has(1); ++i) {
    Call recv = CallOf(CallKind::kRecv, sizeof(int), i, 0);
    recv.to = to;
    members.Enqueue(1, recv);
    members.Do(1, [&got, to] { got.push_back(*to); });
  }
  for (int i = 0; i < kMessages && members.Has(0); ++i) {
    members.Do(0, [from, i] { *from = i; });
    Call send = CallOf(CallKind::kSend, sizeof(int), i, 1);
    send.from = from;
    members.Enqueue(0, send);
  }
  const absl::Status status = members.Run();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(got.size(), members.Has(1) ? size_t{kMessages} : 0u);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], static_cast<int>(i));
}

#define CONTRACT(name) \
  { #name, name }
// The last contract is for GPUs only.
constexpr NamedContract kContracts[] = {
    CONTRACT(AnAllReduceAddsUpInTheOrderOfTheMembers),
    CONTRACT(PiecesGoWhereTheyBelong),
    CONTRACT(PiecesNeedNotBeAlike),
    CONTRACT(CountedRowsFollowTheirCounts),
    CONTRACT(MessagesCarryWhatWasThereWhenTheyWereSent),
    CONTRACT(CountedCallsOnOtherStreamsWaitForEachOther),
};
#undef CONTRACT

}  // namespace

absl::Span<const NamedContract> GroupContracts() {
  return absl::MakeConstSpan(kContracts, std::size(kContracts) - 1);
}
absl::Span<const NamedContract> GpuGroupContracts() { return kContracts; }

}  // namespace stringline
