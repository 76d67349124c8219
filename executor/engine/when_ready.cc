// Observed ends are kept, observed starts are replaced: a start becomes the latest end of the
// wire's dependencies (links.h). Computations come first, then collectives, then messages.
#include "executor/engine/when_ready.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "schedlang/lower/lower.h"
#include "schedlang/plan/buckets.h"
#include "schedlang/plan/parts.h"
#include "schedlang/plan/ready.h"

namespace stringline {
namespace {

int64_t EndOf(const std::vector<Event>& events, uint32_t action) {
  return action == kNoAction ? 0 : events[action].end_ns;
}

void ClampWaited(Event* event) {
  event->waited_ns = std::clamp<int64_t>(event->waited_ns, 0, event->end_ns - event->start_ns);
}

// The parts of the group events[begin .. end): each starts after the part before it on its lane,
// its dependency among the parts, the buckets that it awaited, and the start of the group.
// Timeline::parts are by group, and those of a group in the order in which they were enqueued: a
// topological order, which the ends of parts that take no time would not tell.
class PartStarts {
 public:
  explicit PartStarts(Timeline* timeline) : timeline_(*timeline) {
    for (const PartEvent& part : timeline_.parts) {
      int& layers = Layers(part.event);
      layers = std::max(layers, part.layer + 1);
    }
  }

  // The time for which the group has waited for buckets.
  int64_t Start(size_t begin, size_t end) {
    group_.clear();
    for (; next_ < timeline_.parts.size() && timeline_.parts[next_].event < end; ++next_) {
      if (timeline_.parts[next_].event >= begin) group_.push_back(&timeline_.parts[next_]);
    }
    first_ = static_cast<uint32_t>(begin);
    stride_ = chunks_ = 1;
    for (const PartEvent* const part : group_) {
      stride_ = std::max(stride_, part->layer + 1);
      chunks_ = std::max(chunks_, part->chunk + 1);
    }
    ends_ns_.assign((end - begin) * static_cast<size_t>(chunks_ * stride_) * kParts, 0);
    for (const PartEvent* const part : group_) {
      EndOf(part->event, {part->part, part->layer, part->chunk}) = part->end_ns;
    }
    int64_t lane_ns[2], last_ns = 0;
    std::fill_n(lane_ns, 2, timeline_.events[begin].start_ns);
    bool waits = false;
    for (PartEvent* const part : group_) {
      int64_t& free_ns = lane_ns[static_cast<int>(LaneOf(part->part))];
      part->start_ns = std::max({free_ns, EndBefore(*part), part->bucket_ns});
      part->end_ns = std::max(part->start_ns, part->end_ns);
      free_ns = EndOf(part->event, OwnOf(*part)) = part->end_ns;
      last_ns = std::max(last_ns, free_ns);
      waits = waits || part->bucket_ns > 0;
    }
    return waits ? last_ns - EndWithoutBuckets(timeline_.events[begin].start_ns) : 0;
  }

 private:
  static LayerPart OwnOf(const PartEvent& part) { return {part.part, part.layer, part.chunk}; }

  // The end of the part on which this one depends; 0: it depends on none.
  int64_t EndBefore(const PartEvent& part) {
    auto before = PartBefore(OwnOf(part), Layers(part.event));
    if (!before) return 0;
    before->chunk = part.chunk;
    return EndOf(part.event, *before);
  }

  // The end of the group if all buckets were there at its start, and its parts took as long.
  int64_t EndWithoutBuckets(int64_t start_ns) {
    int64_t lane_ns[2] = {start_ns, start_ns}, last_ns = start_ns;
    for (const PartEvent* const part : group_) {
      int64_t& free_ns = lane_ns[static_cast<int>(LaneOf(part->part))];
      free_ns = std::max(free_ns, EndBefore(*part)) + part->end_ns - part->start_ns;
      EndOf(part->event, OwnOf(*part)) = free_ns;
      last_ns = std::max(last_ns, free_ns);
    }
    return last_ns;
  }

  int& Layers(uint32_t event) {
    if (layers_.size() <= event) layers_.resize(timeline_.events.size(), 0);
    return layers_[event];
  }

  int64_t& EndOf(uint32_t event, LayerPart part) {
    const size_t chunk =
        static_cast<size_t>(event - first_) * static_cast<size_t>(chunks_) + part.chunk;
    const size_t layer = chunk * static_cast<size_t>(stride_) + static_cast<size_t>(part.layer);
    return ends_ns_[layer * kParts + part.part];
  }

  Timeline& timeline_;
  size_t next_ = 0;  // in timeline_.parts
  // The group's parts, its first event, its layers and chunks, and the end of each part; 0: no such
  // part.
  std::vector<PartEvent*> group_;
  uint32_t first_ = 0;
  int32_t stride_ = 1, chunks_ = 1;
  std::vector<int64_t> ends_ns_;
  std::vector<int> layers_;  // by event
};

// A copy, or an own action on the network: what is listed before it has its times.
void StartCopy(const Wiring& wiring, uint32_t i, std::vector<Event>* events) {
  const CopyWire copy = wiring.CopyOf(i);
  Event& event = (*events)[i];
  event.start_ns = std::max({EndOf(*events, wiring.wires[i].before), EndOf(*events, copy.source),
                             EndOf(*events, copy.after), EndOf(*events, copy.freed)});
  wiring.ForFurtherWaits(i, [&](uint32_t before) {
    event.start_ns = std::max(event.start_ns, EndOf(*events, before));
  });
  event.end_ns = std::max(event.start_ns, event.end_ns);
}

// Gives every part of a group the moment when the group could start, and the end of its last part.
// Events arrive with the times at which their work really ran.
void StartComputations(const Plan& plan, const Wiring& wiring, Timeline* timeline) {
  std::vector<Event>* const events = &timeline->events;
  PartStarts parts(timeline);
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    int64_t ready_ns = 0;  // the end of the previous group
    for (size_t begin = plan.first[rank]; begin < plan.first[rank + 1];) {
      const size_t end = begin + GroupAt(plan.actions, begin).size();
      if (const ActionKind kind = plan.actions[begin].kind; IsCopy(kind) || IsOwnNetwork(kind)) {
        StartCopy(wiring, static_cast<uint32_t>(begin), events);
      }
      if (!IsCompute(plan.actions[begin].kind)) {
        begin = end;
        continue;
      }
      int64_t start_ns = ready_ns, end_ns = 0;
      for (size_t i = begin; i < end; ++i) {
        const Wire& wire = wiring.wires[i];
        for (const uint32_t before : {wire.input, wire.gradient}) {
          start_ns = std::max(start_ns, EndOf(*events, before));
        }
        const CopyWire copy = wiring.CopyOf(static_cast<uint32_t>(i));
        start_ns = std::max({start_ns, EndOf(*events, copy.source), EndOf(*events, copy.freed)});
        wiring.ForFurtherWaits(static_cast<uint32_t>(i), [&](uint32_t own) {
          start_ns = std::max(start_ns, EndOf(*events, own));
        });
        if (wire.gathered != kNoAction) {
          start_ns = std::max(start_ns, GatheredNs((*events)[wire.gathered]));
        }
        end_ns = std::max(end_ns, (*events)[i].end_ns);
      }
      for (size_t i = begin; i < end; ++i) {
        (*events)[i].start_ns = start_ns;
        (*events)[i].end_ns = std::max(start_ns, end_ns);
      }
      const int64_t waited_ns = parts.Start(begin, end);
      for (size_t i = begin; i < end; ++i) {
        Event& event = (*events)[i];
        event.waited_ns = std::max(event.waited_ns, waited_ns);
        ClampWaited(&event);
      }
      begin = end;
      ready_ns = std::max(start_ns, end_ns);
    }
  }
}

// A reduction of replicas starts when it could start on all its ranks, and has waited for buckets
// as long as the rank that waited longest. A reduction merged into a later one of its rank was not
// recorded: it takes no time.
void StartCollectives(const Plan& plan, const Wiring& wiring, std::vector<Event>* events) {
  std::vector<int64_t> meetings_ns(wiring.reductions.count(), 0), waited_ns(meetings_ns);
  for (uint32_t i = 0; i < events->size(); ++i) {
    if (!IsCollective(plan.actions[i].kind)) continue;
    const bool reduces = plan.actions[i].kind == ActionKind::kReduceGrad;
    const Wire& wire = wiring.wires[i];
    Event& event = (*events)[i];
    const int64_t began_ns = event.start_ns;
    int64_t given_ns = EndOf(*events, wire.after);
    // A reduction inside a computation began with the first bucket of its gradients.
    const bool inside = reduces && began_ns >= 0 && wiring.meeters[i] != kNoAction;
    if (inside) given_ns = std::min(given_ns, began_ns);
    event.start_ns = std::max(EndOf(*events, wire.before), given_ns);
    event.waited_ns -= std::max<int64_t>(event.start_ns - began_ns, 0);
    if (reduces && wire.meeting != kNoAction && wire.comes_with == kNoAction) {
      int64_t& start_ns = meetings_ns[wire.meeting];
      start_ns = std::max(start_ns, event.start_ns);
    } else {
      event.end_ns = std::max(event.start_ns, event.end_ns);
    }
    ClampWaited(&event);
  }
  for (const auto& [i, comes] : wiring.reductions.members) {
    const uint32_t meeting = wiring.wires[i].meeting;
    const Event& event = (*events)[i];
    if (!comes) continue;
    waited_ns[meeting] =
        std::max(waited_ns[meeting], event.waited_ns - (meetings_ns[meeting] - event.start_ns));
  }
  for (const auto& [i, comes] : wiring.reductions.members) {
    const uint32_t meeting = wiring.wires[i].meeting;
    if (!comes) continue;
    Event& event = (*events)[i];
    event.start_ns = meetings_ns[meeting];
    event.end_ns = std::max(event.start_ns, event.end_ns);
    event.waited_ns = waited_ns[meeting];
    ClampWaited(&event);
  }
}

// The moment when the queue of a message became free for it: by action, when the call before had
// left the queue. The observed start of a message is its leaving the channel.
std::vector<int64_t> QueuesFree(const std::vector<Event>& events, const Wiring& wiring) {
  std::vector<int64_t> free_ns(events.size(), 0);
  for (size_t q = 0; q + 1 < wiring.first_call.size(); ++q) {
    int64_t call_ns = 0, end_ns = 0;  // when this call could begin; when it ended
    uint32_t before = kNoAction;
    for (const uint32_t i : wiring.of(static_cast<int>(q))) {
      if (wiring.wires[i].before != before) call_ns = end_ns;
      before = wiring.wires[i].before;
      free_ns[i] = call_ns;
      end_ns = std::max(end_ns, events[i].start_ns);
    }
  }
  return free_ns;
}

void StartMessages(const Wiring& wiring, std::vector<Event>* events) {
  const std::vector<int64_t> free_ns = QueuesFree(*events, wiring);
  for (size_t i = 0; i < events->size(); ++i) {
    if (!IsSend((*events)[i].kind)) continue;
    Event& send = (*events)[i];
    const uint32_t maker = wiring.wires[i].maker, other = wiring.wires[i].other;
    if (maker == kNoAction || other == kNoAction)
      continue;  // the interpreter refuses plans
                 // without them
    Event& recv = (*events)[other];
    if (recv.start_ns < recv.end_ns) send.end_ns = recv.end_ns;  // the message was in flight
    send.start_ns = std::max({EndOf(*events, maker), free_ns[i], free_ns[other]});
    send.end_ns = std::max(send.end_ns, send.start_ns);
    recv.start_ns = send.start_ns;
    recv.end_ns = std::max(recv.end_ns, recv.start_ns);
  }
}

// Sorts parts by group; those of a group keep their order.
void SortByGroup(const Plan& plan, Timeline* timeline) {
  std::vector<uint32_t> group_of(plan.actions.size());
  for (size_t begin = 0; begin < plan.actions.size();) {
    const size_t size = GroupAt(plan.actions, begin).size();
    std::fill_n(group_of.begin() + begin, size, static_cast<uint32_t>(begin));
    begin += size;
  }
  std::stable_sort(timeline->parts.begin(), timeline->parts.end(),
                   [&](const PartEvent& a, const PartEvent& b) {
                     return group_of[a.event] < group_of[b.event];
                   });
}

void KeepObserved(Timeline* timeline) {
  for (const Event& event : timeline->events) {
    timeline->observed.push_back({event.start_ns, event.end_ns});
  }
  for (const PartEvent& part : timeline->parts) {
    timeline->observed_parts.push_back({part.start_ns, part.end_ns});
  }
}

// An action that was not recorded has no observed times but those found here.
void ForgetUnrecorded(Timeline* timeline) {
  for (size_t i = 0; i < timeline->events.size(); ++i) {
    const Event& event = timeline->events[i];
    ObservedTimes& observed = timeline->observed[i];
    if (observed.end_ns < 0) observed = {event.start_ns, event.end_ns};
  }
}

// Sorts parts by event and time, with their observed times. As in the simulator, parts that take no
// time are dropped.
void SortParts(Timeline* timeline) {
  std::vector<std::pair<PartEvent, ObservedTimes>> parts;
  for (size_t i = 0; i < timeline->parts.size(); ++i) {
    const PartEvent& part = timeline->parts[i];
    if (part.start_ns < part.end_ns) parts.emplace_back(part, timeline->observed_parts[i]);
  }
  std::sort(parts.begin(), parts.end(), [](const auto& one, const auto& other) {
    const auto order = [](const PartEvent& part) {
      return std::make_tuple(part.event, part.start_ns, part.end_ns, LaneOf(part.part));
    };
    return order(one.first) < order(other.first);
  });
  timeline->parts.clear();
  timeline->observed_parts.clear();
  for (const auto& [part, observed] : parts) {
    timeline->parts.push_back(part);
    timeline->observed_parts.push_back(observed);
  }
}

// The plan that was performed, lowered, by the observed starts of computations.
Plan PlanAsObserved(const Plan& lowered, const Timeline& observed) {
  std::vector<std::vector<uint32_t>> order(static_cast<size_t>(lowered.ranks()));
  for (size_t r = 0; r < order.size(); ++r) {
    for (uint32_t i = lowered.first[r]; i < lowered.first[r + 1]; ++i) {
      if (IsCompute(lowered.actions[i].kind)) order[r].push_back(i);
    }
    std::stable_sort(order[r].begin(), order[r].end(), [&observed](uint32_t a, uint32_t b) {
      return observed.events[a].start_ns < observed.events[b].start_ns;
    });
  }
  return Lower(AsPerformed(lowered, order));
}

// The observed events in the order of a plan with the same actions.
Timeline InOrderOf(const Plan& performed, const Timeline& observed) {
  std::map<std::tuple<ActionKind, StageId, MicrobatchId>, const Event*> events;
  for (const Event& event : observed.events) {
    events[{event.kind, event.stage, event.microbatch}] = &event;
  }
  Timeline ordered = TimelineOf(performed, observed.origin);
  for (Event& event : ordered.events) {
    event = *events.at({event.kind, event.stage, event.microbatch});
  }
  return ordered;
}

}  // namespace

Timeline WhenReady(const Plan& lowered, const Wiring& wiring, Timeline observed) {
  if (lowered.window > 0) {
    const Plan performed = PlanAsObserved(lowered, observed);
    Timeline ordered = InOrderOf(performed, observed);
    return WhenReady(performed, WiringOf(performed, wiring.layout), std::move(ordered));
  }
  observed.layout = wiring.layout;
  SortByGroup(lowered, &observed);
  KeepObserved(&observed);
  // A computation may depend on an UNSHARD, which depends on an earlier computation: collectives
  // keep their observed ends, so either may be computed first.
  StartComputations(lowered, wiring, &observed);
  SortParts(&observed);
  StartCollectives(lowered, wiring, &observed.events);
  StartMessages(wiring, &observed.events);
  ForgetUnrecorded(&observed);
  return observed;
}

}  // namespace stringline
