#include "executor/measured_costs.h"

#include <algorithm>

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
  CostModel model;
  const size_t stages = forward_backward_.size();
  bool grouped = false;
  for (size_t s = 0; s < stages; ++s) {
    int64_t f = alone_[0][s].value_ns();
    int64_t b = alone_[1][s].value_ns();
    int64_t i = alone_[2][s].value_ns();
    int64_t w = alone_[3][s].value_ns();
    if (f == 0) f = forward_backward_[s].value_ns() / 2;
    if (b == 0) b = i > 0 && w > 0 ? i + w : shared_backward_[s].value_ns() / 2;
    if (i == 0) i = w > 0 ? std::max<int64_t>(b - w, 0) : b / 2;
    if (w == 0) w = std::max<int64_t>(b - i, 0);
    model.forward.push_back(f);
    model.backward.push_back(b);
    model.input_gradient.push_back(i);
    model.weight_gradient.push_back(w);
    grouped = grouped || forward_backward_[s].count > 0;
  }
  for (size_t s = 0; grouped && s < stages; ++s) {
    model.forward_backward.push_back(forward_backward_[s].count > 0
                                         ? forward_backward_[s].value_ns()
                                         : model.forward[s] + model.backward[s]);
  }
  model.hop = hop_.value_ns();
  return model;
}

}  // namespace stringline
