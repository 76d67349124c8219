#include "executor/engine/recorder.h"

#include <algorithm>
#include <atomic>
#include <tuple>

namespace stringline {
namespace {

// The start, or the end of work without a recorded start; 0: never recorded.
int64_t StartOf(const WorkTimes& times) {
  return times.start_ns == 0 ? times.end_ns : times.start_ns;
}

// Streams write times while other threads read them.
int64_t Read(const int64_t& ns) {
  return std::atomic_ref<int64_t>(const_cast<int64_t&>(ns)).load(std::memory_order_relaxed);
}
void Forget(CommandTimes* times) {
  for (int64_t* const ns : {&times->start_ns, &times->end_ns, &times->came_ns}) {
    std::atomic_ref<int64_t>(*ns).store(0, std::memory_order_relaxed);
  }
}

constexpr int64_t kNever = -1;  // the end of an action with a part that has none

// Work that is followed by calls ends before they do.
ActionTimes LookAt(const CommandTimes& times) {
  const int64_t start_ns = Read(times.start_ns), end_ns = Read(times.end_ns),
                came_ns = Read(times.came_ns);
  ActionTimes known;
  known.start_ns = start_ns != 0 ? start_ns : came_ns != 0 ? came_ns : end_ns;
  if (end_ns >= came_ns) known.end_ns = end_ns;
  return known;
}

}  // namespace

Recorder::Recorder(const Plan& lowered) : times_(lowered.actions.size()) {}

void Recorder::StartStep(int64_t now_ns) {
  step_start_ns_ = now_ns;
  for (CommandTimes& times : times_) Forget(&times);
  for (RecordedPart& part : parts_) Forget(&part.times);
  told_parts_.clear();
}

// An action in parts begins with its first part and ends with its last.
void Recorder::LookAtPart(const RecordedPart& part, uint32_t begin, absl::Span<ActionTimes> known) {
  if (part.action < begin || part.action - begin >= known.size()) return;
  const ActionTimes own = LookAt(part.times);
  ActionTimes& of = known[part.action - begin];
  if (of.start_ns == 0 || (own.start_ns != 0 && own.start_ns < of.start_ns)) {
    of.start_ns = own.start_ns;
  }
  if (own.end_ns == 0 || of.end_ns == kNever) {
    of.end_ns = kNever;
  } else {
    of.end_ns = std::max(of.end_ns, own.end_ns);
  }
}

void Recorder::Look(uint32_t begin, uint32_t end, absl::Span<ActionTimes> known) const {
  known = known.subspan(0, end - begin);
  for (uint32_t i = begin; i < end; ++i) known[i - begin] = LookAt(times_[i]);
  if (parts_.empty()) return;
  for (const RecordedPart& part : parts_) LookAtPart(part, begin, known);
  for (const RecordedPart& part : told_parts_) LookAtPart(part, begin, known);
  for (ActionTimes& of : known) of.end_ns = std::max<int64_t>(of.end_ns, 0);
}

CommandTimes* Recorder::AddPart(size_t index, LayerPart part) {
  return &parts_.emplace_back(RecordedPart{static_cast<uint32_t>(index), part, {}}).times;
}

// Times that were never written stay 0.
CommandTimes Recorder::Moved(const CommandTimes& times, int64_t by_ns) {
  const auto moved = [&](int64_t ns) { return ns == 0 ? 0 : ns + by_ns; };
  return {{moved(times.start_ns), moved(times.end_ns)}, moved(times.came_ns)};
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
      times_[i] = Moved(numbers->Take<CommandTimes>(), ahead_ns);
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
                              recorded.times.end_ns - step_start_ns_, recorded.part.chunk});
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
