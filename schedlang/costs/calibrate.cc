// Durations are collected in a table and sorted; their medians become costs. Kinds that were never
// seen alone are derived from kinds that were. A message occupies its channel for the shortest time
// after which another message followed.
#include "schedlang/costs/calibrate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedlang/costs/duration_table.h"
#include "schedlang/costs/median.h"

namespace stringline {
namespace {

// The value below which `share` of them lie. They are sorted.
int64_t Quantile(const Durations& sorted, double share) {
  const double last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<size_t>(std::llround(share * last))];
}

Spread SpreadOf(const Durations& sorted) {
  if (sorted.empty()) return {};
  return {static_cast<int>(sorted.size()), Quantile(sorted, 0.1), Quantile(sorted, 0.9)};
}

void Sort(std::vector<Durations>* lists) {
  for (Durations& samples : *lists) std::sort(samples.begin(), samples.end());
}

// All durations of a timeline, each list sorted.
DurationTable SeenIn(const Timeline& timeline) {
  int stages = 0;
  for (const Event& event : timeline.events) stages = std::max(stages, event.stage.value + 1);
  DurationTable seen(stages);
  seen.Add(timeline);
  for (std::vector<Durations>& of : seen.alone) Sort(&of);
  for (std::vector<Durations>& of : seen.beside) Sort(&of);
  for (std::vector<Durations>& of : seen.parts) Sort(&of);
  for (auto* const of :
       {&seen.forward_backward, &seen.shared_backward, &seen.unshard, &seen.reduce}) {
    Sort(of);
  }
  std::sort(seen.message.begin(), seen.message.end());
  return seen;
}

// Messages of one stage in one direction all go through one channel.
using Way = std::pair<int, ActionKind>;

// The shortest time between the starts of two messages on one channel, at most `whole_ns`.
int64_t TransferOf(const Timeline& timeline, int64_t whole_ns) {
  std::map<Way, Durations> starts_ns;
  for (const Event& event : timeline.events) {
    if (IsSend(event.kind)) starts_ns[{event.stage.value, event.kind}].push_back(event.start_ns);
  }
  int64_t transfer_ns = whole_ns;
  for (auto& [way, starts] : starts_ns) {
    std::sort(starts.begin(), starts.end());
    for (size_t i = 1; i < starts.size(); ++i) {
      transfer_ns = std::min(transfer_ns, starts[i] - starts[i - 1]);
    }
  }
  return transfer_ns;
}

std::vector<Spread> Spreads(const std::vector<Durations>& lists) {
  std::vector<Spread> spreads;
  for (const Durations& samples : lists) spreads.push_back(SpreadOf(samples));
  return spreads;
}

// The quartiles of a normal distribution lie 0.6745 standard deviations from its middle.
double JitterOf(const DurationTable& seen) {
  std::vector<double> deviations;
  const auto add = [&](const std::vector<Durations>& lists) {
    for (const Durations& samples : lists) {
      const auto median = static_cast<double>(MedianOfSorted(samples));
      if (samples.size() < 3 || median <= 0) continue;
      for (const int64_t ns : samples) {
        deviations.push_back(std::fabs(static_cast<double>(ns) / median - 1));
      }
    }
  };
  for (const std::vector<Durations>& lists : seen.alone) add(lists);
  add(seen.forward_backward);
  if (deviations.empty()) return 0;
  std::nth_element(deviations.begin(), deviations.begin() + deviations.size() / 2,
                   deviations.end());
  return deviations[deviations.size() / 2] / 0.6745;
}

// "F: [4ms, …]" and below it the spreads.
void AppendKey(const char* key, const std::vector<int64_t>& costs,
               const std::vector<Spread>& spreads, std::string* text) {
  const auto is_zero = [](int64_t ns) { return ns == 0; };
  if (std::all_of(costs.begin(), costs.end(), is_zero)) return;
  std::vector<std::string> items, notes;
  bool seen = false;
  for (size_t s = 0; s < costs.size(); ++s) {
    const Spread& spread = spreads[s];
    items.push_back(absl::StrCat(costs[s], "ns"));
    notes.push_back(spread.count == 0
                        ? "not seen"
                        : absl::StrCat(spread.low_ns, "..", spread.high_ns, " of ", spread.count));
    seen = seen || spread.count > 0;
  }
  absl::StrAppend(text, key, ": [", absl::StrJoin(items, ", "), "]\n# spread of ", key,
                  ", ns: ", seen ? absl::StrJoin(notes, ", ") : "not seen, made up from the others",
                  "\n");
}

}  // namespace

CostModel CostsFrom(const TypicalDurations& typical) {
  const auto any = [](const std::vector<int64_t>& costs_ns) {
    return std::any_of(costs_ns.begin(), costs_ns.end(), [](int64_t ns) { return ns > 0; });
  };
  CostModel model;
  const size_t stages = typical.forward_backward.size();
  model.parts = typical.parts;
  bool grouped = false;
  for (size_t s = 0; s < stages; ++s) {
    int64_t f = typical.alone[0][s];
    int64_t b = typical.alone[1][s];
    int64_t i = typical.alone[2][s];
    int64_t w = typical.alone[3][s];
    if (!typical.parts.empty() && typical.parts[s].layers > 0) {
      const PartCosts& parts = typical.parts[s];
      if (f == 0) f = parts.Forward();
      if (i == 0) i = parts.InputGradient();
      if (w == 0) w = parts.WeightGradient();
    }
    if (f == 0) f = typical.forward_backward[s] / 2;
    if (b == 0) b = i > 0 && w > 0 ? i + w : typical.shared_backward[s] / 2;
    if (i == 0) i = w > 0 ? std::max<int64_t>(b - w, 0) : b / 2;
    if (w == 0) w = std::max<int64_t>(b - i, 0);
    model.forward.push_back(f);
    model.backward.push_back(b);
    model.input_gradient.push_back(i);
    model.weight_gradient.push_back(w);
    grouped = grouped || typical.forward_backward[s] > 0;
    if (model.parts.empty() || model.parts[s].layers > 0) continue;
    // A stage without layers has all its time in the post parts; B.post and W.post add up to B.
    model.parts[s].ns[kFPost] = f;
    model.parts[s].ns[kBPost] = std::min(i, b);
    model.parts[s].ns[kWPost] = b - std::min(i, b);
  }
  if (!model.parts.empty()) model.by_parts.fill(true);
  model.by_parts[static_cast<size_t>(ActionKind::kUpdate)] = false;  // it has no parts
  for (const auto& [kind, costs] : {std::pair(ActionKind::kRecompute, &model.recompute),
                                    std::pair(ActionKind::kOffload, &model.offload),
                                    std::pair(ActionKind::kFetch, &model.fetch)}) {
    const std::vector<int64_t>& seen = typical.alone[static_cast<size_t>(kind)];
    if (any(seen)) *costs = seen;
  }
  // Updates may take no time.
  model.update = typical.alone[static_cast<size_t>(ActionKind::kUpdate)];
  for (size_t s = 0; grouped && model.parts.empty() && s < stages; ++s) {
    model.forward_backward.push_back(typical.forward_backward[s] > 0
                                         ? typical.forward_backward[s]
                                         : model.forward[s] + model.backward[s]);
  }
  if (any(typical.unshard)) model.unshard = typical.unshard;
  if (any(typical.reduce)) model.reduce = typical.reduce;
  model.hop = typical.message;
  return model;
}

Calibration Calibrate(const Timeline& timeline) {
  const DurationTable seen = SeenIn(timeline);
  Calibration calibration;
  for (size_t kind = 0; kind < seen.alone.size(); ++kind) {
    calibration.spread[kind] = Spreads(seen.alone[kind]);
  }
  for (int part = 0; part < kParts; ++part) {
    calibration.part_spread[part] = Spreads(seen.parts[part]);
  }
  calibration.forward_backward_spread = Spreads(seen.forward_backward);
  calibration.unshard_spread = Spreads(seen.unshard);
  calibration.reduce_spread = Spreads(seen.reduce);
  calibration.message_spread = SpreadOf(seen.message);
  const TypicalDurations typical = seen.Typical(MedianOfSorted);
  calibration.costs = CostsFrom(typical);
  calibration.transfer_ns = TransferOf(timeline, typical.message);
  calibration.jitter = JitterOf(seen);
  calibration.costs.part_jitter = std::llround(seen.PartJitter() * 1e5) * 10;  // as it is printed
  return calibration;
}

absl::Status CheckCalibrates(const Timeline& timeline) {
  if (timeline.slices == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("its microbatches have ", timeline.slices,
                   " slices, which take different times, and costs are of whole ones; record an "
                   "order without `slices`"));
}

std::string Print(const Calibration& calibration, const std::string& title) {
  const CostModel& costs = calibration.costs;
  std::string text = absl::StrCat("# Calibrated from ", title,
                                  ": medians, one value per stage; spreads hold eight of ten.\n");
  AppendKey("F", costs.forward, calibration.spread[0], &text);
  AppendKey("B", costs.backward, calibration.spread[1], &text);
  AppendKey("I", costs.input_gradient, calibration.spread[2], &text);
  AppendKey("W", costs.weight_gradient, calibration.spread[3], &text);
  for (const auto& [kind, of] : {std::pair(ActionKind::kRecompute, &costs.recompute),
                                 std::pair(ActionKind::kUpdate, &costs.update),
                                 std::pair(ActionKind::kOffload, &costs.offload),
                                 std::pair(ActionKind::kFetch, &costs.fetch)}) {
    AppendKey(PrintedKind(kind), *of, calibration.spread[static_cast<size_t>(kind)], &text);
  }
  AppendKey("FB", costs.forward_backward, calibration.forward_backward_spread, &text);
  for (int part = 0; part < kParts; ++part) {
    std::vector<int64_t> parts_ns;
    for (const PartCosts& of : costs.parts) parts_ns.push_back(of.ns[part]);
    AppendKey(PartName(part), parts_ns, calibration.part_spread[part], &text);
  }
  if (!costs.parts.empty()) {
    std::vector<int64_t> layers;
    for (const PartCosts& of : costs.parts) layers.push_back(of.layers);
    absl::StrAppend(&text, "layers: [", absl::StrJoin(layers, ", "), "]\n");
    if (costs.part_jitter > 0) {
      absl::StrAppendFormat(&text, "part_jitter: %.3f%%\n",
                            static_cast<double>(costs.part_jitter) * 1e-4);
    }
  }
  AppendKey("unshard", costs.unshard, calibration.unshard_spread, &text);
  AppendKey("reduce", costs.reduce, calibration.reduce_spread, &text);
  if (calibration.jitter > 0) {
    absl::StrAppendFormat(&text, "jitter: %.3f%%\n", 100 * calibration.jitter);
  }
  if (calibration.message_spread.count == 0) return text;
  const Spread& spread = calibration.message_spread;
  absl::StrAppend(&text, "p2p: ", costs.hop - calibration.transfer_ns,
                  "ns\n# spread of messages, ns: ", spread.low_ns, "..", spread.high_ns, " of ",
                  spread.count, "\n");
  if (calibration.transfer_ns > 0) {
    absl::StrAppend(&text,
                    "# how long a message occupies its channel, as if a byte took a nanosecond\n",
                    "bandwidth: 1GB/s\nmessage: ", calibration.transfer_ns, "\n");
  }
  return text;
}

}  // namespace stringline
