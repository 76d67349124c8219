// Streams write the times of calls, parts and pieces; a timeline is put together from them when it
// is asked for.
#include "executor/engine/recorder.h"

#include <algorithm>
#include <atomic>
#include <vector>

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
constexpr int64_t kNotRecorded = -1;

// A time that was never written stays 0.
int64_t MovedNs(int64_t ns, int64_t by_ns) { return ns == 0 ? 0 : ns + by_ns; }

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
  const std::lock_guard<std::mutex> lock(mutex_);
  step_start_ns_ = now_ns;
  for (CommandTimes& times : times_) Forget(&times);
  for (RecordedPart& part : parts_) Forget(&part.times);
  for (auto& [action, pieces] : pieces_) {
    for (RecordedPiece& piece : pieces) Forget(&piece.times);
  }
  told_parts_.clear();
  told_pieces_.clear();
}

// An action in parts, or in pieces, begins with its first and ends with its last.
void Recorder::LookAtPart(uint32_t action, const CommandTimes& times, uint32_t begin,
                          absl::Span<ActionTimes> known) {
  if (action < begin || action - begin >= known.size()) return;
  const ActionTimes own = LookAt(times);
  ActionTimes& of = known[action - begin];
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
  const std::lock_guard<std::mutex> lock(mutex_);
  known = known.subspan(0, end - begin);
  for (uint32_t i = begin; i < end; ++i) known[i - begin] = LookAt(times_[i]);
  if (parts_.empty() && pieces_.empty()) return;
  for (const RecordedPart& part : parts_) LookAtPart(part.action, part.times, begin, known);
  for (const RecordedPart& part : told_parts_) LookAtPart(part.action, part.times, begin, known);
  for (const auto& [action, pieces] : pieces_) {
    for (const RecordedPiece& piece : pieces) LookAtPart(action, piece.times, begin, known);
  }
  for (const InPieces& told : told_pieces_) {
    LookAtPart(told.action, {{told.start_ns, told.end_ns}}, begin, known);
  }
  for (ActionTimes& of : known) of.end_ns = std::max<int64_t>(of.end_ns, 0);
}

CommandTimes* Recorder::AddPart(size_t index, LayerPart part, const CommandTimes* awaited) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return &parts_.emplace_back(RecordedPart{static_cast<uint32_t>(index), part, {}, awaited}).times;
}

CommandTimes* Recorder::AddPiece(size_t index, const CommandTimes* awaited) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return &pieces_[static_cast<uint32_t>(index)].emplace_back(RecordedPiece{{}, awaited}).times;
}

// A call begins when its stream has come to it, which not every device observes, and the awaited
// command has ended.
Recorder::InPieces Recorder::AsOne(uint32_t action, const std::deque<RecordedPiece>& pieces) {
  InPieces one{.action = action};
  for (size_t k = 0; k < pieces.size(); ++k) {
    const CommandTimes& times = pieces[k].times;
    const int64_t awaited_ns = pieces[k].awaited == nullptr ? 0 : pieces[k].awaited->end_ns;
    if (k == 0) {
      const int64_t came_ns = std::max(times.came_ns, awaited_ns);
      one.start_ns = times.start_ns != 0 ? times.start_ns : came_ns != 0 ? came_ns : times.end_ns;
      one.first_ns = times.end_ns;
    } else {
      one.waited_ns += std::max<int64_t>(awaited_ns - one.end_ns, 0);
    }
    one.end_ns = std::max(one.end_ns, times.end_ns);
  }
  return one;
}

CommandTimes Recorder::Moved(const CommandTimes& times, int64_t by_ns) {
  return {{MovedNs(times.start_ns, by_ns), MovedNs(times.end_ns, by_ns)},
          MovedNs(times.came_ns, by_ns)};
}

Recorder::RecordedPart Recorder::Moved(const RecordedPart& part, int64_t by_ns) {
  return {part.action, part.part, Moved(part.times, by_ns), nullptr,
          MovedNs(part.AwaitedNs(), by_ns)};
}

Recorder::InPieces Recorder::Moved(InPieces one, int64_t by_ns) {
  for (int64_t* const ns : {&one.start_ns, &one.end_ns, &one.first_ns}) *ns = MovedNs(*ns, by_ns);
  return one;
}

void Recorder::Pack(const Plan& lowered, absl::Span<const RankId> ranks, int64_t ahead_ns,
                    PackedNumbers* numbers) const {
  for (const RankId rank : ranks) {
    for (uint32_t i = lowered.first[rank.value]; i < lowered.first[rank.value + 1]; ++i) {
      numbers->Add(Moved(times_[i], -ahead_ns));
    }
  }
  numbers->Add(parts_.size());
  for (const RecordedPart& part : parts_) numbers->Add(Moved(part, -ahead_ns));
  numbers->Add(pieces_.size());
  for (const auto& [action, pieces] : pieces_)
    numbers->Add(Moved(AsOne(action, pieces), -ahead_ns));
}

void Recorder::Take(const Plan& lowered, absl::Span<const RankId> ranks, int64_t ahead_ns,
                    NumberReader* numbers) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const RankId rank : ranks) {
    for (uint32_t i = lowered.first[rank.value]; i < lowered.first[rank.value + 1]; ++i) {
      times_[i] = Moved(numbers->Take<CommandTimes>(), ahead_ns);
    }
  }
  for (auto left = numbers->Take<size_t>(); left > 0; --left) {
    told_parts_.push_back(Moved(numbers->Take<RecordedPart>(), ahead_ns));
  }
  for (auto left = numbers->Take<size_t>(); left > 0; --left) {
    told_pieces_.push_back(Moved(numbers->Take<InPieces>(), ahead_ns));
  }
}

Timeline Recorder::Observed(const Plan& lowered) const {
  Timeline timeline = TimelineOf(lowered, "measured");
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    Event& event = timeline.events[i];
    const bool recorded = times_[i].end_ns != 0;
    event.end_ns = recorded ? times_[i].end_ns - step_start_ns_ : kNotRecorded;
    event.start_ns = recorded ? StartOf(times_[i]) - step_start_ns_ : kNotRecorded;
  }
  const auto add_pieces = [&](const InPieces& one) {
    Event& event = timeline.events[one.action];
    const bool gathers = event.kind == ActionKind::kUnshard;
    event.end_ns = one.end_ns - step_start_ns_;
    event.start_ns = one.start_ns - step_start_ns_;
    event.waited_ns = gathers ? 0 : std::min(one.waited_ns, event.end_ns - event.start_ns);
    event.first_bucket_ns = gathers ? one.first_ns - step_start_ns_ : 0;
  };
  for (const auto& [action, pieces] : pieces_) add_pieces(AsOne(action, pieces));
  for (const InPieces& one : told_pieces_) add_pieces(one);
  const auto add = [&](const RecordedPart& recorded) {
    timeline.parts.push_back({recorded.action, recorded.part.part, recorded.part.layer,
                              StartOf(recorded.times) - step_start_ns_,
                              recorded.times.end_ns - step_start_ns_, recorded.part.chunk,
                              MovedNs(recorded.AwaitedNs(), -step_start_ns_)});
  };
  for (const RecordedPart& recorded : parts_) add(recorded);
  for (const RecordedPart& recorded : told_parts_) add(recorded);
  std::vector<bool> begun(timeline.events.size(), false);
  for (const PartEvent& part : timeline.parts) {
    Event& event = timeline.events[part.event];
    const bool first = !begun[part.event];
    begun[part.event] = true;
    event.start_ns = first ? part.start_ns : std::min(event.start_ns, part.start_ns);
    event.end_ns = first ? part.end_ns : std::max(event.end_ns, part.end_ns);
  }
  return timeline;
}

}  // namespace stringline
