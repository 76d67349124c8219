// Groups that do not overlap are put in a row. Then one walk over the plan adds a receive before
// each group that needs a value of another rank, and a send behind each group that gives one.
#include "schedlang/lower/lower.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "schedlang/base/sl_check.h"
#include "schedlang/lower/message_order.h"
#include "schedlang/plan/channels.h"
#include "schedlang/plan/effects.h"
#include "schedlang/plan/group_order.h"

namespace stringline {
namespace {

// A message, with the receive that takes it.
struct Message {
  int32_t edge;
  MicrobatchId microbatch;
  ActionKind recv;
};

// Lowers a plan. Flat arrays indexed by (stage, microbatch) and (edge, microbatch), everything
// linear in actions.
class Lowering {
 public:
  explicit Lowering(const Plan& plan)
      : plan_(plan),
        channels_(ChannelsOf(plan)),
        messages_(channels_.all.size()),
        posted_(channels_.all.size(), 0),
        given_(plan.stages.size() * static_cast<size_t>(plan.microbatches), 0),
        sent_(plan.graph.edges().size() * static_cast<size_t>(plan.microbatches), 0),
        position_activation_(sent_.size(), 0),
        position_gradient_(sent_.size(), 0) {}

  Plan Run() {
    FindGivers();
    for (const Action& action : plan_.actions) QueueMessages(action);
    Plan lowered = plan_;
    lowered.lowered = true;
    lowered.actions.clear();
    lowered.actions.reserve(plan_.actions.size() * 3);
    for (int r = 0; r < plan_.ranks(); ++r) {
      LowerRank(plan_.of(RankId(r)), &lowered.actions);
      lowered.first[r + 1] = static_cast<uint32_t>(lowered.actions.size());
    }
    return lowered;
  }

 private:
  size_t Index(StageId stage, MicrobatchId m) const {
    return static_cast<size_t>(stage.value) * plan_.microbatches + m.value;
  }
  size_t Index(const Edge& edge, MicrobatchId m) const {
    return static_cast<size_t>(edge.id) * plan_.microbatches + m.value;
  }

  void FindGivers() {
    for (const Action& action : plan_.actions) {
      SL_CHECK(!IsMessage(action.kind)) << "the plan is lowered already";
      if (IsCollective(action.kind)) continue;
      given_[Index(action.stage, action.microbatch)] |= EffectsOf(action.kind).gives;
    }
  }

  // Calls `visit(send kind, its receive kind, edge, channel)` for every message of `action`: values
  // that cross ranks and have a consumer.
  template <typename Visit>
  void ForEachMessage(const Action& action, Visit visit) const {
    if (IsCollective(action.kind)) return;
    const Values gives = EffectsOf(action.kind).gives;
    const MicrobatchId m = action.microbatch;
    if (gives & kOutput) {
      for (const Edge& edge : plan_.GraphOf(action.microbatch).Out(action.stage)) {
        const int channel = channels_.of_activation[edge.id];
        if (channel < 0 || (given_[Index(edge.to, m)] & kOutput) == 0) continue;
        visit(ActionKind::kSendForward, ActionKind::kRecvForward, edge, channel);
      }
    }
    if (gives & kInGrad) {
      for (const Edge& edge : plan_.GraphOf(action.microbatch).In(action.stage)) {
        const int channel = channels_.of_gradient[edge.id];
        if (channel < 0 || (given_[Index(edge.from, m)] & kInGrad) == 0) continue;
        visit(ActionKind::kSendBackward, ActionKind::kRecvBackward, edge, channel);
      }
    }
  }

  // Appends the messages of `action` to their channels, each once, and notes their queue places.
  void QueueMessages(const Action& action) {
    ForEachMessage(action, [&](ActionKind, ActionKind recv, const Edge& edge, int channel) {
      const size_t i = Index(edge, action.microbatch);
      const Values bit = recv == ActionKind::kRecvForward ? kInput : kOutGrad;
      if (sent_[i] & bit) return;
      sent_[i] |= bit;
      auto& position = recv == ActionKind::kRecvForward ? position_activation_ : position_gradient_;
      position[i] = static_cast<uint32_t>(messages_[channel].size());
      messages_[channel].push_back({edge.id, action.microbatch, recv});
    });
  }

  void LowerRank(absl::Span<const Action> actions, std::vector<Action>* out) {
    for (size_t i = 0; i < actions.size();) {
      const auto group = GroupAt(actions, i);
      for (const Action& part : group) PostReceives(part, out);
      out->insert(out->end(), group.begin(), group.end());
      for (const Action& part : group) Send(part, out);
      i += group.size();
    }
  }

  void PostReceives(const Action& action, std::vector<Action>* out) {
    if (IsCollective(action.kind)) return;
    const Values needs = EffectsOf(action.kind).needs;
    const auto post = [&](const Edge& edge, Values bit, const std::vector<int>& channels,
                          const std::vector<uint32_t>& positions) {
      const size_t i = Index(edge, action.microbatch);
      if (sent_[i] & bit) PostUpTo(channels[edge.id], positions[i], action, out);
    };
    if (needs & kInput) {
      for (const Edge& edge : plan_.GraphOf(action.microbatch).In(action.stage)) {
        post(edge, kInput, channels_.of_activation, position_activation_);
      }
    }
    if (needs & kOutGrad) {
      for (const Edge& edge : plan_.GraphOf(action.microbatch).Out(action.stage)) {
        post(edge, kOutGrad, channels_.of_gradient, position_gradient_);
      }
    }
  }

  void PostUpTo(int channel, uint32_t position, const Action& consumer, std::vector<Action>* out) {
    for (; posted_[channel] <= position; ++posted_[channel]) {
      const Message& message = messages_[channel][posted_[channel]];
      Action at = consumer;  // for its place
      at.microbatch = message.microbatch;
      const Edge& edge = plan_.graph.edges()[static_cast<size_t>(message.edge)];
      out->push_back(MessageOver(plan_, edge, message.recv, at));
    }
  }

  void Send(const Action& action, std::vector<Action>* out) {
    ForEachMessage(action, [&](ActionKind kind, ActionKind recv, const Edge& edge, int) {
      // A second producer of the same value (an error found by Check) does not send it again.
      Values& sent = sent_[Index(edge, action.microbatch)];
      const Values done = recv == ActionKind::kRecvForward ? kOutput : kInGrad;
      if (sent & done) return;
      sent |= done;
      out->push_back(MessageOver(plan_, edge, kind, action));
    });
  }

  const Plan& plan_;
  const Channels channels_;
  std::vector<std::vector<Message>> messages_;  // by channel, in the sender's order
  std::vector<uint32_t> posted_;                // by channel: receives posted so far
  std::vector<Values> given_;                   // by stage and microbatch: values with a producer
  // By edge and microbatch: kInput / kOutGrad once queued, kOutput / kInGrad once the send is
  // written.
  std::vector<Values> sent_;
  std::vector<uint32_t> position_activation_;
  std::vector<uint32_t> position_gradient_;
};

bool IsEdge(const StageGraph& graph, StageId from, StageId to) {
  return graph.Find(from, to) != nullptr;
}

// True if `first` gives a value that `later` needs on the same rank.
bool Feeds(const Plan& plan, const Action& first, const Action& later) {
  const Values gives = EffectsOf(plan, first).gives, needs = EffectsOf(plan, later).needs;
  if (first.microbatch != later.microbatch) {
    if (plan.slices == 1 || first.stage != later.stage) return false;
    const int ahead = later.microbatch.value - first.microbatch.value;
    const bool reads_keys = first.kind == ActionKind::kForward && later.kind == first.kind &&
                            ahead == 1 && plan.SliceOf(later) > 0;
    return reads_keys || ((gives & needs & kSliceKeyGrad) != 0 && ahead == -1);
  }
  if (later.stage == first.stage) return (gives & needs & (kSaved | kKept | kStash)) != 0;
  const StageGraph& graph = plan.GraphOf(first.microbatch);
  if ((gives & kOutput) && (needs & kInput)) return IsEdge(graph, first.stage, later.stage);
  return (gives & kInGrad) && (needs & kOutGrad) && IsEdge(graph, later.stage, first.stage);
}

// A group whose actions wait for each other is a mistake in the plan, which Check names.
bool WaitsForItself(const Plan& plan, absl::Span<const Action> group) {
  return std::any_of(group.begin(), group.end(), [&](const Action& first) {
    return std::any_of(group.begin(), group.end(),
                       [&](const Action& later) { return Feeds(plan, first, later); });
  });
}

}  // namespace

void PutInARow(Plan* plan) {
  const auto actions = absl::MakeSpan(plan->actions);
  for (size_t i = 0; i < actions.size();) {
    const size_t count = GroupAt(actions, i).size();
    const auto group = actions.subspan(i, count);
    i += count;
    if (!IsCompute(group[0].kind) || Overlaps(*plan, group)) continue;
    if (WaitsForItself(*plan, group)) continue;
    for (Action& action : group) action.joined = false;
  }
}

Plan Lower(const Plan& plan, CommLayout layout) {
  Plan apart = plan;
  PutInARow(&apart);
  Plan lowered = Lowering(apart).Run();
  if (layout != CommLayout::kEdge) lowered = OrderMessages(lowered, layout);
  return plan.pipes.empty() ? lowered : ReduceGradients(lowered);
}

}  // namespace stringline
