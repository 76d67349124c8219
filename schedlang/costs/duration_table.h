// The durations of recorded steps by kind and stage, from which measured and calibrated costs are
// made.
//
// A computation alone on its rank gives a duration of its kind and stage; an `F a & B b` whose
// parts were not recorded one of the pair; parts one each, wherever they ran, unless they took no
// time; a message one from when it leaves to when it arrives; a collective one of its stage. Other
// groups give nothing. Durations are without the time in which an event waited for buckets
// (plan/buckets.h).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "schedlang/costs/calibrate.h"
#include "schedlang/plan/parts.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

using Durations = std::vector<int64_t>;  // in nanoseconds

class DurationTable {
 public:
  explicit DurationTable(size_t stages)
      : forward_backward(stages),
        shared_backward(stages),
        unshard(stages),
        reduce(stages),
        layers(stages, 0) {
    for (std::vector<Durations>& of : alone) of.resize(stages);
    for (std::vector<Durations>& of : beside) of.resize(stages);
    for (std::vector<Durations>& of : parts) of.resize(stages);
  }

  // A part of a chunk counts as the share of a part that it is.
  void Add(const Timeline& timeline) {
    chunks_ = 1;
    for (const PartEvent& part : timeline.parts) {
      chunks_ = std::max(chunks_, part.chunk + 1);
      const Event& owner = timeline.events[part.event];
      int& most = layers[owner.stage.value];
      if (!RowOfPart(part.part).once) most = std::max(most, part.layer + 1);
    }
    size_t next = 0;  // index among the parts, which are by event
    for (size_t begin = 0; begin < timeline.events.size();) {
      size_t end = begin + 1;
      while (end < timeline.events.size() && timeline.events[end].joined) ++end;
      const size_t first = next;
      while (next < timeline.parts.size() && timeline.parts[next].event < end) ++next;
      AddGroup(timeline, begin, end, /*in_parts=*/next > first);
      for (size_t p = first; p < next; ++p) AddPart(timeline, timeline.parts[p], end - begin > 1);
      begin = end;
    }
  }

  // The typical duration of each is value(of).
  template <typename Value>
  TypicalDurations Typical(Value value) const {
    const auto all = [&](const std::vector<Durations>& lists) {
      std::vector<int64_t> values_ns;
      for (const Durations& of : lists) values_ns.push_back(value(of));
      return values_ns;
    };
    TypicalDurations typical;
    for (size_t kind = 0; kind < alone.size(); ++kind) {
      typical.alone[kind] = all(alone[kind]);
      const std::vector<int64_t> others_ns = all(beside[kind]);
      for (size_t s = 0; s < others_ns.size(); ++s) {
        if (typical.alone[kind][s] == 0) typical.alone[kind][s] = others_ns[s];
      }
    }
    typical.forward_backward = all(forward_backward);
    typical.shared_backward = all(shared_backward);
    typical.unshard = all(unshard);
    typical.reduce = all(reduce);
    typical.message = value(message);
    if (std::all_of(layers.begin(), layers.end(), [](int count) { return count == 0; })) {
      return typical;
    }
    typical.parts.resize(layers.size());
    for (size_t s = 0; s < layers.size(); ++s) typical.parts[s].layers = layers[s];
    for (int part = 0; part < kParts; ++part) {
      const std::vector<int64_t> values_ns = all(parts[part]);
      for (size_t s = 0; s < layers.size(); ++s) typical.parts[s].ns[part] = values_ns[s];
    }
    return typical;
  }

  // The standard deviation of a part's duration, relative to the mean of its part and stage. The
  // mean deviation tells it, to which a single hiccup adds little; of normally distributed
  // durations that is 0.7979 standard deviations.
  double PartJitter() const {
    double deviations_ns = 0, sum_ns = 0;
    for (const std::vector<Durations>& stages : parts) {
      for (const Durations& durations : stages) {
        const double of_all = std::accumulate(durations.begin(), durations.end(), 0.0);
        const double mean_ns = of_all / static_cast<double>(std::max<size_t>(1, durations.size()));
        for (const int64_t ns : durations) {
          deviations_ns += std::abs(static_cast<double>(ns) - mean_ns);
        }
        sum_ns += of_all;
      }
    }
    return sum_ns == 0 ? 0 : deviations_ns / 0.7979 / sum_ns;
  }

  // By kind, of computations and copies, then stage: of actions alone, and of those in groups of
  // stages without layers of parts.
  std::array<std::vector<Durations>, kActionKinds> alone;
  std::array<std::vector<Durations>, kActionKinds> beside;
  std::vector<Durations> forward_backward;           // by stage of the F
  std::vector<Durations> shared_backward;            // the same groups by stage of the B
  std::array<std::vector<Durations>, kParts> parts;  // by part, then stage
  std::vector<Durations> unshard;
  std::vector<Durations> reduce;
  Durations message;
  std::vector<int> layers;  // by stage: layers with recorded parts

 private:
  int chunks_ = 1;  // of the timeline being added

  void AddGroup(const Timeline& timeline, size_t begin, size_t end, bool in_parts) {
    const Event& first = timeline.events[begin];
    const int64_t duration_ns = first.worked_ns();
    const auto stage = static_cast<size_t>(first.stage.value);
    if (IsMessage(first.kind)) {
      for (size_t i = begin; i < end; ++i) {
        const Event& event = timeline.events[i];
        if (IsSend(event.kind)) message.push_back(event.end_ns - event.start_ns);
      }
    } else if (first.kind == ActionKind::kUnshard) {
      unshard[stage].push_back(duration_ns);
    } else if (first.kind == ActionKind::kReduceGrad) {
      reduce[stage].push_back(duration_ns);
    } else if (in_parts && chunks_ > 1) {
      return;  // chunks overlap: the parts tell what the action takes
    } else if (TakesTurn(first.kind) && end - begin == 1) {
      alone[static_cast<size_t>(first.kind)][stage].push_back(duration_ns);
    } else if (IsCompute(first.kind) && end - begin == 2 && !in_parts) {
      const bool forward_first = first.kind == ActionKind::kForward;
      const Event& f = timeline.events[forward_first ? begin : begin + 1];
      const Event& b = timeline.events[forward_first ? begin + 1 : begin];
      if (f.kind != ActionKind::kForward || b.kind != ActionKind::kBackward) return;
      forward_backward[f.stage.value].push_back(duration_ns);
      shared_backward[b.stage.value].push_back(duration_ns);
    }
  }

  // A stage without layers has a single part, which takes as long as the action; so has an R.
  void AddPart(const Timeline& timeline, const PartEvent& part, bool grouped) {
    const Event& owner = timeline.events[part.event];
    const int64_t duration_ns = chunks_ * (part.end_ns - part.start_ns);
    if (layers[owner.stage.value] > 0 && owner.kind != ActionKind::kRecompute) {
      parts[part.part][owner.stage.value].push_back(duration_ns);
    } else if (grouped || chunks_ > 1) {
      beside[static_cast<size_t>(owner.kind)][owner.stage.value].push_back(duration_ns);
    }
  }
};

}  // namespace stringline
