// Ranks and queues are tasks on a list of tasks that may go on. A task goes as far as possible and
// wakes the tasks that may wait for its progress. When the list is empty, nothing can run any more.
#include "schedlang/check/replay.h"

#include <algorithm>

#include "schedlang/check/rules.h"

namespace stringline {
namespace {

// Walks every rank's list in issue order: a received value counts as live once its receive is
// issued.
bool IssuedInOrder(const Plan& plan) {
  LiveValues issued(plan);
  for (size_t i = 0; i < plan.actions.size();) {
    const auto group = GroupAt(plan.actions, i);
    for (size_t k = 0; k < group.size(); ++k) {
      if (issued.Missing(group, k) != 0) return false;
    }
    for (const Action& part : group) issued.Perform(part);
    i += group.size();
  }
  return true;
}

}  // namespace

Replay::Replay(const Plan& plan, CommLayout layout, int buffers, Collectives collectives)
    : plan_(plan),
      buffers_(buffers),
      channels_(ChannelsOf(plan)),
      queues_(QueuesOf(channels_, layout)),
      live_(plan),
      cursor_(plan.first.begin(), plan.first.end() - 1),
      ends_(channels_.all.size()),
      calls_(queues_.all.size()),
      queues_of_rank_(plan.ranks()) {
  for (size_t q = 0; q < queues_.all.size(); ++q) {
    queues_of_rank_[queues_.all[q].rank.value].push_back(static_cast<int>(q));
  }
  for (uint32_t i = 0; i < plan.actions.size(); ++i) {
    const Action& action = plan.actions[i];
    if (!IsMessage(action.kind)) continue;
    const int channel = channels_.Of(plan, action);
    // A message to its own rank, or without a peer, never goes: it blocks nothing but itself.
    if (channel < 0) {
      lost_ = true;
      continue;
    }
    const bool send = IsSend(action.kind);
    (send ? ends_[channel].sends : ends_[channel].recvs).push_back(i);
    Calls& calls = calls_[send ? queues_.of_send[channel] : queues_.of_recv[channel]];
    // Joined to a part of the same queue: the same call.
    const bool joins = action.joined && !calls.parts.empty() && InOneGroup(calls.parts.back(), i);
    if (!joins) calls.first.push_back(static_cast<uint32_t>(calls.parts.size()));
    calls.parts.push_back(i);
  }
  for (Calls& calls : calls_) calls.first.push_back(static_cast<uint32_t>(calls.parts.size()));
  if (!plan.rows.actions.empty()) PrepareOwn();
  collects_ = collectives == Collectives::kPerformed;
  if (collects_) PrepareCollectives();
}

void Replay::PrepareOwn() {
  for (int r = 0; r < plan_.ranks(); ++r) {
    own_next_.push_back(own_.size());
    for (uint32_t i = plan_.first[r]; i < plan_.first[r + 1]; ++i) {
      if (IsOwnNetwork(plan_.actions[i].kind)) own_.push_back(i);
    }
  }
  read_until_.assign(plan_.actions.size(), 0);
  for (int r = 0; r < plan_.ranks(); ++r) {
    OwnReaders readers;
    uint32_t group = plan_.first[r];
    for (uint32_t i = group; i < plan_.first[r + 1]; ++i) {
      if (!plan_.actions[i].joined) group = i;
      if (!IsOfMicrobatch(plan_.actions[i].kind)) continue;
      ForReadersOfReleased(plan_, i, &readers, [&](uint32_t reader) {
        if (!IsOwnNetwork(plan_.actions[reader].kind)) return;
        read_until_[group] = std::max(read_until_[group], reader + 1);
      });
    }
  }
  meetings_ = OwnMeetingsOf(plan_);
  come_.assign(plan_.actions.size(), 0);
  absent_.assign(meetings_.count(), static_cast<uint32_t>(plan_.ranks()));
}

// True if the action, which has its needs, need wait for no other rank; it has come now.
bool Replay::MeetsAt(uint32_t action) {
  const int32_t meeting = meetings_.Of(action);
  if (meeting < 0) return true;
  if (!come_[action]) {
    come_[action] = 1;
    if (--absent_[meeting] == 0) {
      for (const uint32_t member : meetings_.of(meeting)) {
        Wake(RankOf(plan_, plan_.actions[member]).value);
      }
    }
  }
  return absent_[meeting] == 0;
}

// Performs the own actions on the rank's network lane, each once all that the rank lists before it
// has ended.
void Replay::AdvanceOwn(int rank) {
  for (;;) {
    const uint32_t i = own_head(RankId(rank));
    if (i >= plan_.first[rank + 1] || i > cursor_[rank]) return;
    if (live_.Missing(plan_.actions[i]) != 0 || !MeetsAt(i)) return;
    live_.Perform(plan_.actions[i]);
    ++own_next_[static_cast<size_t>(rank)];
  }
}

void Replay::PrepareCollectives() {
  reductions_ = ReplicaReductionsOf(plan_);
  missing_.assign(reductions_.count(), 0);
  collected_ = cursor_;
  came_.assign(plan_.ranks(), 0);
  comes_.assign(plan_.actions.size(), 0);
  for (int k = 0; k < reductions_.count(); ++k) {
    for (const ReplicaReductions::Member& member : reductions_.of(k)) {
      comes_[member.action] = member.comes ? 1 : 0;
      missing_[k] += member.comes ? 1 : 0;
    }
  }
  gathered_.assign(plan_.actions.size(), 0);
  std::vector<uint32_t> last(plan_.stages.size(), 0), reduced(last);
  for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
    const Action& action = plan_.actions[i];
    const bool updates = action.kind == ActionKind::kUpdate;
    if (IsCompute(action.kind)) gathered_[i] = (updates ? reduced : last)[action.stage.value];
    if (!IsCollective(action.kind)) continue;
    if (action.kind == ActionKind::kReduceGrad) {
      ForReplicasOnRank(plan_, action.stage,
                        [&](StageId replica) { reduced[replica.value] = i + 1; });
    }
    last[action.stage.value] = action.kind == ActionKind::kUnshard ? i + 1 : 0;
  }
}

bool Replay::LacksGather(RankId rank) const {
  const uint32_t begin = cursor_[rank.value];
  if (!collects_ || begin == plan_.first[rank.value + 1]) return false;
  const size_t parts = GroupAt(plan_.actions, begin).size();
  for (uint32_t i = begin; i < begin + parts; ++i) {
    if (gathered_[i] > collected_[rank.value]) return true;
  }
  return false;
}

// Performs the collectives before the rank's cursor.
void Replay::AdvanceCollectives(int rank) {
  for (uint32_t& i = collected_[rank]; i < cursor_[rank]; ++i) {
    if (!comes_[i]) continue;
    const int k = reductions_.of_action[i];
    if (!came_[rank]) {
      came_[rank] = 1;
      if (--missing_[k] == 0) {
        for (const ReplicaReductions::Member& member : reductions_.of(k)) {
          Wake(plan_.stage(plan_.actions[member.action].stage).rank.value);
        }
      }
    }
    if (missing_[k] > 0) return;
    came_[rank] = 0;
  }
}

bool Replay::Run() {
  queued_.assign(plan_.ranks() + queues_.all.size(), 1);
  for (int i = static_cast<int>(queued_.size()) - 1; i >= 0; --i) ready_.push_back(i);
  while (!ready_.empty()) {
    const int task = ready_.back();
    ready_.pop_back();
    queued_[task] = 0;
    if (task < plan_.ranks()) {
      AdvanceRank(task);
    } else {
      AdvanceQueue(task - plan_.ranks());
    }
  }
  return Ended();
}

void Replay::Wake(int task) {
  if (queued_[task]) return;
  queued_[task] = 1;
  ready_.push_back(task);
}

bool Replay::InOneGroup(uint32_t earlier, uint32_t later) const {
  for (uint32_t i = earlier + 1; i <= later; ++i) {
    if (!plan_.actions[i].joined) return false;
  }
  return true;
}

void Replay::AdvanceRank(int rank) {
  const uint32_t last = plan_.first[rank + 1];
  uint32_t& i = cursor_[rank];
  const uint32_t before = i;
  while (true) {
    while (i < last && !TakesTurn(plan_.actions[i].kind)) ++i;
    if (!own_.empty()) AdvanceOwn(rank);
    if (collects_) AdvanceCollectives(rank);
    if (i == last) break;
    const auto group = GroupAt(plan_.actions, i);
    bool ready = !LacksGather(RankId(rank));
    for (size_t k = 0; ready && k < group.size(); ++k) ready = live_.Missing(group, k) == 0;
    if (!ready) break;
    if (HasRows() && (AwaitedReader(RankId(rank)) != i || !MeetsAt(i))) break;
    i += static_cast<uint32_t>(group.size());
    for (const Action& part : group) live_.Perform(part);
  }
  if (i == before) return;
  for (const int queue : queues_of_rank_[rank]) {
    if (!calls_[queue].started) Wake(plan_.ranks() + queue);
  }
}

void Replay::AdvanceQueue(int queue) {
  Calls& calls = calls_[queue];
  while (!calls.started && CanStart(queue)) {
    calls.started = true;
    const absl::Span<const uint32_t> parts = head(queue);
    calls.left = static_cast<uint32_t>(parts.size());
    for (const uint32_t part : parts) {
      const Action& action = plan_.actions[part];
      Progress& progress = ends_[channels_.Of(plan_, action)].progress;
      ++(IsSend(action.kind) ? progress.sends_started : progress.recvs_started);
    }
    // The parts may end, and with them the call, while their channels go on.
    for (const uint32_t part : parts) AdvanceChannel(channels_.Of(plan_, plan_.actions[part]));
  }
}

bool Replay::CanStart(int queue) const {
  const absl::Span<const uint32_t> parts = head(queue);
  if (parts.empty() || cursor_[queues_.all[queue].rank.value] < parts.front()) return false;
  for (const uint32_t part : parts) {
    if (live_.Missing(plan_.actions[part]) != 0) return false;
  }
  return true;
}

void Replay::AdvanceChannel(int channel) {
  ChannelEnds& ends = ends_[channel];
  Progress& at = ends.progress;
  while (true) {
    const bool room = buffers_ == 0
                          ? at.recvs_started > at.sends_ended
                          : at.sends_ended - at.recvs_ended < static_cast<uint32_t>(buffers_);
    if (at.sends_ended < at.sends_started && room &&
        (buffers_ > 0 || Meet(ends.sends[at.sends_ended], ends.recvs[at.sends_ended]))) {
      live_.Perform(plan_.actions[ends.sends[at.sends_ended]]);
      ++at.sends_ended;
      EndPart(queues_.of_send[channel]);
    } else if (at.recvs_ended < std::min(at.recvs_started, at.sends_ended) &&
               Meet(ends.sends[at.recvs_ended], ends.recvs[at.recvs_ended])) {
      live_.Perform(plan_.actions[ends.recvs[at.recvs_ended]]);
      ++at.recvs_ended;
      EndPart(queues_.of_recv[channel]);
      Wake(channels_.all[channel].to.value);
    } else {
      return;
    }
  }
}

void Replay::EndPart(int queue) {
  Calls& calls = calls_[queue];
  if (--calls.left > 0) return;
  calls.started = false;
  ++calls.next;
  Wake(plan_.ranks() + queue);
}

bool Replay::Ended() const {
  for (int r = 0; r < plan_.ranks(); ++r) {
    if (cursor_[r] != plan_.first[r + 1] || collected(RankId(r)) != cursor_[r]) return false;
    if (!own_.empty() && own_head(RankId(r)) != plan_.first[r + 1]) return false;
  }
  for (const Calls& calls : calls_) {
    if (calls.next + 1 != calls.first.size()) return false;
  }
  return !lost_ && live_.Whole();
}

bool Ends(const Plan& lowered, CommLayout layout, int buffers) {
  if (!IssuedInOrder(lowered)) return false;
  Diagnostics faults;
  FindListFault(lowered, &faults);
  if (!faults.empty()) return false;
  return Replay(lowered, layout, buffers, Replay::Collectives::kPerformed).Run();
}

}  // namespace stringline
