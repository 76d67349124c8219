// Groups that do not overlap are put in a row. Then one walk over the plan adds a receive before
// each group that needs a value of another rank, and a send behind each group that gives one.
#include "schedlang/lower/lower.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "schedlang/base/kept_memory.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/threads.h"
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

constexpr uint32_t kNotSent = UINT32_MAX;

// Lowers a plan. Flat arrays indexed by (stage, microbatch) and (edge, microbatch), everything
// linear in actions. What ranks write is theirs alone.
class Lowering {
 public:
  explicit Lowering(const Plan& plan)
      : plan_(plan),
        channels_(ChannelsOf(plan)),
        messages_(channels_.all.size()),
        sent_(channels_.all.size(), 0),
        posted_(channels_.all.size(), 0),
        given_(plan.stages.size() * static_cast<size_t>(plan.microbatches), 0),
        position_activation_(plan.graph.edges().size() * static_cast<size_t>(plan.microbatches),
                             kNotSent),
        position_gradient_(position_activation_) {}

  // Leaves the lists of the lowered plan in *actions and *first.
  void Run(std::vector<Action>* actions, std::vector<uint32_t>* first) {
    const size_t before = plan_.actions.size();
    ForEachOnCores(plan_.ranks(), before, [this](int rank) { FindGivers(rank); });
    ForEachOnCores(plan_.ranks(), before, [this](int rank) {
      for (const Action& action : plan_.of(RankId(rank))) QueueMessages(action);
    });
    *first = FirstOfRanks();
    ReserveOnCores(first->back(), actions);
    actions->resize(first->back());
    ForEachOnCores(plan_.ranks(), before, [&](int rank) {
      const auto r = static_cast<size_t>(rank);
      Action* const end = LowerRank(plan_.of(RankId(rank)), actions->data() + (*first)[r]);
      SL_CHECK(end == actions->data() + (*first)[r + 1]) << "rank " << rank;
    });
  }

 private:
  size_t Index(StageId stage, MicrobatchId m) const {
    return static_cast<size_t>(stage.value) * plan_.microbatches + m.value;
  }
  size_t Index(const Edge& edge, MicrobatchId m) const {
    return static_cast<size_t>(edge.id) * plan_.microbatches + m.value;
  }

  void FindGivers(int rank) {
    for (const Action& action : plan_.of(RankId(rank))) {
      SL_CHECK(!IsMessage(action.kind)) << "the plan is lowered already";
      const Values gives = EffectsOf(action.kind).gives & (kOutput | kInGrad);
      if (gives != 0) given_[Index(action.stage, action.microbatch)] |= gives;
    }
  }

  // Calls `visit(send kind, its receive kind, edge, channel)` for every message of `action`: values
  // that cross ranks and have a consumer.
  template <typename Visit>
  void ForEachMessage(const Action& action, Visit visit) const {
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

  uint32_t& PositionOf(ActionKind recv, const Edge& edge, MicrobatchId m) {
    return (recv == ActionKind::kRecvForward ? position_activation_
                                             : position_gradient_)[Index(edge, m)];
  }

  // Appends the messages of `action` to their channels, each once, and notes their queue places.
  void QueueMessages(const Action& action) {
    ForEachMessage(action, [&](ActionKind, ActionKind recv, const Edge& edge, int channel) {
      uint32_t& position = PositionOf(recv, edge, action.microbatch);
      if (position != kNotSent) return;
      position = static_cast<uint32_t>(messages_[channel].size());
      messages_[channel].push_back({edge.id, action.microbatch, recv});
    });
  }

  // The beginnings of the lowered lists, and the end of the last: each message of a channel is sent
  // by one of its ranks and received by the other, since its value has a producer and a consumer.
  std::vector<uint32_t> FirstOfRanks() const {
    std::vector<uint32_t> lengths;
    for (int r = 0; r < plan_.ranks(); ++r) {
      lengths.push_back(static_cast<uint32_t>(plan_.of(RankId(r)).size()));
    }
    for (size_t c = 0; c < messages_.size(); ++c) {
      for (const RankId end : {channels_.all[c].from, channels_.all[c].to}) {
        lengths[end.value] += static_cast<uint32_t>(messages_[c].size());
      }
    }
    std::vector<uint32_t> first = {0};
    for (const uint32_t length : lengths) first.push_back(first.back() + length);
    return first;
  }

  // Writes the rank's lowered list to `out`, and returns its end.
  Action* LowerRank(absl::Span<const Action> actions, Action* out) {
    for (size_t i = 0; i < actions.size();) {
      const auto group = GroupAt(actions, i);
      for (const Action& part : group) PostReceives(part, &out);
      out = std::copy(group.begin(), group.end(), out);
      for (const Action& part : group) Send(part, &out);
      i += group.size();
    }
    return out;
  }

  void PostReceives(const Action& action, Action** out) {
    const Values needs = EffectsOf(action.kind).needs;
    if (needs & kInput) {
      for (const Edge& edge : plan_.GraphOf(action.microbatch).In(action.stage)) {
        PostUpTo(channels_.of_activation[edge.id],
                 position_activation_[Index(edge, action.microbatch)], action, out);
      }
    }
    if (needs & kOutGrad) {
      for (const Edge& edge : plan_.GraphOf(action.microbatch).Out(action.stage)) {
        PostUpTo(channels_.of_gradient[edge.id], position_gradient_[Index(edge, action.microbatch)],
                 action, out);
      }
    }
  }

  void PostUpTo(int channel, uint32_t position, const Action& consumer, Action** out) {
    if (position == kNotSent) return;
    for (; posted_[channel] <= position; ++posted_[channel]) {
      const Message& message = messages_[channel][posted_[channel]];
      Action at = consumer;  // for its place
      at.microbatch = message.microbatch;
      const Edge& edge = plan_.graph.edges()[static_cast<size_t>(message.edge)];
      *(*out)++ = MessageOver(plan_, edge, message.recv, at);
    }
  }

  void Send(const Action& action, Action** out) {
    ForEachMessage(action, [&](ActionKind kind, ActionKind recv, const Edge& edge, int channel) {
      // A second producer of the same value (an error found by Check) does not send it again.
      if (PositionOf(recv, edge, action.microbatch) != sent_[channel]) return;
      ++sent_[channel];
      *(*out)++ = MessageOver(plan_, edge, kind, action);
    });
  }

  const Plan& plan_;
  const Channels channels_;
  std::vector<std::vector<Message>> messages_;  // by channel, in the sender's order
  std::vector<uint32_t> sent_;                  // by channel: sends written so far
  std::vector<uint32_t> posted_;                // by channel: receives posted so far
  // By stage and microbatch: the outputs and input gradients with a producer.
  std::vector<Values> given_;
  // By edge and microbatch: the place of the message in its channel, or kNotSent.
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
  ForEachOnCores(plan->ranks(), plan->actions.size(), [plan](int rank) {
    const auto actions = absl::MakeSpan(plan->actions)
                             .subspan(plan->first[rank], plan->first[rank + 1] - plan->first[rank]);
    for (size_t i = 0; i < actions.size();) {
      const size_t count = GroupAt(actions, i).size();
      const auto group = actions.subspan(i, count);
      i += count;
      if (count == 1 || !IsCompute(group[0].kind) || Overlaps(*plan, group)) continue;
      if (WaitsForItself(*plan, group)) continue;
      for (Action& action : group) action.joined = false;
    }
  });
}

Plan Lower(Plan plan, CommLayout layout) {
  PutInARow(&plan);
  std::vector<Action> actions;
  std::vector<uint32_t> first;
  Lowering(plan).Run(&actions, &first);
  plan.actions = std::move(actions);
  plan.first = std::move(first);
  plan.lowered = true;
  if (layout != CommLayout::kEdge) plan = OrderMessages(plan, layout);
  if (!plan.pipes.empty()) plan = ReduceGradients(plan);
  return plan;
}

}  // namespace stringline
