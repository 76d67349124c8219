#include "tools/view/trace_lanes.h"

#include <algorithm>
#include <tuple>

#include "schedlang/plan/parts.h"

namespace stringline {
namespace {

class LaneSorter {
 public:
  LaneSorter(const Plan& plan, const Timeline& timeline)
      : plan_(plan),
        timeline_(timeline),
        channels_(ChannelsOf(plan)),
        queues_(QueuesOf(channels_, timeline.layout)) {}

  std::vector<TraceLane> Run() {
    for (int r = 0; r < timeline_.ranks(); ++r) SortRank(RankId(r));
    return std::move(lanes_);
  }

 private:
  using Slices = std::vector<TraceSlice>;

  void SortRank(RankId rank) {
    Slices compute, network, collectives, own, to_host, from_host;
    std::vector<Slices> of_queue(queues_.all.size());
    for (uint32_t i = timeline_.first[rank.value]; i < timeline_.first[rank.value + 1]; ++i) {
      const Event& event = timeline_.events[i];
      const TraceSlice slice = {event.start_ns, event.end_ns, i};
      if (IsCompute(event.kind)) {
        compute.push_back(slice);
      } else if (IsCollective(event.kind)) {
        collectives.push_back(slice);
      } else if (IsCopy(event.kind)) {
        (CopiesOut(event.kind) ? to_host : from_host).push_back(slice);
      } else if (IsOwnNetwork(event.kind)) {
        own.push_back(slice);
      } else if (const int queue = QueueOf(plan_.actions[i]); queue >= 0) {
        of_queue[queue].push_back(slice);
      }
    }
    for (; part_ < timeline_.parts.size(); ++part_) {
      const PartEvent& part = timeline_.parts[part_];
      if (part.event >= timeline_.first[rank.value + 1]) break;
      (LaneOf(part.part) == Lane::kNetwork ? network : compute)
          .push_back({part.start_ns, part.end_ns, part.event, static_cast<int32_t>(part_)});
    }
    AddLanes(rank, "compute", std::move(compute));
    for (size_t q = 0; q < of_queue.size(); ++q) {
      if (queues_.all[q].rank != rank) continue;
      AddLanes(rank, queues_.all[q].communicator, std::move(of_queue[q]));
    }
    AddLanes(rank, "network", std::move(network));
    AddLanes(rank, "data parallel", std::move(collectives));
    AddLanes(rank, "own", std::move(own));
    AddLanes(rank, "to host", std::move(to_host));
    AddLanes(rank, "from host", std::move(from_host));
  }

  int QueueOf(const Action& message) const {
    const int channel = channels_.Of(plan_, message);
    if (channel < 0) return -1;
    return (IsSend(message.kind) ? queues_.of_send : queues_.of_recv)[channel];
  }

  // Adds lanes, as many as needed for slices of a lane to follow or enclose each other.
  void AddLanes(RankId rank, const std::string& name, Slices slices) {
    if (slices.empty()) return;
    std::stable_sort(slices.begin(), slices.end(), [](const TraceSlice& a, const TraceSlice& b) {
      return std::tuple(a.start_ns, -a.end_ns, a.event, a.part) <
             std::tuple(b.start_ns, -b.end_ns, b.event, b.part);
    });
    struct Row {
      size_t lane;
      std::vector<int64_t> open;  // the ends of the slices around the next slice
    };
    std::vector<Row> rows;
    for (const TraceSlice& slice : slices) {
      Row* found = nullptr;
      for (Row& row : rows) {
        while (!row.open.empty() && row.open.back() <= slice.start_ns) row.open.pop_back();
        if (!row.open.empty() && row.open.back() < slice.end_ns) continue;
        found = &row;
        break;
      }
      if (found == nullptr) {
        rows.push_back({lanes_.size(), {}});
        lanes_.push_back({rank, name, {}});
        found = &rows.back();
      }
      found->open.push_back(slice.end_ns);
      lanes_[found->lane].slices.push_back(slice);
    }
  }

  const Plan& plan_;
  const Timeline& timeline_;
  const Channels channels_;
  const CommQueues queues_;
  size_t part_ = 0;  // index in timeline_.parts: the next part of the rank
  std::vector<TraceLane> lanes_;
};

}  // namespace

std::vector<TraceLane> TraceLanesOf(const Plan& plan, const Timeline& timeline) {
  return LaneSorter(plan, timeline).Run();
}

std::string NameOf(const Timeline& timeline, const TraceSlice& slice) {
  if (slice.part >= 0) {
    const PartEvent& part = timeline.parts[slice.part];
    return Print(LayerPart{part.part, part.layer, part.chunk});
  }
  const Event& event = timeline.events[slice.event];
  return PrintAction(timeline, event);
}

}  // namespace stringline
