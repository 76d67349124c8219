#include "tools/view/lane_rows.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/plan/parts.h"

namespace stringline {
namespace {

constexpr int kLaneKinds = 8;
constexpr const char* kNames[kLaneKinds] = {"rank",        "network", "activations", "gradients",
                                            "collectives", "own",     "to host",     "from host"};

struct StandIn {
  ActionKind collective;
  ActionKind computation;
  char letter;
};
constexpr StandIn kStandIns[] = {
    {ActionKind::kUnshard, ActionKind::kForward, 'U'},
    {ActionKind::kReshard, ActionKind::kInputGradient, 'S'},
    {ActionKind::kReduceGrad, ActionKind::kWeightGradient, 'R'},
};

// A schedule has no more own actions on another lane than on the compute lane, whose stand for
// them.
ActionKind StandInOfOwn(ActionKind own) {
  return static_cast<ActionKind>(static_cast<int>(ActionKind::kOwnCompute0) + NumberOnLane(own));
}
ActionKind DrawnOwn(LaneKind lane, ActionKind stand_in) {
  const ActionKind first = lane == LaneKind::kToHost     ? ActionKind::kOwnOut0
                           : lane == LaneKind::kFromHost ? ActionKind::kOwnIn0
                           : lane == LaneKind::kOwn      ? ActionKind::kOwnNetwork0
                                                         : ActionKind::kOwnCompute0;
  return static_cast<ActionKind>(static_cast<int>(first) + NumberOnLane(stand_in));
}

Event EventOfPart(const Timeline& timeline, const PartEvent& part) {
  Event event = timeline.events[part.event];
  event.joined = false;
  event.start_ns = part.start_ns;
  event.end_ns = part.end_ns;
  const ActionKind of = RowOfPart(part.part).of;
  // An R keeps its kind, though its parts are those of F.
  if (of != ActionKind::kInputGradient && of != ProgramOf(event.kind)) event.kind = of;
  return event;
}

// The row of an event below its rank's computation; kCompute: the event is in no such row.
LaneKind LaneBelow(const Event& event) {
  if (event.start_ns == event.end_ns) return LaneKind::kCompute;
  if (event.kind == ActionKind::kRecvForward) return LaneKind::kActivations;
  if (event.kind == ActionKind::kRecvBackward) return LaneKind::kGradients;
  if (IsCopy(event.kind)) return CopiesOut(event.kind) ? LaneKind::kToHost : LaneKind::kFromHost;
  if (IsOwnNetwork(event.kind)) return LaneKind::kOwn;
  return IsCollective(event.kind) ? LaneKind::kCollectives : LaneKind::kCompute;
}

using Group = std::vector<Event>;  // `a & b`, or a single event

class LaneSorter {
 public:
  explicit LaneSorter(const Timeline& timeline) : timeline_(timeline) {
    rows_.timeline.origin = timeline.origin;
    rows_.timeline.schedule = timeline.schedule;
    rows_.timeline.parameters = timeline.parameters;
    rows_.timeline.pipes = timeline.pipes;
    rows_.timeline.rows = timeline.rows;
    rows_.timeline.slices = timeline.slices;
    rows_.timeline.forward_only = timeline.forward_only;
    const auto is_whole = [](const Event& event) { return event.kind == ActionKind::kBackward; };
    if (std::none_of(timeline.events.begin(), timeline.events.end(), is_whole)) {
      gradient_ = ActionKind::kInputGradient;
    }
  }

  LaneRows Sorted() {
    for (int rank = 0; rank < timeline_.ranks(); ++rank) SortRank(rank);
    return std::move(rows_);
  }

 private:
  void SortRank(int rank) {
    std::array<std::vector<Group>, kLaneKinds> lanes;
    const auto lane = [&lanes](LaneKind kind) -> auto& { return lanes[static_cast<size_t>(kind)]; };
    const uint32_t last = timeline_.first[rank + 1];
    for (uint32_t i = timeline_.first[rank]; i < last;) {
      const uint32_t group = i++;
      while (i < last && timeline_.events[i].joined) ++i;
      const size_t first_part = part_;
      for (; part_ < timeline_.parts.size() && timeline_.parts[part_].event < i; ++part_) {
        const PartEvent& part = timeline_.parts[part_];
        lane(LaneOf(part.part) == Lane::kNetwork ? LaneKind::kNetwork : LaneKind::kCompute)
            .push_back({EventOfPart(timeline_, part)});
      }
      if (part_ > first_part) continue;
      if (IsCompute(timeline_.events[group].kind)) {
        lane(LaneKind::kCompute)
            .emplace_back(timeline_.events.begin() + group, timeline_.events.begin() + i);
        continue;
      }
      for (uint32_t k = group; k < i; ++k) {
        const LaneKind below = LaneBelow(timeline_.events[k]);
        if (below != LaneKind::kCompute) lane(below).push_back({StandInOf(timeline_.events[k])});
      }
    }
    for (int kind = 0; kind < kLaneKinds; ++kind) {
      const bool is_there = kind == 0 || (kind == 1 && !timeline_.parts.empty());
      if (is_there || !lanes[kind].empty()) {
        AddRow(rank, static_cast<LaneKind>(kind), std::move(lanes[kind]));
      }
    }
  }

  Event StandInOf(Event event) const {
    event.joined = false;
    if (event.kind == ActionKind::kRecvForward || event.kind == ActionKind::kOffload ||
        event.kind == ActionKind::kFetch) {
      event.kind = ActionKind::kForward;
    }
    if (event.kind == ActionKind::kRecvBackward) event.kind = gradient_;
    if (IsOwn(event.kind)) event.kind = StandInOfOwn(event.kind);
    for (const StandIn& row : kStandIns) {
      if (event.kind != row.collective) continue;
      event.kind = row.computation;
      event.microbatch = MicrobatchId(event.stage.value);
      break;
    }
    return event;
  }

  void AddRow(int rank, LaneKind kind, std::vector<Group> groups) {
    std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
      return a.front().start_ns < b.front().start_ns;
    });
    int64_t now_ns = 0;
    for (Group& group : groups) {
      for (Event& event : group) {
        if (kind >= LaneKind::kActivations) {
          event.start_ns = std::max(event.start_ns, now_ns);
          event.end_ns = std::max(event.end_ns, event.start_ns);
        }
        rows_.timeline.events.push_back(event);
      }
      now_ns = std::max(now_ns, group.front().end_ns);
    }
    rows_.timeline.first.push_back(static_cast<uint32_t>(rows_.timeline.events.size()));
    const char* name = kNames[static_cast<size_t>(kind)];
    if (IsOfCopies(kind) && timeline_.rows.HasCopies()) {
      name = kind == LaneKind::kToHost ? "copies out" : "copies in";
    }
    rows_.names.push_back(kind == LaneKind::kCompute ? absl::StrCat(name, " ", rank) : name);
    rows_.kinds.push_back(kind);
    rows_.ranks.push_back(rank);
  }

  const Timeline& timeline_;
  ActionKind gradient_ = ActionKind::kBackward;
  size_t part_ = 0;  // index in timeline_.parts: the first part not sorted yet
  LaneRows rows_;
};

}  // namespace

LaneRows RowsByLane(const Timeline& timeline) { return LaneSorter(timeline).Sorted(); }

bool HasLanes(const Timeline& timeline) {
  const auto has_lane = [](const Event& event) { return LaneBelow(event) != LaneKind::kCompute; };
  return !timeline.parts.empty() ||
         std::any_of(timeline.events.begin(), timeline.events.end(), has_lane);
}

char LetterOfCollective(ActionKind stand_in) {
  for (const StandIn& row : kStandIns) {
    if (row.computation == stand_in) return row.letter;
  }
  return '?';
}

ActionKind DrawnKind(LaneKind lane, ActionKind stand_in) {
  if (IsOwn(stand_in)) return DrawnOwn(lane, stand_in);
  if (!IsOfCopies(lane)) return stand_in;
  return lane == LaneKind::kToHost ? ActionKind::kOffload : ActionKind::kFetch;
}

}  // namespace stringline
