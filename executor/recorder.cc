#include "executor/recorder.h"

#include <algorithm>
#include <tuple>

namespace stringline {
namespace {

// When it began, of what has a beginning: 0 is the time of nothing that was ever recorded.
int64_t StartOf(const WorkTimes& times) {
  return times.start_ns == 0 ? times.end_ns : times.start_ns;
}

}  // namespace

Recorder::Recorder(const Plan& lowered) : times_(lowered.actions.size()) {}

WorkTimes* Recorder::AddPart(size_t index, LayerPart part) {
  return &parts_.emplace_back(RecordedPart{static_cast<uint32_t>(index), part, {}}).times;
}

// Times that were never written stay 0.
WorkTimes Recorder::Moved(const WorkTimes& times, int64_t by_ns) {
  const auto moved = [&](int64_t ns) { return ns == 0 ? 0 : ns + by_ns; };
  return {moved(times.start_ns), moved(times.end_ns)};
}

void Recorder::Pack(const Plan& lowered, absl::Span<const RankId> ranks, int64_t ahead_ns,
                    PackedNumbers* numbers) const {
  numbers->Add(step_start_ns_ - ahead_ns);
  for (const RankId rank : ranks) {
    for (uint32_t i = lowered.first[rank.value]; i < lowered.first[rank.value + 1]; ++i) {
      numbers->Add(Moved(times_[i], -ahead_ns));
    }
  }
  numbers->Add(parts_.size());
  for (const RecordedPart& part : parts_) {
    numbers->Add(RecordedPart{part.action, part.part, Moved(part.times, -ahead_ns)});
  }
}

void Recorder::Take(const Plan& lowered, absl::Span<const RankId> ranks, int64_t ahead_ns,
                    bool start, NumberReader* numbers) {
  const auto start_ns = numbers->Take<int64_t>();
  if (start) step_start_ns_ = start_ns + ahead_ns;
  for (const RankId rank : ranks) {
    for (uint32_t i = lowered.first[rank.value]; i < lowered.first[rank.value + 1]; ++i) {
      times_[i] = Moved(numbers->Take<WorkTimes>(), ahead_ns);
    }
  }
  for (auto left = numbers->Take<size_t>(); left > 0; --left) {
    RecordedPart part = numbers->Take<RecordedPart>();
    part.times = Moved(part.times, ahead_ns);
    told_parts_.push_back(part);
  }
}

Timeline Recorder::Observed(const Plan& lowered) const {
  Timeline timeline = TimelineOf(lowered, "measured");
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    Event& event = timeline.events[i];
    event.end_ns = times_[i].end_ns - step_start_ns_;
    event.start_ns = StartOf(times_[i]) - step_start_ns_;
  }
  const auto add = [&](const RecordedPart& recorded) {
    timeline.parts.push_back({recorded.action, recorded.part.part, recorded.part.layer,
                              StartOf(recorded.times) - step_start_ns_,
                              recorded.times.end_ns - step_start_ns_});
  };
  for (const RecordedPart& recorded : parts_) add(recorded);
  for (const RecordedPart& recorded : told_parts_) add(recorded);
  std::sort(
      timeline.parts.begin(), timeline.parts.end(), [](const PartEvent& a, const PartEvent& b) {
        return std::tie(a.event, a.end_ns, a.start_ns) < std::tie(b.event, b.end_ns, b.start_ns);
      });
  for (size_t i = 0; i < timeline.parts.size(); ++i) {
    const PartEvent& part = timeline.parts[i];
    Event& event = timeline.events[part.event];
    const bool first = i == 0 || timeline.parts[i - 1].event != part.event;
    event.start_ns = first ? part.start_ns : std::min(event.start_ns, part.start_ns);
    event.end_ns = first ? part.end_ns : std::max(event.end_ns, part.end_ns);
  }
  return timeline;
}

}  // namespace stringline
