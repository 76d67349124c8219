// What happens when something fails: who noticed it, who decides what it was, and who is told. The
// reading thread looks at deadlines now and then.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/clock.h"
#include "executor/processes/wires.h"

namespace stringline {
namespace {

constexpr int64_t kAskNs = 1'000'000'000;     // so long process 0 waits for answers
constexpr int64_t kAnswerNs = 3'000'000'000;  // so long process 0 may take to say what failed

}  // namespace

std::string Wires::NameOf(int process) const {
  return absl::StrCat("process ", process, " on ", hosts_[process]);
}

void Wires::Lost(int process, const std::string& why) {
  Peer& peer = peers_[process];
  (void)close(peer.fd);
  peer.fd = -1;
  peer.outgoing.clear();
  if (peer.left || stopping_) {
    if (AwaitedFrom(process).empty()) return;
    return SetFailure(absl::UnavailableError(
        absl::StrCat(NameOf(process), " has ended its run", AwaitedFrom(process))));
  }
  SetFailure(absl::UnavailableError(absl::StrCat(
      NameOf(process), " died, or ended without a word: ", why, AwaitedFrom(process))));
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

// "; a receive of … waited for it", or "".
std::string Wires::AwaitedFrom(int process) const {
  const End* awaited = nullptr;
  ForWaitingEnds([&](const End& end, int /*rank*/, int peer) {
    if (awaited == nullptr && process_of_rank_[peer] == process) awaited = &end;
  });
  if (awaited == nullptr) return "";
  return absl::StrCat("; ", DescribeWithAction(*awaited->transfer.call), " waited for it");
}

std::vector<RankWait> Wires::OwnWaits() const {
  std::vector<RankWait> waits;
  const int64_t now_ns = NowNs();
  ForWaitingEnds([&](const End& end, int rank, int peer) {
    waits.push_back({rank, peer, now_ns - end.since_ns, DescribeWithAction(*end.transfer.call)});
  });
  return waits;
}

void Wires::Fail(const absl::Status& status) {
  const Lock lock(mutex_);
  SetFailure(status);
}

// Failures may be noticed in several places at once. Process 0 says which one it is: the first that
// it has noticed or was told of. Before it says that somebody waited too long, it asks all what
// they wait for.
void Wires::SetFailure(absl::Status status, int told_by) {
  if (!failure_.ok()) return;
  const bool decides = world_->process() == 0;
  if (!decides && told_by != 0 && peers_[0].fd >= 0) {
    if (!noticed_.ok()) return;
    noticed_ = std::move(status);
    noticed_ns_ = NowNs();
    return Tell(0, noticed_);
  }
  if (decides && absl::IsDeadlineExceeded(status)) return Inquire(std::move(status));
  Settle(std::move(status));
}

void Wires::Settle(absl::Status status) {
  failure_ = std::move(status);
  for (int p = 0; p < static_cast<int>(peers_.size()); ++p) {
    if (world_->process() == 0 || peers_[0].fd < 0) Tell(p, failure_);
  }
  device_->Fail(failure_);
}

void Wires::Inquire(absl::Status status) {
  if (!noticed_.ok()) return;  // it does so already
  noticed_ = std::move(status);
  noticed_ns_ = NowNs();
  for (int p = 1; p < static_cast<int>(peers_.size()); ++p) {
    Put(p, {{.kind = FrameKind::kAsk}});
  }
}

void Wires::EndInquiry() {
  const auto open = [](const Peer& peer) { return peer.fd >= 0 && !peer.waits; };
  const bool all = std::none_of(peers_.begin() + 1, peers_.end(), open);
  if (!all && NowNs() < noticed_ns_ + kAskNs) return;
  WaitingRanks ranks;
  ranks.waits = OwnWaits();
  for (const Peer& peer : peers_) {
    if (peer.waits) ranks.waits.insert(ranks.waits.end(), peer.waits->begin(), peer.waits->end());
  }
  for (int rank = 0; rank < world_->ranks(); ++rank) {
    const int process = process_of_rank_[rank];
    ranks.names.push_back(absl::StrCat("rank ", rank, " on ", hosts_[process]));
    ranks.answered.push_back(process == 0 || peers_[process].waits.has_value());
  }
  const std::string blame = DescribeBlame(ranks);
  Settle(blame.empty() ? noticed_ : absl::DeadlineExceededError(blame));
}

void Wires::Tell(int process, const absl::Status& status) {
  Outgoing fail;
  fail.header.kind = FrameKind::kFail;
  fail.header.index = static_cast<int64_t>(status.code());
  fail.text = std::string(status.message().substr(0, kMostText));
  Put(process, std::move(fail));
}

void Wires::CheckDeadline() {
  if (!failure_.ok()) return;
  if (!noticed_.ok() && world_->process() == 0) return EndInquiry();
  if (!noticed_.ok()) {
    if (NowNs() < noticed_ns_ + kAnswerNs) return;
    (void)close(peers_[0].fd);
    peers_[0].fd = -1;
    return Settle(absl::Status(
        noticed_.code(), absl::StrCat(noticed_.message(), "; ", NameOf(0), " does not answer")));
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
  SetFailure(absl::DeadlineExceededError(
      absl::StrCat("rank ", late_rank, " on ", hosts_[world_->process()], " waited ",
                   static_cast<double>(settings_.wait_ms) / 1000, " s in ",
                   DescribeWithAction(*late->transfer.call), " for rank ", awaited, " on ",
                   hosts_[process_of_rank_[awaited]])));
}

}  // namespace stringline
