// A meeting in three phases: the children's parts come up, the result comes from above, and goes
// down to the children. The rest is what happens when somebody is missing.
#include "executor/processes/tree_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/engine/lost_process.h"
#include "executor/engine/packed_numbers.h"
#include "executor/processes/reach_first.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// Before a deadline, the time in which others may say where they are.
constexpr int64_t kMostAnswerMs = 2'000;
// All answer, and nothing comes: so often they are asked again.
constexpr int kMostRounds = 3;
// Process 0 has so long to say what went wrong.
constexpr int64_t kWordOfFirstNs = 1'000 * kWorldMs;

// The ranks of processes: blocks one behind the other, as even as possible.
int FirstRankOf(int process, int ranks, int processes) {
  return static_cast<int>(int64_t{process} * ranks / processes);
}

std::vector<int> RanksOf(int process, int ranks, int processes) {
  std::vector<int> of;
  const int end = FirstRankOf(process + 1, ranks, processes);
  for (int rank = FirstRankOf(process, ranks, processes); rank < end; ++rank) of.push_back(rank);
  return of;
}

int ProcessOf(int rank, int ranks, int processes) {
  int process = 0;
  while (FirstRankOf(process + 1, ranks, processes) <= rank) ++process;
  return process;
}

int64_t AnswerNs(int64_t wait_ms) { return std::min(wait_ms / 2, kMostAnswerMs) * kWorldMs; }

}  // namespace

TreeWorld::TreeWorld(const Shape& shape, int64_t wait_ms)
    : place_(PlaceInTree(shape.process, shape.processes, shape.fan_out)),
      processes_(shape.processes),
      ranks_(shape.ranks > 0 ? shape.ranks : shape.processes),
      local_(RanksOf(shape.process, ranks_, processes_)),
      hosts_(static_cast<size_t>(processes_), shape.host),
      wait_ms_(wait_ms),
      meeting_(&place_) {}

std::string TreeWorld::NameOfRank(int rank) const {
  return absl::StrCat("rank ", rank, " on ", hosts_[ProcessOf(rank, ranks_, processes_)]);
}

std::string TreeWorld::NameOfProcess(int process) const {
  const std::string on = absl::StrCat(" on ", hosts_[process]);
  const std::vector<int> block = RanksOf(process, ranks_, processes_);
  if (block.size() == 1) return absl::StrCat("rank ", block[0], on);
  return absl::StrCat("process ", process, " with ranks ", absl::StrJoin(block, ", "), on);
}

std::string TreeWorld::Goodbye() const { return absl::StrCat(meeting_.completed()); }

// Meetings.

absl::StatusOr<std::vector<std::string>> TreeWorld::Exchange(absl::string_view mine) {
  SL_ASSIGN_OR_RETURN(const std::string all, MeetWith(mine, /*to_all=*/true));
  return PartsOf(all);
}

absl::StatusOr<std::vector<std::string>> TreeWorld::GiveToFirst(absl::string_view mine) {
  SL_ASSIGN_OR_RETURN(const std::string all, MeetWith(mine, /*to_all=*/false));
  if (!first()) return std::vector<std::string>(static_cast<size_t>(processes_));
  return PartsOf(all);
}

absl::StatusOr<std::vector<std::string>> TreeWorld::PartsOf(absl::string_view all) {
  auto parts = Unpack(all);
  if (parts.has_value() && static_cast<int>(parts->size()) == processes_) return *std::move(parts);
  return Unreadable();
}

absl::Status TreeWorld::Unreadable() {
  SetFailure(absl::InternalError("what all gave cannot be read"));
  return failure_;
}

// Packed texts one behind the other are the packed texts of a block, in its order.
absl::StatusOr<std::string> TreeWorld::MeetWith(absl::string_view mine, bool to_all) {
  return Meet(
      [mine](absl::Span<const std::string> parts) -> std::optional<std::string> {
        std::string all = Pack({std::string(mine)});
        for (const std::string& part : parts) all += part;
        return all;
      },
      to_all);
}

int64_t TreeWorld::BytesOfSum(const TreePlace& place, int64_t numbers) {
  const auto neighbours = static_cast<int64_t>(place.children.size()) + (place.parent < 0 ? 0 : 1);
  return neighbours * (kFrameHeaderBytes + numbers * static_cast<int64_t>(sizeof(uint64_t)));
}

absl::Status TreeWorld::Sum(absl::Span<uint64_t> numbers) {
  if (processes_ == 1) return absl::OkStatus();
  const size_t bytes = numbers.size() * sizeof(uint64_t);
  const auto add = [&](absl::Span<const std::string> parts) -> std::optional<std::string> {
    for (const std::string& part : parts) {
      if (part.size() != bytes) return std::nullopt;
      NumberReader theirs(part);
      for (uint64_t& number : numbers) number += theirs.Take<uint64_t>();
    }
    PackedNumbers sums;
    sums.AddAll<uint64_t>(numbers);
    return sums.bytes();
  };
  SL_ASSIGN_OR_RETURN(const std::string sums, Meet(add, /*to_all=*/true));
  if (sums.size() != bytes) return Unreadable();
  NumberReader(sums).TakeAll(numbers);
  return absl::OkStatus();
}

absl::StatusOr<std::string> TreeWorld::Meet(Joining join, bool to_all) {
  if (processes_ == 1) return *join({});
  SL_RETURN_IF_ERROR(failure_);
  meeting_.Begin();
  WaitAnew();
  for (const int process : std::exchange(asked_.by, {})) Send(process, FrameKind::kWaiting, "");
  if (asked_.of == meeting_.number()) TellWhereIAm();
  std::optional<std::string> all = GoUp(join);
  // A result that came before a failure comes to all.
  if (all.has_value()) HandDown(first() && !to_all ? "" : *all);
  meeting_.End();
  if (!all.has_value()) return failure_;
  return *std::move(all);
}

std::optional<std::string> TreeWorld::GoUp(Joining join) {
  AwaitUntil([this] { return meeting_.all_gave(); });
  if (!failure_.ok()) return std::nullopt;
  std::optional<std::string> joined = join(meeting_.TakeParts());
  if (!joined.has_value()) (void)Unreadable();
  if (!joined.has_value() || first()) return joined;
  AwaitUntil([this] { return Reaches(place_.parent); });
  if (!failure_.ok()) return std::nullopt;
  Send(place_.parent, FrameKind::kGive, *joined);
  AwaitUntil([this] { return meeting_.has_result(); });
  return meeting_.TakeResult();
}

// A process does other things only when its children can have what is theirs.
void TreeWorld::HandDown(absl::string_view bytes) {
  meeting_.BeginDown();
  for (const ProcessBlock& child : place_.children) Send(child.first, FrameKind::kAll, bytes);
  const auto unsent = [this](const ProcessBlock& child) { return HasUnsent(child.first); };
  const auto sent = [&] {
    return std::none_of(place_.children.begin(), place_.children.end(), unsent);
  };
  if (sent()) return;
  WaitAnew();
  AwaitUntil(sent);
}

void TreeWorld::AwaitUntil(absl::FunctionRef<bool()> done) {
  while (failure_.ok() && !done()) {
    Check();
    if (failure_.ok()) Look(NextNs() - NowNs());
  }
}

int64_t TreeWorld::NextNs() const {
  int64_t next_ns = times_.until_ns;
  if (!asked_.done) next_ns = std::min(next_ns, times_.ask_ns);
  if (!suspicion_.status.ok()) next_ns = std::min(next_ns, suspicion_.until_ns);
  return next_ns;
}

// Others wait longer than process 0 does, so that process 0 says what is wrong.
void TreeWorld::WaitAnew() {
  const int64_t all_come_ns = NowNs() + wait_ms_ * kWorldMs;
  times_.until_ns = all_come_ns + (first() ? 0 : kWorldGraceNs);
  times_.ask_ns = all_come_ns - AnswerNs(wait_ms_);
  asked_.done = false;
  asked_.rounds = 0;
  BeginsToWait();
}

absl::Status TreeWorld::state() {
  if (processes_ == 1) return absl::OkStatus();
  Look(0);
  if (!suspicion_.status.ok() && NowNs() >= suspicion_.until_ns) AdoptSuspicion();
  return failure_;
}

void TreeWorld::Fail(const absl::Status& status) {
  if (!failure_.ok() || processes_ == 1) return;
  SetFailure(ToldBy(NameOfProcess(process()), status));
  Look(0);
}

// Process 0 waits longer when it hears of it; others ask, and are told.
void TreeWorld::Working() {
  const int64_t pause_ns = std::min(kTellWorkNs, wait_ms_ * kWorldMs / 4);
  if (processes_ == 1 || NowNs() < times_.told_working_ns + pause_ns) return;
  times_.told_working_ns = NowNs();
  if (!first()) Send(0, FrameKind::kWaiting, "");
  for (const int process : asked_.by) Send(process, FrameKind::kWaiting, "");
  asked_.works = true;
  Look(0);
  asked_.works = false;
}

bool TreeWorld::FirstAnswers(int64_t most_ms) {
  if (first()) return true;
  const int64_t asked_ns = NowNs(), until_ns = asked_ns + most_ms * kWorldMs;
  Send(0, FrameKind::kWaiting, "");
  BeginsToWait();
  while (failure_.ok() && times_.first_heard_ns < asked_ns && NowNs() < until_ns) {
    Look(until_ns - NowNs());
  }
  return !failure_.ok() || times_.first_heard_ns >= asked_ns;
}

// Words that come.

void TreeWorld::Handle(int peer, FrameKind kind, std::string bytes) {
  if (peer == 0) times_.first_heard_ns = NowNs();
  const bool waits = meeting_.under_way();
  bool expected = true;
  if (kind == FrameKind::kGive) {
    expected = meeting_.Give(peer, std::move(bytes));
  } else if (kind == FrameKind::kAll) {
    expected = meeting_.TellResult(peer, std::move(bytes));
  } else if (kind == FrameKind::kWaiting) {
    if (waits) WaitAnew();
    if (first()) Send(peer, FrameKind::kWaiting, "");
  } else if (kind == FrameKind::kAwaited) {
    if (waits || asked_.works) Send(peer, FrameKind::kWaiting, "");
    if (!waits) asked_.by.insert(peer);
  } else if (kind == FrameKind::kAsk && peer == 0) {
    (void)absl::SimpleAtoi(bytes, &asked_.of);
    if (waits) WaitAnew();
    TellWhereIAm();
  } else if (kind == FrameKind::kAnswer && first()) {
    std::optional<TreeAnswer> answer = DecodeTreeAnswer(bytes);
    if (answer.has_value()) asked_.answers.Add(peer, *std::move(answer));
  } else if (kind == FrameKind::kFail) {
    std::vector<int> late;
    const absl::Status told = AsTold(ReadFail(bytes, &late));
    if (!first() && peer != 0) return Suspect(told, std::move(late));
    if (failure_.ok()) late_ = std::move(late);
    SetFailure(told, peer);
  } else if (kind == FrameKind::kBye) {
    left_.insert(peer);
    if (peer == 0) (void)absl::SimpleAtoi(bytes, &first_completed_);
  } else {
    expected = false;
  }
  if (!expected)
    SetFailure(absl::InternalError(NameOfProcess(peer) + " says what it should not now"));
}

void TreeWorld::Lost(int peer, const std::string& why) {
  if (left_.count(peer) > 0 || !failure_.ok()) return;
  absl::Status lost = AsLost(absl::UnavailableError(
      absl::StrCat(NameOfProcess(peer), " died, or ended without a word: ", why)));
  if (first() || peer == 0) {
    SetFailure(std::move(lost));
  } else {
    Suspect(std::move(lost));
  }
}

void TreeWorld::SetFailure(absl::Status status, int except) {
  if (!failure_.ok()) return;
  failure_ = std::move(status);
  const std::string bytes = FailBytes(failure_, late_);
  const auto tell = [&](int p) {
    if (p != except && p != process()) Send(p, FrameKind::kFail, bytes);
  };
  if (first()) {
    for (int p = 1; p < processes_; ++p) tell(p);
    return;
  }
  tell(0);
  if (place_.parent != 0) tell(place_.parent);
  for (const ProcessBlock& child : place_.children) tell(child.first);
}

void TreeWorld::Suspect(absl::Status status, std::vector<int> late) {
  if (!failure_.ok() || !suspicion_.status.ok()) return;
  suspicion_ = {std::move(status), std::move(late), NowNs() + kWordOfFirstNs};
}

void TreeWorld::AdoptSuspicion() {
  if (!failure_.ok()) return;
  late_ = suspicion_.late;
  SetFailure(suspicion_.status);
}

// Missing processes.

void TreeWorld::Check() {
  const int64_t now_ns = NowNs();
  if (!suspicion_.status.ok() && (now_ns >= suspicion_.until_ns || left_.count(0) > 0)) {
    return AdoptSuspicion();
  }
  CheckLeft();
  if (!failure_.ok()) return;
  if (!asked_.done && now_ns >= times_.ask_ns) Ask();
  if (now_ns >= times_.until_ns) CheckDeadline();
}

// No process leaves a meeting in which it is before process 0 has everything.
void TreeWorld::CheckLeft() {
  if (left_.empty() || meeting_.phase() == TreeMeeting::Phase::kDown) return;
  const auto ended = [this](int process) {
    return AsLost(absl::UnavailableError(
        absl::StrCat(NameOfProcess(process), " has ended its run, and the others go on")));
  };
  if (first()) return SetFailure(ended(*left_.begin()));
  if (left_.count(0) > 0 && first_completed_ < meeting_.number()) return SetFailure(ended(0));
  for (const int process : meeting_.Awaited()) {
    if (process != 0 && left_.count(process) > 0) Suspect(ended(process));
  }
}

void TreeWorld::Ask() {
  asked_.done = true;
  const std::string number = absl::StrCat(meeting_.number());
  if (!first()) {
    Send(place_.parent, FrameKind::kAwaited, number);
    if (place_.parent != 0) Send(0, FrameKind::kAwaited, number);
    return;
  }
  asked_.answers.Clear();
  if (meeting_.phase() != TreeMeeting::Phase::kUp) return;
  for (const ProcessBlock& block : meeting_.Missing()) {
    for (int p = block.first; p < block.end; ++p) Send(p, FrameKind::kAsk, number);
  }
}

void TreeWorld::TellWhereIAm() {
  Send(0, FrameKind::kAnswer,
       Encode(TreeAnswer{meeting_.number(), meeting_.under_way(), meeting_.Awaited()}));
}

void TreeWorld::CheckDeadline() {
  if (meeting_.phase() == TreeMeeting::Phase::kDown) {
    std::vector<int> slow;
    for (const ProcessBlock& child : place_.children) {
      if (HasUnsent(child.first)) slow.push_back(child.first);
    }
    return FailLate(std::move(slow));
  }
  if (first()) return JudgeMissing();
  FailLate({place_.parent});
}

void TreeWorld::JudgeMissing() {
  std::vector<int> late;
  for (const ProcessBlock& block : meeting_.Missing()) {
    for (int p = block.first; p < block.end; ++p) {
      if (asked_.answers.IsLate(p, meeting_.number())) late.push_back(p);
    }
  }
  if (!late.empty()) return FailLate(std::move(late));
  if (++asked_.rounds > kMostRounds) return SetFailure(DescribeMissing());
  Ask();
  times_.until_ns = NowNs() + AnswerNs(wait_ms_);
}

void TreeWorld::FailLate(std::vector<int> late) {
  late_ = std::move(late);
  const auto name = [this](std::string* text, int p) { text->append(NameOfProcess(p)); };
  SetFailure(AsLost(absl::DeadlineExceededError(absl::StrCat(
      absl::StrJoin(late_, ", ", name), " did not come within ", SecondsOf(wait_ms_)))));
}

// All are there, and yet something is missing: a child's part that its parent waits for.
absl::Status TreeWorld::DescribeMissing() {
  asked_.answers.Add(0, {meeting_.number(), true, meeting_.Awaited()});
  const auto severed = asked_.answers.Severed();
  const std::string within = absl::StrCat(" within ", SecondsOf(wait_ms_));
  if (!severed.has_value()) {
    return AsLost(absl::DeadlineExceededError(
        absl::StrCat("what ", NameOfProcess(meeting_.Missing().front().first),
                     " and others gave did not come", within, ", though all are there")));
  }
  const auto [parent, child] = *severed;
  return AsLost(absl::DeadlineExceededError(
      absl::StrCat("what ", NameOfProcess(child), " gave did not come to ", NameOfProcess(parent),
                   within, ", though both answer: nothing passes between them")));
}

}  // namespace stringline
