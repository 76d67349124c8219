#include "executor/training/measured_costs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "schedlang/costs/duration_table.h"

namespace stringline {
namespace {

int64_t MeanOf(const Durations& durations) {
  const auto count = static_cast<int64_t>(durations.size());
  return count == 0 ? 0 : std::accumulate(durations.begin(), durations.end(), int64_t{0}) / count;
}

// Adds the numbers of `from`, a list that may be empty or as long.
void AddTo(const std::vector<int64_t>& from, std::vector<int64_t>* to) {
  to->resize(std::max(to->size(), from.size()), 0);
  for (size_t s = 0; s < from.size(); ++s) (*to)[s] += from[s];
}

void Divide(int64_t by, std::vector<int64_t>* list) {
  for (int64_t& ns : *list) ns /= by;
}

// The means of durations of the same plan; there is at least one of them.
TypicalDurations MeanOf(const std::vector<const TypicalDurations*>& all) {
  const auto count = static_cast<int64_t>(all.size());
  TypicalDurations mean;
  for (const TypicalDurations* one : all) {
    for (size_t k = 0; k < mean.alone.size(); ++k) AddTo(one->alone[k], &mean.alone[k]);
    AddTo(one->forward_backward, &mean.forward_backward);
    AddTo(one->shared_backward, &mean.shared_backward);
    AddTo(one->unshard, &mean.unshard);
    AddTo(one->reduce, &mean.reduce);
    mean.message += one->message;
    mean.parts.resize(std::max(mean.parts.size(), one->parts.size()), {.layers = 0});
    for (size_t s = 0; s < one->parts.size(); ++s) {
      PartCosts& parts = mean.parts[s];
      parts.layers = std::max(parts.layers, one->parts[s].layers);
      for (int part = 0; part < kParts; ++part) parts.ns[part] += one->parts[s].ns[part];
    }
  }
  for (std::vector<int64_t>& of : mean.alone) Divide(count, &of);
  for (auto* const of :
       {&mean.forward_backward, &mean.shared_backward, &mean.unshard, &mean.reduce}) {
    Divide(count, of);
  }
  mean.message /= count;
  for (PartCosts& parts : mean.parts) {
    for (int64_t& ns : parts.ns) ns /= count;
  }
  return mean;
}

}  // namespace

void MeasuredCosts::Add(const Timeline& timeline) {
  DurationTable seen(plan_.stages.size());
  seen.Add(timeline);
  steps_.push_back({MeasureBubbles(timeline).makespan_ns,
                    seen.Typical([](const Durations& durations) { return MeanOf(durations); }),
                    seen.PartJitter()});
}

CostModel MeasuredCosts::Model() const {
  std::vector<const Step*> typical;
  for (const Step& step : steps_) typical.push_back(&step);
  std::stable_sort(typical.begin(), typical.end(),
                   [](const Step* x, const Step* y) { return x->makespan_ns < y->makespan_ns; });
  const size_t dropped = (typical.size() + 1) / 4;  // on either side
  typical.erase(typical.end() - static_cast<int64_t>(dropped), typical.end());
  typical.erase(typical.begin(), typical.begin() + static_cast<int64_t>(dropped));
  std::vector<const TypicalDurations*> durations;
  double jitter = 0;
  for (const Step* step : typical) {
    durations.push_back(&step->durations);
    jitter += step->part_jitter / static_cast<double>(typical.size());
  }
  CostModel costs = CostsFrom(MeanOf(durations));
  costs.part_jitter = std::llround(jitter * 1e3) * 1000;  // as it is written: in tenths of a %
  PriceGroups(plan_, &costs);
  return costs;
}

}  // namespace stringline
