// An ideal run gives every message a time, and every queue its calls in that order. Then the lists
// are written anew: computations in their order, each preceded by the calls of its queues up to its
// own message. The order of reductions comes from the same run.
#include "schedlang/lower/message_order.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "schedlang/plan/channels.h"
#include "schedlang/plan/effects.h"
#include "schedlang/sim/simulate.h"

namespace stringline {
namespace {

// The times of the ideal run; nothing for a plan that never ends.
std::optional<Timeline> IdealRun(const Plan& lowered) {
  CostSpec spec = UnitCosts();
  const int64_t forward_ns = spec.values["F"][0];
  for (const OwnAction& own : lowered.rows.actions) {
    spec.values[own.name] = {IsOwnNetwork(own.kind) ? int64_t{0} : forward_ns};
  }
  const absl::StatusOr<CostModel> costs = ResolveCosts(spec, lowered);
  if (!costs.ok()) return std::nullopt;
  absl::StatusOr<Timeline> timeline = Simulate(lowered, *costs);
  if (!timeline.ok()) return std::nullopt;
  return *std::move(timeline);
}

struct TimedMessage {
  int64_t leaves_ns = 0;
  int32_t from = 0;  // rank
  uint32_t send = 0;
  uint32_t recv = 0;
};

class MessageOrdering {
 public:
  MessageOrdering(const Plan& lowered, const Timeline& ideal, CommLayout layout)
      : plan_(lowered),
        channels_(ChannelsOf(lowered)),
        queues_(QueuesOf(channels_, layout)),
        calls_(queues_.all.size()),
        next_(queues_.all.size(), 0),
        sends_of_(lowered.graph.edges().size() * static_cast<size_t>(lowered.microbatches) * 2,
                  kNone),
        recvs_of_(sends_of_),
        listed_(lowered.actions.size(), 0) {
    for (const TimedMessage& message : InOrder(ideal)) {
      const int channel = channels_.Of(plan_, plan_.actions[message.send]);
      calls_[queues_.of_send[channel]].push_back(message.send);
      calls_[queues_.of_recv[channel]].push_back(message.recv);
    }
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      const Action& action = plan_.actions[i];
      if (IsSend(action.kind)) sends_of_[Index(action)] = i;
      if (IsRecv(action.kind)) recvs_of_[Index(action)] = i;
    }
  }

  Plan Run() {
    Plan out = plan_;
    out.actions.clear();
    for (int r = 0; r < plan_.ranks(); ++r) {
      for (uint32_t i = plan_.first[r]; i < plan_.first[r + 1];) {
        const auto group = GroupAt(plan_.actions, i);
        i += static_cast<uint32_t>(group.size());
        if (IsMessage(group[0].kind)) continue;
        for (const Action& part : group) List(part, EffectsOf(part.kind).needs, recvs_of_, &out);
        out.actions.insert(out.actions.end(), group.begin(), group.end());
        for (const Action& part : group) List(part, EffectsOf(part.kind).gives, sends_of_, &out);
      }
      out.first[r + 1] = static_cast<uint32_t>(out.actions.size());
    }
    return out;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // The index of a message: its edge, its microbatch, and forward for an activation.
  size_t Index(const Edge& edge, MicrobatchId microbatch, bool forward) const {
    return (static_cast<size_t>(edge.id) * plan_.microbatches + microbatch.value) * 2 + forward;
  }
  size_t Index(const Action& message) const {
    return Index(*EdgeOf(plan_, message), message.microbatch, CarriesActivation(message.kind));
  }

  std::vector<TimedMessage> InOrder(const Timeline& ideal) const {
    std::vector<std::vector<uint32_t>> sends(channels_.all.size()), recvs(sends);
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      const Action& action = plan_.actions[i];
      if (!IsMessage(action.kind)) continue;
      (IsSend(action.kind) ? sends : recvs)[channels_.Of(plan_, action)].push_back(i);
    }
    std::vector<TimedMessage> messages;
    for (size_t c = 0; c < sends.size(); ++c) {
      for (size_t k = 0; k < sends[c].size(); ++k) {
        const uint32_t send = sends[c][k];
        messages.push_back(
            {ideal.events[send].start_ns, channels_.all[c].from.value, send, recvs[c][k]});
      }
    }
    std::sort(messages.begin(), messages.end(), [](const TimedMessage& a, const TimedMessage& b) {
      return std::tie(a.leaves_ns, a.from, a.send) < std::tie(b.leaves_ns, b.from, b.send);
    });
    return messages;
  }

  // Lists the calls in the queues of the part's own messages, up to those messages.
  void List(const Action& part, Values values, const std::vector<uint32_t>& messages, Plan* out) {
    if (IsCollective(part.kind)) return;
    for (const bool forward : {true, false}) {
      const Values which = forward ? kInput | kOutput : kOutGrad | kInGrad;
      if ((values & which) == 0) continue;
      const StageGraph& graph = plan_.GraphOf(part.microbatch);
      const bool leaves = (values & which & (kOutput | kOutGrad)) != 0;
      for (const Edge& edge : leaves ? graph.Out(part.stage) : graph.In(part.stage)) {
        ListMessage(messages[Index(edge, part.microbatch, forward)], out);
      }
    }
  }

  void ListMessage(uint32_t message, Plan* out) {
    if (message == kNone) return;
    const bool send = IsSend(plan_.actions[message].kind);
    const int channel = channels_.Of(plan_, plan_.actions[message]);
    const int queue = (send ? queues_.of_send : queues_.of_recv)[channel];
    ListUpTo(queue, message, out);
  }

  void ListUpTo(int queue, uint32_t message, Plan* out) {
    const std::vector<uint32_t>& calls = calls_[queue];
    if (listed_[message]) return;
    for (uint32_t& k = next_[queue]; k < calls.size(); ++k) {
      out->actions.push_back(plan_.actions[calls[k]]);
      out->actions.back().joined = false;
      listed_[calls[k]] = 1;
      if (calls[k] != message) continue;
      ++k;
      return;
    }
  }

  const Plan& plan_;
  const Channels channels_;
  const CommQueues queues_;
  std::vector<std::vector<uint32_t>> calls_;  // by queue: indices of actions, in order
  std::vector<uint32_t> next_;                // by queue: how many of them are listed
  std::vector<uint32_t> sends_of_;            // by Index: the action, or kNone
  std::vector<uint32_t> recvs_of_;
  std::vector<char> listed_;  // by action
};

// The sum of the gradients of a stage over its replicas, in a step.
struct Sum {
  StageId stage;
  int step = 0;
  int64_t ready_ns = 0;  // when the gradients of all replicas are there
  uint32_t behind = 0;   // the place behind the stage's last computation in the step; 0 for a stage
                         // without microbatches, which gets the sum, too
};

// The sums of all stages whose part of the model computes, step by step, as they become ready.
std::vector<Sum> SumsInOrder(const Plan& lowered, const Timeline& ideal) {
  const auto stages = static_cast<int>(lowered.stages.size());
  const int parts = lowered.pipes.empty() ? stages : lowered.pipes[0].stages;
  std::vector<int64_t> ready_ns(static_cast<size_t>(parts * lowered.steps), 0);  // by step and part
  std::vector<Sum> sums;
  for (int k = 0; k < stages * lowered.steps; ++k)
    sums.push_back({StageId(k % stages), k / stages});
  for (uint32_t i = 0; i < lowered.actions.size(); ++i) {
    const Action& action = lowered.actions[i];
    if (!ComputesMicrobatch(action.kind)) continue;
    const int step = lowered.StepOf(action);
    int64_t& end_ns = ready_ns[step * parts + action.stage.value % parts];
    end_ns = std::max(end_ns, ideal.events[i].end_ns);
    sums[step * stages + action.stage.value].behind = i + 1;
  }
  for (Sum& sum : sums) sum.ready_ns = ready_ns[sum.step * parts + sum.stage.value % parts];
  sums.erase(std::remove_if(sums.begin(), sums.end(), [](const Sum& s) { return s.ready_ns == 0; }),
             sums.end());
  std::sort(sums.begin(), sums.end(), [parts](const Sum& a, const Sum& b) {
    const int i = a.stage.value % parts, j = b.stage.value % parts;
    return std::tuple(a.step, a.ready_ns, i, a.stage) < std::tuple(b.step, b.ready_ns, j, b.stage);
  });
  return sums;
}

}  // namespace

Plan OrderMessages(const Plan& lowered, CommLayout layout) {
  const std::optional<Timeline> ideal = IdealRun(lowered);
  if (!ideal) return lowered;
  if (layout == CommLayout::kUpDown) layout = CommLayout::kShared;
  return MessageOrdering(lowered, *ideal, layout).Run();
}

Plan ReduceGradients(const Plan& lowered) {
  if (lowered.forward_only) return lowered;
  bool gathers = false;
  for (const Action& action : lowered.actions) {
    if (action.kind == ActionKind::kReduceGrad) return lowered;
    gathers = gathers || IsCollective(action.kind);
  }
  const std::optional<Timeline> ideal = IdealRun(lowered);
  if (!ideal) return lowered;
  const std::vector<Sum> order = SumsInOrder(lowered, *ideal);
  Plan out = lowered;
  out.actions.clear();
  const auto add = [&out](StageId stage, const Action& at) {
    Action reduce = at;  // for its place
    reduce.kind = ActionKind::kReduceGrad;
    reduce.joined = false;
    reduce.stage = stage;
    reduce.microbatch = MicrobatchId();
    out.actions.push_back(reduce);
  };
  for (int r = 0; r < lowered.ranks(); ++r) {
    std::vector<Sum> mine;
    for (const Sum& sum : order) {
      if (lowered.stage(sum.stage).rank == RankId(r)) mine.push_back(sum);
    }
    size_t next = 0;
    uint32_t group = lowered.first[r];  // the first computation at or behind i
    for (uint32_t i = lowered.first[r]; i < lowered.first[r + 1]; ++i) {
      out.actions.push_back(lowered.actions[i]);
      const bool ends = i + 1 == lowered.first[r + 1] || !lowered.actions[i + 1].joined;
      const auto is_early = [&](const Sum& sum) {
        if (!gathers) return false;
        group = std::max(group, i + 1);
        while (group < lowered.first[r + 1] && !IsCompute(lowered.actions[group].kind)) ++group;
        return group < lowered.first[r + 1] && ideal->events[group].start_ns < sum.ready_ns;
      };
      while (ends && next < mine.size() && mine[next].behind <= i + 1 && !is_early(mine[next])) {
        const Sum& sum = mine[next++];
        add(sum.stage, lowered.actions[sum.behind == 0 ? i : sum.behind - 1]);
      }
    }
    while (next < mine.size())  // this rank has no computations
      add(mine[next++].stage, Action{.place = UINT32_MAX});
    out.first[r + 1] = static_cast<uint32_t>(out.actions.size());
  }
  return out;
}

}  // namespace stringline
