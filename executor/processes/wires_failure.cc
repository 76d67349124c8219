// What happens when something fails: who notices it, who decides what it was, and who is told. The
// reading thread looks at deadlines now and then.
//
// Failures may be noticed in several places at once. The first process that is left decides which
// one it is: the first that it has noticed or was told of. Where somebody waited too long or a
// process died, it asks all others what they know before it says so. If it does not decide in time,
// the next process does.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/clock.h"
#include "executor/processes/wires.h"

namespace stringline {
namespace {

// So soon the connections tell of a death that somebody else has noticed.
constexpr std::chrono::milliseconds kSoon(300);

}  // namespace

std::vector<int> Wires::RanksOf(int process) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < world_->ranks(); ++rank) {
    if (process_of_rank_[rank] == process) ranks.push_back(rank);
  }
  return ranks;
}

std::string Wires::NameOf(int process) const {
  const std::vector<int> ranks = RanksOf(process);
  if (ranks.size() == 1) return NameOfRank(ranks[0]);
  return absl::StrCat("process ", process, " with ranks ", absl::StrJoin(ranks, ", "),
                      process < static_cast<int>(hosts_.size()) ? " on " + hosts_[process] : "");
}

std::string Wires::NameOfRank(int rank) const {
  const int process = process_of_rank_[rank];
  return absl::StrCat("rank ", rank,
                      process < static_cast<int>(hosts_.size()) ? " on " + hosts_[process] : "");
}

void Wires::Lost(int process, const std::string& why) {
  Peer& peer = peers_[process];
  (void)close(peer.fd);
  peer.fd = -1;
  peer.outgoing.clear();
  if (!peer.left && !stopping_) {
    return Notice({absl::UnavailableError(
                       absl::StrCat(NameOf(process), " died, or ended without a word: ", why)),
                   process});
  }
  bool awaited = false;
  ForWaitingEnds([&](const End& /*end*/, int /*rank*/, int of) {
    awaited = awaited || process_of_rank_[of] == process;
  });
  if (!awaited) return;
  Notice({absl::UnavailableError(absl::StrCat(NameOf(process), " has ended its run")), process});
}

// Every end of this process that waits, with its rank and the one that it waits for.
template <typename Visit>
void Wires::ForWaitingEnds(Visit visit) const {
  for (const Members& group : groups_) {
    const size_t n = group.ranks.size();
    for (size_t i = 0; i < group.lanes.size(); ++i) {
      const Lane& lane = group.lanes[i];
      const int from = group.ranks[i / n], to = group.ranks[i % n];
      if (!lane.receives.empty()) visit(lane.receives.front(), to, from);
      if (!lane.sends.empty()) visit(lane.sends.front(), from, to);
    }
  }
}

WireAnswer Wires::OwnAnswer() const {
  WireAnswer answer;
  const int64_t now_ns = NowNs();
  ForWaitingEnds([&](const End& end, int rank, int peer) {
    const Call& call = *end.transfer.call;
    answer.waits.push_back({rank, peer, now_ns - end.since_ns, DescribeWithAction(call),
                            call.action.print == nullptr ? -1 : call.action.index});
  });
  for (const Ended& ended : ended_) {
    if (ended.rank < 0) continue;
    answer.messages.push_back(
        {ended.rank, ended.peer, now_ns - ended.ended_ns, DescribeWithAction(ended.call)});
  }
  if (states_ != nullptr) answer.states = states_->Now();
  return answer;
}

WireAnswers Wires::AllAnswers() const {
  WireAnswers answers;
  answers.Add(OwnAnswer());
  for (const Peer& peer : peers_) {
    if (peer.answer) answers.Add(*peer.answer);
  }
  for (int rank = 0; rank < world_->ranks(); ++rank) {
    const int process = process_of_rank_[rank];
    answers.names.push_back(NameOfRank(rank));
    answers.answered.push_back(process == world_->process() || peers_[process].answer.has_value());
  }
  return answers;
}

void Wires::Fail(const absl::Status& status) {
  const Lock lock(mutex_);
  Notice({status});
}

absl::Status Wires::Agree(const absl::Status& status) {
  const absl::Status told = world_->state();
  Lock lock(mutex_);
  if (!connected_ || status == failure_) return status;
  if (status != told) {
    // It is of this process alone; the others are told whose it is.
    Notice({absl::AbortedError(absl::StrCat(NameOf(world_->process()), ": ", status.message()))});
    return status;
  }
  const auto settled = [this] { return !failure_.ok(); };
  if (!settled_.wait_for(lock, kSoon, settled)) Notice({status, -1, world_->late()});
  const int64_t most_ms = settings_.ask_ms + settings_.decide_ms * world_->processes();
  (void)settled_.wait_for(lock, std::chrono::milliseconds(most_ms), settled);
  return failure_.ok() ? status : failure_;
}

void Wires::TellStates(const RankStates* states) {
  const Lock lock(mutex_);
  states_ = states;
  if (states == nullptr) std::fill(ended_.begin(), ended_.end(), Ended{.rank = -1});
}

int Wires::Decider() const {
  int process = 0;
  while (process < world_->process() &&
         (peers_[process].fd < 0 || peers_[process].left || peers_[process].silent)) {
    ++process;
  }
  return process;
}

void Wires::Notice(Trouble trouble) {
  if (!failure_.ok()) return;
  if (trouble.dead >= world_->processes()) trouble.dead = -1;
  // Who is dead is no longer only late.
  const bool first = noticed_.status.ok();
  const bool surer = trouble.dead >= 0 && absl::IsDeadlineExceeded(noticed_.status);
  if (!first && !surer) return;
  noticed_ = std::move(trouble);
  if (first) noticed_ns_ = NowNs();
  told_ = -1;
  TellDecider();
}

// Again whenever it is another one.
void Wires::TellDecider() {
  const int decider = Decider();
  if (decider == told_) return;
  told_ = decider;
  if (decider == world_->process()) return Decide();
  Tell(decider, FrameKind::kNoticed, noticed_);
}

void Wires::Decide() {
  if (noticed_.dead < 0 && !absl::IsDeadlineExceeded(noticed_.status)) {
    return Settle(noticed_.status);
  }
  if (!asked_) {
    asked_ = true;
    noticed_ns_ = NowNs();
    for (int p = 0; p < static_cast<int>(peers_.size()); ++p) {
      Put(p, {{.kind = FrameKind::kAsk}});
    }
  }
  EndInquiry();
}

void Wires::EndInquiry() {
  const auto open = [](const Peer& peer) {
    return peer.fd >= 0 && !peer.left && !peer.deaf && !peer.answer;
  };
  const bool all = std::none_of(peers_.begin(), peers_.end(), open);
  if (!all && NowNs() < noticed_ns_ + settings_.ask_ms * 1'000'000) return;
  const WireAnswers answers = AllAnswers();
  const std::string said(noticed_.status.message());
  if (noticed_.dead >= 0) {
    return Settle(
        absl::Status(noticed_.status.code(), said + DescribeLost(answers, RanksOf(noticed_.dead))));
  }
  const std::string blame = DescribeBlame(answers);
  Settle(absl::DeadlineExceededError(blame.empty() ? DescribeLate(answers) : blame));
}

// No message is waited for: somebody did not come to an exchange of the hosts.
std::string Wires::DescribeLate(const WireAnswers& answers) const {
  std::string text(noticed_.status.message());
  std::vector<int> ranks;
  for (const int process : noticed_.late) {
    for (const int rank : RanksOf(process)) ranks.push_back(rank);
  }
  // Who does not answer is late, whether or not it is known to be.
  for (int rank = 0; rank < world_->ranks() && ranks.empty(); ++rank) {
    if (!answers.answered[rank]) ranks.push_back(rank);
  }
  if (ranks.empty()) return text;
  return absl::StrCat(DescribeDoing(answers, ranks), "; ", text, DescribeKnown(answers, ranks));
}

void Wires::Settle(absl::Status status) {
  if (!failure_.ok()) return;
  failure_ = std::move(status);
  for (int p = 0; p < static_cast<int>(peers_.size()); ++p) {
    if (Decider() == world_->process()) Tell(p, FrameKind::kFail, {failure_});
  }
  device_->Fail(failure_);
  settled_.notify_all();
}

void Wires::Tell(int process, FrameKind kind, const Trouble& trouble) {
  Outgoing told;
  told.header.kind = kind;
  told.header.peer = trouble.dead;
  told.header.to = trouble.late.empty() ? -1 : trouble.late[0];
  told.header.index = static_cast<int64_t>(trouble.status.code());
  told.text = std::string(trouble.status.message().substr(0, kMostText));
  Put(process, std::move(told));
}

void Wires::CheckDeadline() {
  if (!failure_.ok()) return;
  if (!noticed_.status.ok()) {
    TellDecider();
    if (asked_) return EndInquiry();
    if (NowNs() < noticed_ns_ + settings_.decide_ms * 1'000'000) return;
    peers_[told_].silent = true;
    noticed_ns_ = NowNs();
    return TellDecider();
  }
  if (settings_.wait_ms == 0) return;
  const int64_t before_ns = NowNs() - settings_.wait_ms * 1'000'000;
  const End* late = nullptr;
  int late_rank = 0, awaited = 0;
  ForWaitingEnds([&](const End& end, int rank, int peer) {
    if (end.since_ns > before_ns || (late != nullptr && late->since_ns <= end.since_ns)) return;
    late = &end;
    late_rank = rank;
    awaited = peer;
  });
  if (late == nullptr) return;
  Notice({absl::DeadlineExceededError(absl::StrCat(
      NameOfRank(late_rank), " waited ", static_cast<double>(settings_.wait_ms) / 1000, " s in ",
      DescribeWithAction(*late->transfer.call), " for ", NameOfRank(awaited)))});
}

}  // namespace stringline
