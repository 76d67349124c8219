#include "tools/view/page/page_links.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "schedlang/plan/channels.h"
#include "schedlang/plan/communicators.h"
#include "schedlang/plan/effects.h"
#include "schedlang/plan/parts.h"

namespace stringline {
namespace {

// The lane of a queue, of all collectives or of copies one way, added to the rank's lanes at its
// first use.
int32_t LaneIn(std::vector<PageLane>* lanes, PageLaneKind kind, const std::string& name) {
  for (size_t i = 0; i < lanes->size(); ++i) {
    if ((*lanes)[i].kind == kind && (*lanes)[i].name == name) return static_cast<int32_t>(i);
  }
  lanes->push_back({kind, name});
  return static_cast<int32_t>(lanes->size() - 1);
}

// The computation or copy that gives a value of a stage and microbatch.
class GiverTable {
 public:
  explicit GiverTable(const Plan& plan)
      : plan_(plan),
        microbatches_(static_cast<size_t>(plan.microbatches)),
        at_(plan.stages.size() * microbatches_ * kKinds, -1) {
    for (size_t i = 0; i < plan.actions.size(); ++i) {
      const Action& action = plan.actions[i];
      for (size_t kind = 0; kind < kKinds; ++kind) {
        if (action.kind != kGivers[kind]) continue;
        at_[Index(action.stage, action.microbatch, kind)] = static_cast<int64_t>(i);
      }
    }
  }

  // The last of several givers ahead of the action `until`: what F kept, a U brings back, or an
  // R makes again.
  int64_t Find(StageId stage, MicrobatchId microbatch, Values value,
               int64_t until = std::numeric_limits<int64_t>::max()) const {
    int64_t last = -1;
    if (!stage.valid() || value == 0) return last;
    for (size_t kind = 0; kind < kKinds; ++kind) {
      if ((EffectsOf(plan_, stage, kGivers[kind]).gives & value) == 0) continue;
      const int64_t i = at_[Index(stage, microbatch, kind)];
      if (i < until) last = std::max(last, i);
    }
    return last;
  }

 private:
  static constexpr ActionKind kGivers[] = {ActionKind::kForward,       ActionKind::kBackward,
                                           ActionKind::kInputGradient, ActionKind::kRecompute,
                                           ActionKind::kOffload,       ActionKind::kFetch};
  static constexpr size_t kKinds = std::size(kGivers);

  size_t Index(StageId stage, MicrobatchId microbatch, size_t kind) const {
    return (static_cast<size_t>(stage.value) * microbatches_ +
            static_cast<size_t>(microbatch.value)) *
               kKinds +
           kind;
  }

  const Plan& plan_;
  const size_t microbatches_;
  std::vector<int64_t> at_;
};

}  // namespace

PageLanes LanesOf(const PageTimeline& page) {
  const Timeline& timeline = page.timeline;
  PageLanes lanes;
  lanes.lanes.assign(timeline.ranks(), {{PageLaneKind::kCompute, "compute"}});
  lanes.of.assign(timeline.events.size(), 0);
  const Channels channels = page.plan != nullptr ? ChannelsOf(*page.plan) : Channels{};
  const CommQueues queues = QueuesOf(channels, timeline.layout);
  for (int r = 0; r < timeline.ranks(); ++r) {
    for (uint32_t i = timeline.first[r]; i < timeline.first[r + 1]; ++i) {
      const ActionKind kind = timeline.events[i].kind;
      if (IsCompute(kind)) continue;
      if (IsCollective(kind)) {
        lanes.of[i] = LaneIn(&lanes.lanes[r], PageLaneKind::kCollectives, "data parallel");
        continue;
      }
      if (IsCopy(kind)) {
        lanes.of[i] = LaneIn(&lanes.lanes[r], PageLaneKind::kCopies,
                             IsOwn(kind)       ? CopiesOut(kind) ? "copies out" : "copies in"
                             : CopiesOut(kind) ? "to host"
                                               : "from host");
        continue;
      }
      if (IsOwnNetwork(kind)) {
        lanes.of[i] = LaneIn(&lanes.lanes[r], PageLaneKind::kCollectives, "own");
        continue;
      }
      const int channel =
          page.plan != nullptr ? channels.Of(*page.plan, page.plan->actions[i]) : -1;
      const std::string name =
          channel < 0 ? "messages"
                      : queues.all[IsSend(kind) ? queues.of_send[channel] : queues.of_recv[channel]]
                            .communicator;
      lanes.of[i] = LaneIn(&lanes.lanes[r], PageLaneKind::kMessages, name);
    }
  }
  // Parts of groups on the network.
  int rank = 0;
  for (const PartEvent& part : timeline.parts) {
    while (rank + 1 < timeline.ranks() && part.event >= timeline.first[rank + 1]) ++rank;
    if (LaneOf(part.part) == Lane::kNetwork) {
      LaneIn(&lanes.lanes[rank], PageLaneKind::kAllToAll, "network");
    }
  }
  return lanes;
}

PageNeeds NeedsOf(const PageTimeline& page) {
  const std::vector<Event>& events = page.timeline.events;
  PageNeeds needs;
  for (auto* column : {&needs.giver, &needs.own, &needs.via}) column->assign(events.size(), -1);
  if (page.plan == nullptr) return needs;
  const Plan& plan = *page.plan;
  const GiverTable givers(plan);
  // Receives by edge and microbatch, of activations and of gradients.
  const auto place = [&plan](const Edge& edge, MicrobatchId microbatch, bool forward) {
    return (static_cast<size_t>(edge.id) * static_cast<size_t>(plan.microbatches) +
            static_cast<size_t>(microbatch.value)) *
               2 +
           (forward ? 1 : 0);
  };
  std::vector<int64_t> recvs(plan.graph.edges().size() * static_cast<size_t>(plan.microbatches) * 2,
                             -1);
  for (size_t i = 0; i < events.size(); ++i) {
    const Action& action = plan.actions[i];
    const Edge* const edge = IsRecv(action.kind) ? EdgeOf(plan, action) : nullptr;
    if (edge == nullptr) continue;
    const bool forward = action.kind == ActionKind::kRecvForward;
    recvs[place(*edge, action.microbatch, forward)] = static_cast<int64_t>(i);
  }
  for (size_t i = 0; i < events.size(); ++i) {
    const Action& action = plan.actions[i];
    if (!TakesTurn(action.kind)) continue;
    const Values values = EffectsOf(plan, action).needs;
    const bool forward = (values & kInput) != 0;
    int64_t there_ns = -1;
    const StageGraph& graph = plan.GraphOf(action.microbatch);
    for (const Edge& edge : forward               ? graph.In(action.stage)
                            : (values & kOutGrad) ? graph.Out(action.stage)
                                                  : absl::Span<const Edge>()) {
      const int64_t giver = givers.Find(forward ? edge.from : edge.to, action.microbatch,
                                        forward ? kOutput : kInGrad);
      if (giver < 0) continue;
      const int64_t recv = recvs[place(edge, action.microbatch, forward)];
      const int64_t end_ns = events[static_cast<size_t>(recv < 0 ? giver : recv)].end_ns;
      if (end_ns <= there_ns) continue;
      there_ns = end_ns;
      needs.giver[i] = giver;
      needs.via[i] = recv;
    }
    needs.own[i] =
        givers.Find(action.stage, action.microbatch, values & (kSaved | kKept | kStash | kHosted),
                    static_cast<int64_t>(i));
  }
  return needs;
}

}  // namespace stringline
