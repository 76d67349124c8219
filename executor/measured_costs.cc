#include "executor/measured_costs.h"

#include "schedlang/sim/calibrate.h"

namespace stringline {

MeasuredCosts::MeasuredCosts(const Plan& plan)
    : forward_backward_(plan.stages.size()), shared_backward_(plan.stages.size()) {
  for (std::vector<Mean>& means : alone_) means.resize(plan.stages.size());
}

void MeasuredCosts::Add(const Timeline& timeline) {
  const std::vector<Event>& events = timeline.events;
  for (size_t begin = 0; begin < events.size();) {
    size_t end = begin + 1;
    while (end < events.size() && events[end].joined) ++end;
    const Event& first = events[begin];
    const int64_t duration_ns = first.end_ns - first.start_ns;
    if (IsSend(first.kind)) {
      hop_.Add(duration_ns);
    } else if (IsCompute(first.kind) && end - begin == 1) {
      alone_[static_cast<int>(first.kind)][first.stage.value].Add(duration_ns);
    } else if (IsCompute(first.kind) && end - begin == 2) {
      const bool forward_first = first.kind == ActionKind::kForward;
      const Event& f = events[forward_first ? begin : begin + 1];
      const Event& b = events[forward_first ? begin + 1 : begin];
      if (f.kind == ActionKind::kForward && b.kind == ActionKind::kBackward) {
        forward_backward_[f.stage.value].Add(duration_ns);
        shared_backward_[b.stage.value].Add(duration_ns);
      }
    }
    begin = end;
  }
}

CostModel MeasuredCosts::Model() const {
  TypicalDurations typical;
  const auto means = [](const std::vector<Mean>& of) {
    std::vector<int64_t> values_ns;
    for (const Mean& mean : of) values_ns.push_back(mean.value_ns());
    return values_ns;
  };
  for (size_t kind = 0; kind < alone_.size(); ++kind) typical.alone[kind] = means(alone_[kind]);
  typical.forward_backward = means(forward_backward_);
  typical.shared_backward = means(shared_backward_);
  typical.message = hop_.value_ns();
  return CostsFrom(typical);
}

}  // namespace stringline
