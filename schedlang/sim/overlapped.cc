#include "schedlang/sim/overlapped.h"

#include <algorithm>
#include <optional>

namespace stringline {
namespace {

enum Part {
  kFAttn,
  kFDispatch,
  kFExperts,
  kFCombine,
  kBAttn,
  kBDispatch,
  kBExperts,
  kBCombine,
  kWAttn,
  kWExperts
};

struct PartRow {
  const char* name;
  bool network;
  int needs;        // the part of its layer before it; -1: the layer before it, or nothing
  int needs_outer;  // for a layer's first part: the part of the layer before that ends it
};

constexpr PartRow kPartRows[PartCosts::kParts] = {
    {"F.attn", false, -1, kFCombine},     {"F.dispatch", true, kFAttn, -1},
    {"F.experts", false, kFDispatch, -1}, {"F.combine", true, kFExperts, -1},
    {"B.attn", false, kBDispatch, -1},    {"B.dispatch", true, kBExperts, -1},
    {"B.experts", false, kBCombine, -1},  {"B.combine", true, -1, kBAttn},
    {"W.attn", false, kBAttn, -1},        {"W.experts", false, kBExperts, -1},
};

constexpr int kDefaultCompute[] = {kFAttn, kBExperts, kWExperts, kFExperts, kBAttn, kWAttn};
constexpr int kDefaultNetwork[] = {kBCombine, kFDispatch, kBDispatch, kFCombine};

// The part that an overlap block calls `of`.`name`; -1 for one that has no cost here.
int FindPart(const Overlap::Part& named) {
  const char letter = named.of == ActionKind::kForward          ? 'F'
                      : named.of == ActionKind::kWeightGradient ? 'W'
                                                                : 'B';
  for (int part = 0; part < PartCosts::kParts; ++part) {
    const std::string name = kPartRows[part].name;
    if (name[0] == letter && name.substr(2) == named.name) return part;
  }
  return -1;
}

struct Step {
  int part;
  int64_t layer;
};

// One lane's parts of one layer; those that the block does not name come at the end.
std::vector<int> LaneOrder(const Overlap* order, bool network) {
  std::vector<int> lane;
  if (order == nullptr) {
    if (network) return {std::begin(kDefaultNetwork), std::end(kDefaultNetwork)};
    return {std::begin(kDefaultCompute), std::end(kDefaultCompute)};
  }
  for (const Overlap::Part& named : network ? order->network : order->compute) {
    const int part = FindPart(named);
    if (part >= 0) lane.push_back(part);
  }
  return lane;
}

class OverlappedRun {
 public:
  OverlappedRun(const PartCosts& f, const PartCosts& b, bool whole, int64_t slowdown)
      : f_(f), b_(b), whole_(whole), slowdown_(slowdown), layers_(std::max(f.layers, b.layers)) {
    ended_.assign(static_cast<size_t>(layers_) * PartCosts::kParts, false);
  }

  std::vector<PartTime> Run(const std::vector<int>& compute, const std::vector<int>& network) {
    for (int64_t layer = 0; layer < layers_; ++layer) {
      for (const int part : compute) Add(part, layer, &lanes_[0]);
      for (const int part : network) Add(part, layer, &lanes_[1]);
    }
    while (Advance()) {
    }
    return std::move(times_);
  }

 private:
  struct LaneState {
    std::vector<Step> steps;
    size_t next = 0;
    std::optional<PartTime> running;
    double left_ns = 0;
  };

  bool IsForward(int part) const { return part <= kFCombine; }
  const PartCosts& CostsOf(int part) const { return IsForward(part) ? f_ : b_; }
  bool Exists(int part, int64_t layer) const {
    const bool weight = part == kWAttn || part == kWExperts;
    return layer < CostsOf(part).layers && (whole_ || !weight);
  }

  void Add(int part, int64_t layer, LaneState* lane) {
    if (Exists(part, layer)) lane->steps.push_back({part, layer});
  }

  bool Ended(int part, int64_t layer) const {
    return layer < 0 || !Exists(part, layer) ||
           ended_[static_cast<size_t>(layer) * PartCosts::kParts + static_cast<size_t>(part)];
  }

  bool Ready(const Step& step) const {
    const PartRow& row = kPartRows[step.part];
    if (row.needs >= 0) return Ended(row.needs, step.layer);
    return Ended(row.needs_outer, step.layer - 1);
  }

  void Start(LaneState* lane) {
    if (lane->running || lane->next == lane->steps.size()) return;
    const Step& step = lane->steps[lane->next];
    if (!Ready(step)) return;
    const auto now = static_cast<int64_t>(now_ns_ + 0.5);
    lane->running = PartTime{step.part, now, now};
    lane->left_ns = static_cast<double>(CostsOf(step.part).ns[step.part]);
  }

  // Starts what can start, then goes to the next end. False when nothing runs any more.
  bool Advance() {
    for (LaneState& lane : lanes_) Start(&lane);
    // Computation goes slower while the network works.
    const double rate = lanes_[1].running ? 1 + static_cast<double>(slowdown_) * 1e-6 : 1;
    double step_ns = -1;
    for (int k = 0; k < 2; ++k) {
      if (!lanes_[k].running) continue;
      const double needs = lanes_[k].left_ns * (k == 0 ? rate : 1);
      if (step_ns < 0 || needs < step_ns) step_ns = needs;
    }
    if (step_ns < 0) return false;
    now_ns_ += step_ns;
    for (int k = 0; k < 2; ++k) {
      LaneState& lane = lanes_[k];
      if (!lane.running) continue;
      lane.left_ns -= step_ns / (k == 0 ? rate : 1);
      if (lane.left_ns > 1e-6) continue;
      lane.running->end_ns = static_cast<int64_t>(now_ns_ + 0.5);
      times_.push_back(*lane.running);
      const Step& step = lane.steps[lane.next++];
      ended_[static_cast<size_t>(step.layer) * PartCosts::kParts + static_cast<size_t>(step.part)] =
          true;
      lane.running.reset();
    }
    return true;
  }

  const PartCosts& f_;
  const PartCosts& b_;
  const bool whole_;
  const int64_t slowdown_;
  const int64_t layers_;
  LaneState lanes_[2];  // compute, network
  std::vector<bool> ended_;
  std::vector<PartTime> times_;
  double now_ns_ = 0;
};

}  // namespace

const char* PartName(int part) { return kPartRows[part].name; }
bool OnNetwork(int part) { return kPartRows[part].network; }

int64_t PartCosts::Forward() const {
  return layers * (ns[kFAttn] + ns[kFDispatch] + ns[kFExperts] + ns[kFCombine]);
}
int64_t PartCosts::InputGradient() const {
  return layers * (ns[kBAttn] + ns[kBDispatch] + ns[kBExperts] + ns[kBCombine]);
}
int64_t PartCosts::WeightGradient() const { return layers * (ns[kWAttn] + ns[kWExperts]); }

std::vector<PartTime> RunOverlapped(const PartCosts& f, const PartCosts& b, bool whole,
                                    const Overlap* order, int64_t slowdown) {
  return OverlappedRun(f, b, whole, slowdown)
      .Run(LaneOrder(order, /*network=*/false), LaneOrder(order, /*network=*/true));
}

}  // namespace stringline
