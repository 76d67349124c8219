// The rule `connection`: a communicator connects at its first call, which blocks the host of a rank
// until all members have come to their first calls. Hosts wait for nothing else, so only the order
// of the first calls matters. (A communicator of all ranks is connected at the start.)
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/check/meetings.h"
#include "schedlang/check/rules.h"
#include "schedlang/plan/channels.h"
#include "schedlang/plan/communicators.h"

namespace stringline {
namespace {

// The first calls of every rank, and their actions.
struct FirstCalls {
  MeetingSteps members;
  std::vector<std::vector<uint32_t>> actions;  // by rank and step: the first action of the call
};

FirstCalls FindFirstCalls(const Plan& plan, const Channels& channels, const CommQueues& queues) {
  FirstCalls out;
  out.members.meetings = queues.communicators;
  std::vector<char> used(queues.all.size(), 0);
  std::vector<int> left(static_cast<size_t>(plan.ranks()), 0);  // queues that no call has used
  for (const CommQueue& queue : queues.all) ++left[static_cast<size_t>(queue.rank.value)];
  for (int r = 0; r < plan.ranks(); ++r) {
    std::vector<std::vector<int>> steps;
    std::vector<uint32_t> actions;
    uint32_t call = 0;  // the first action of the current group
    for (uint32_t i = plan.first[r]; i < plan.first[r + 1] && left[r] > 0; ++i) {
      const Action& action = plan.actions[i];
      if (!action.joined) call = i;
      const int channel = IsMessage(action.kind) ? channels.Of(plan, action) : -1;
      if (channel < 0) continue;
      const int queue = (IsSend(action.kind) ? queues.of_send : queues.of_recv)[channel];
      if (used[queue]) continue;
      used[queue] = 1;
      --left[r];
      if (actions.empty() || actions.back() != call) {
        steps.emplace_back();
        actions.push_back(call);
      }
      steps.back().push_back(queues.all[queue].communicator_id);
    }
    out.members.steps.push_back(std::move(steps));
    out.actions.push_back(std::move(actions));
  }
  return out;
}

std::string NameOfCommunicator(const CommQueues& queues, int id) {
  for (const CommQueue& queue : queues.all) {
    if (queue.communicator_id == id) return queue.communicator;
  }
  return "";
}

}  // namespace

void FindConnectionCycle(const Plan& plan, const CheckOptions& options, Diagnostics* diagnostics) {
  if (options.layout == CommLayout::kShared) return;
  const Channels channels = ChannelsOf(plan);
  const CommQueues queues = QueuesOf(channels, options.layout);
  const FirstCalls first = FindFirstCalls(plan, channels, queues);
  const std::vector<MeetingWait> cycle = FindMeetingCycle(first.members);
  if (cycle.empty()) return;
  Diagnostic* finding = nullptr;
  for (size_t i = 0; i < cycle.size(); ++i) {
    const MeetingWait& wait = cycle[i];
    const uint32_t index = first.actions[wait.member][wait.step];
    const Action& action = plan.actions[index];
    const int next = cycle[(i + 1) % cycle.size()].member;
    const std::string text =
        absl::StrCat("rank ", wait.member, i == 0 ? " blocks forever at " : " blocks at ",
                     PrintGroup(plan, plan.actions, index), ": its first call on communicator ",
                     NameOfCommunicator(queues, wait.meeting), " waits for that of rank ", next);
    if (finding == nullptr) {
      finding = &diagnostics->Add(Code::kConnection, SpanOf(plan, action), text);
      finding->where = WhereOf(plan, action);
    } else {
      finding->notes.push_back(NoteAt(plan, action, text));
    }
  }
  finding->notes.push_back(
      {.text = "connecting all communicators before the step avoids it", .has_place = false});
}

}  // namespace stringline
