// A lane of a block is the pattern of one layer of every action, repeated; a list schedule is drawn
// up part by part. Then every step looks up its dependency on the other lane. A pattern that runs
// for one layer of every action runs for all: no part needs a later layer.
#include "schedlang/plan/group_order.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

// A part of an action of the group.
struct MemberPart {
  Part part;
  uint8_t of;
  uint8_t chunk = 0;
};

constexpr Part kDefaultCompute[] = {kFAttn, kBExperts, kWExperts, kFExperts, kBAttn, kWAttn};
constexpr Part kDefaultNetwork[] = {kBCombine, kFDispatch, kBDispatch, kFCombine};

bool IsForward(int part) { return RowOfPart(part).of == ActionKind::kForward; }

// Calls visit(part, layer) for every part of an action, each after its predecessor: the weight
// gradients of a B after all of its input gradient.
template <class Visit>
void VisitInARow(const GroupMember& member, const Visit& visit) {
  const auto visit_layer = [&](std::initializer_list<Part> parts, int layer) {
    for (const Part part : parts) {
      if (RunsPart(member.kind, part)) visit(part, layer);
    }
  };
  for (int layer = 0; layer < member.layers; ++layer) {
    visit_layer({kFAttn, kFDispatch, kFExperts, kFCombine}, layer);
  }
  visit_layer({kFPost, kBPost}, 0);
  for (int layer = member.layers - 1; layer >= 0; --layer) {
    visit_layer({kBCombine, kBExperts, kBDispatch, kBAttn}, layer);
  }
  visit_layer({kWPost}, 0);
  for (int layer = member.layers - 1; layer >= 0; --layer) {
    visit_layer({kWExperts, kWAttn}, layer);
  }
}

// The members that stand for a block's places: its k-th F is the group's k-th F, and so on.
std::vector<uint8_t> MembersOf(const Overlap& block, absl::Span<const GroupMember> group) {
  std::vector<uint8_t> members;
  std::array<size_t, kComputeKinds> next = {};
  for (const ActionKind kind : block.kinds) {
    size_t& at = next[static_cast<size_t>(kind)];
    while (at < group.size() && group[at].kind != kind) ++at;
    SL_CHECK(at < group.size()) << Print(block);
    members.push_back(static_cast<uint8_t>(at++));
  }
  return members;
}

// The lanes under construction, and the place of every part.
class LaneWriter {
 public:
  LaneWriter(absl::Span<const GroupMember> group, int chunks)
      : group_(group), chunks_(static_cast<size_t>(chunks)) {
    for (const GroupMember& member : group) stride_ = std::max<size_t>(stride_, member.layers);
    places_.assign(group.size() * chunks_ * kParts * stride_, -1);
  }

  void Add(const MemberPart& part, int layer) {
    std::vector<LaneStep>& lane =
        LaneOf(part.part) == Lane::kNetwork ? order_.network : order_.compute;
    PlaceOf(part, layer) = static_cast<int32_t>(lane.size());
    lane.push_back({static_cast<uint8_t>(part.part), layer, part.of, part.chunk, -1});
  }

  GroupOrder Finish() && {
    for (std::vector<LaneStep>* const lane : {&order_.compute, &order_.network}) {
      for (LaneStep& step : *lane) {
        const auto before = PartBefore({step.part, step.layer}, group_[step.of].layers);
        // A W alone depends on an I that is another action.
        if (!before || !RunsPart(group_[step.of].kind, before->part)) continue;
        const MemberPart awaited = {static_cast<Part>(before->part), step.of, step.chunk};
        const int32_t place = PlaceOf(awaited, before->layer);
        SL_CHECK(place >= 0) << Print(*before);
        if (LaneOf(before->part) != LaneOf(step.part)) step.after = place;
      }
    }
    return std::move(order_);
  }

 private:
  int32_t& PlaceOf(const MemberPart& part, int layer) {
    return places_[((part.of * chunks_ + part.chunk) * kParts + static_cast<size_t>(part.part)) *
                       stride_ +
                   static_cast<size_t>(layer)];
  }

  const absl::Span<const GroupMember> group_;
  const size_t chunks_;
  size_t stride_ = 1;
  // By action, chunk, part and layer: its index on its lane; -1: none yet.
  std::vector<int32_t> places_;
  GroupOrder order_;
};

// Layer by layer in the order of two patterns. The B.posts come first; the W.posts, and then the
// F.posts, last.
GroupOrder InPatterns(absl::Span<const GroupMember> group, int chunks,
                      const std::array<std::vector<MemberPart>, 2>& patterns) {
  LaneWriter writer(group, chunks);
  const auto add = [&](MemberPart part, int layer) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      part.chunk = static_cast<uint8_t>(chunk);
      writer.Add(part, layer);
    }
  };
  const auto add_once = [&](Part part) {
    for (size_t m = 0; m < group.size(); ++m) {
      if (RunsPart(group[m].kind, part)) add({part, static_cast<uint8_t>(m)}, 0);
    }
  };
  add_once(kBPost);
  int layers = 0;
  for (const GroupMember& member : group) layers = std::max(layers, member.layers);
  for (const std::vector<MemberPart>& pattern : patterns) {
    for (int i = 0; i < layers; ++i) {
      for (const MemberPart& part : pattern) {
        const int of = group[part.of].layers;
        if (i < of) add(part, IsForward(part.part) ? i : of - 1 - i);
      }
    }
  }
  add_once(kWPost);
  add_once(kFPost);
  return std::move(writer).Finish();
}

GroupOrder InBlock(absl::Span<const GroupMember> group, const Overlap& block, int chunks) {
  const std::vector<uint8_t> members = MembersOf(block, group);
  std::array<std::vector<MemberPart>, 2> patterns;
  for (const Lane lane : {Lane::kCompute, Lane::kNetwork}) {
    for (const Overlap::Part& named : lane == Lane::kNetwork ? block.network : block.compute) {
      const std::optional<Part> part = FindPart(named.of, named.name);
      SL_CHECK(part && named.place >= 0) << PrintedKind(named.of) << "." << named.name;
      patterns[static_cast<size_t>(lane)].push_back({*part, members[named.place]});
    }
  }
  return InPatterns(group, chunks, patterns);
}

// The F and the B or I of a group of exactly these two; -1 in other groups.
struct ForwardAndBackward {
  int forward = -1, backward = -1;
};
ForwardAndBackward ForwardAndBackwardOf(absl::Span<const GroupMember> group) {
  if (group.size() != 2) return {};
  const int forward = group[0].kind == ActionKind::kForward ? 0 : 1;
  const ActionKind back = group[1 - forward].kind;
  const bool fits = group[forward].kind == ActionKind::kForward &&
                    (back == ActionKind::kBackward || back == ActionKind::kInputGradient);
  return fits ? ForwardAndBackward{forward, 1 - forward} : ForwardAndBackward{};
}

GroupOrder BesideEachOther(absl::Span<const GroupMember> group, ForwardAndBackward of) {
  std::array<std::vector<MemberPart>, 2> patterns;
  const auto add = [&](Part part, std::vector<MemberPart>* pattern) {
    const int member = IsForward(part) ? of.forward : of.backward;
    if (RunsPart(group[member].kind, part))
      pattern->push_back({part, static_cast<uint8_t>(member)});
  };
  for (const Part part : kDefaultCompute) add(part, &patterns[0]);
  for (const Part part : kDefaultNetwork) add(part, &patterns[1]);
  return InPatterns(group, /*chunks=*/1, patterns);
}

// The length of a part for the list scheduler, which knows no costs. A transfer counts as two
// computations, so that weight gradients fill the gaps where transfers take longer.
int64_t UnitsOf(int part) { return LaneOf(part) == Lane::kNetwork ? 2 : 1; }

// A list schedule at these lengths.
class ListScheduler {
 public:
  ListScheduler(absl::Span<const GroupMember> group, int chunks) : group_(group), chunks_(chunks) {
    for (size_t m = 0; m < group.size(); ++m) {
      for (int chunk = 0; chunk < chunks; ++chunk) {
        AddItems(static_cast<uint8_t>(m), static_cast<uint8_t>(chunk));
      }
    }
    FindPaths();
  }

  GroupOrder Run() {
    LaneWriter writer(group_, chunks_);
    int64_t free_at[2] = {0, 0};
    for (size_t left = items_.size(); left > 0; --left) {
      const size_t next = NextItem(free_at);
      Item& item = items_[next];
      int64_t& lane = free_at[static_cast<size_t>(LaneOf(item.part.part))];
      lane = std::max(lane, item.ready_at) + UnitsOf(item.part.part);
      item.taken = true;
      writer.Add(item.part, item.layer);
      for (size_t k = next + 1; k < items_.size(); ++k) items_[k].SeeEnd(next, lane);
    }
    return std::move(writer).Finish();
  }

 private:
  struct Item {
    MemberPart part;
    int layer = 0;
    int before = -1;       // the index of its predecessor
    int added_after = -1;  // of the same part of an earlier action, if it adds gradients
    int64_t path = 0;
    int waits = 0;  // for the two above
    int64_t ready_at = 0;
    bool taken = false;

    void SeeEnd(size_t item, int64_t end) {
      for (const int awaited : {before, added_after}) {
        if (awaited != static_cast<int>(item)) continue;
        --waits;
        ready_at = std::max(ready_at, end);
      }
    }
  };

  // The parts of a chunk of an action, each behind its predecessor.
  void AddItems(uint8_t of, uint8_t chunk) {
    const GroupMember& member = group_[of];
    std::vector<std::vector<int>> index(kParts);  // of a part by layer, among the items
    VisitInARow(member, [&](Part part, int layer) {
      index[part].resize(std::max<size_t>(index[part].size(), layer + 1), -1);
      index[part][layer] = static_cast<int>(items_.size());
      Item& item = items_.emplace_back();
      item.part = {part, of, chunk};
      item.layer = layer;
      const auto before = PartBefore({static_cast<uint8_t>(part), layer}, member.layers);
      if (before && RunsPart(member.kind, before->part)) {
        item.before = index[before->part][before->layer];
      }
      if (AddsGradients(part)) item.added_after = SameOfEarlier(item);
      item.waits = (item.before >= 0 ? 1 : 0) + (item.added_after >= 0 ? 1 : 0);
    });
  }

  // The index of the same part of the latest earlier chunk or action of the stage; -1: none.
  int SameOfEarlier(const Item& item) const {
    for (size_t k = items_.size(); k-- > 0;) {
      const Item& other = items_[k];
      const bool same_chunk = other.part.of == item.part.of && other.part.chunk == item.part.chunk;
      if (!same_chunk && other.part.part == item.part.part && other.layer == item.layer &&
          group_[other.part.of].stage == group_[item.part.of].stage) {
        return static_cast<int>(k);
      }
    }
    return -1;
  }

  // The longest paths from each part to an end, itself included.
  void FindPaths() {
    for (size_t k = items_.size(); k-- > 0;) {
      Item& item = items_[k];
      item.path += UnitsOf(item.part.part);
      if (item.before < 0) continue;
      int64_t& behind = items_[item.before].path;
      behind = std::max(behind, item.path);
    }
  }

  // The part that starts next: of those that could start first, the one with the longest path.
  size_t NextItem(const int64_t (&free_at)[2]) const {
    size_t best = items_.size();
    int64_t starts_at = std::numeric_limits<int64_t>::max();
    for (size_t k = 0; k < items_.size(); ++k) {
      const Item& item = items_[k];
      if (item.taken || item.waits > 0) continue;
      const int64_t at =
          std::max(item.ready_at, free_at[static_cast<size_t>(LaneOf(item.part.part))]);
      if (at > starts_at || (at == starts_at && item.path <= items_[best].path)) continue;
      best = k;
      starts_at = at;
    }
    return best;
  }

  const absl::Span<const GroupMember> group_;
  const int chunks_;
  std::vector<Item> items_;  // of each action and chunk in turn, predecessors first
};

GroupOrder Alone(const GroupMember& member) {
  const GroupMember group[] = {member};
  LaneWriter writer(group, /*chunks=*/1);
  VisitInARow(member, [&](Part part, int layer) { writer.Add({part, 0}, layer); });
  return std::move(writer).Finish();
}

}  // namespace

GroupOrder OrderGroup(absl::Span<const GroupMember> group, const Overlap* order, int chunks) {
  SL_CHECK(!group.empty() && group.size() < 256) << group.size();
  SL_CHECK(chunks >= 1 && chunks <= kMostChunks) << chunks;
  for (const GroupMember& member : group) {
    SL_CHECK(IsCompute(member.kind)) << PrintedKind(member.kind);
  }
  if (group.size() == 1 && chunks == 1) return Alone(group[0]);
  if (order != nullptr && !order->by_default) return InBlock(group, *order, chunks);
  const ForwardAndBackward pair = ForwardAndBackwardOf(group);
  if (pair.forward >= 0 && chunks == 1) return BesideEachOther(group, pair);
  return ListScheduler(group, chunks).Run();
}

bool AddsGradients(int part) { return LaneOf(part) == Lane::kCompute && !IsForward(part); }

bool SameGroup(absl::Span<const ActionKind> one, absl::Span<const ActionKind> other) {
  if (one.size() != other.size()) return false;
  std::array<int, kActionKinds> more = {};  // of a kind in `one` than in `other`
  size_t at = 0;                            // of the next one that adds gradients in `other`
  const auto adds = [](ActionKind kind) {
    return kind != ActionKind::kForward && kind != ActionKind::kRecompute;
  };
  for (size_t k = 0; k < one.size(); ++k) {
    ++more[static_cast<size_t>(one[k])];
    --more[static_cast<size_t>(other[k])];
    if (!adds(one[k])) continue;
    while (at < other.size() && !adds(other[at])) ++at;
    if (at == other.size() || other[at] != one[k]) return false;
    ++at;
  }
  return std::count(more.begin(), more.end(), 0) == kActionKinds;
}

const Overlap* FindOverlap(const Plan& plan, absl::Span<const Action> group) {
  if (plan.overlaps.empty()) return nullptr;
  absl::InlinedVector<ActionKind, 4> kinds;
  for (const Action& action : group) kinds.push_back(action.kind);
  for (const Overlap& overlap : plan.overlaps) {
    if (SameGroup(overlap.kinds, kinds)) return &overlap;
  }
  return nullptr;
}

std::vector<const Overlap*> UnmatchedOverlaps(const Plan& plan) {
  std::vector<const Overlap*> left;
  for (const Overlap& overlap : plan.overlaps) left.push_back(&overlap);
  for (size_t i = 0; i < plan.actions.size() && !left.empty(); ++i) {
    if (plan.actions[i].joined || !IsCompute(plan.actions[i].kind)) continue;
    const auto group = GroupAt(absl::MakeConstSpan(plan.actions), i);
    left.erase(std::remove(left.begin(), left.end(), FindOverlap(plan, group)), left.end());
  }
  return left;
}

OverlappedPair PairOf(absl::Span<const Action> group) {
  if (group.size() != 2) return {};
  const GroupMember members[] = {{group[0].kind}, {group[1].kind}};
  const ForwardAndBackward pair = ForwardAndBackwardOf(members);
  if (pair.forward < 0) return {};
  return {&group[pair.forward], &group[pair.backward]};
}

bool Overlaps(const Plan& plan, absl::Span<const Action> group) {
  return PairOf(group).forward != nullptr || FindOverlap(plan, group) != nullptr;
}

std::string Print(const GroupOrder& order) {
  // By part: the first action that has it, and whether another one has it, too.
  std::array<int, kParts> first;
  first.fill(-1);
  std::array<bool, kParts> several = {};
  for (const std::vector<LaneStep>* const lane : {&order.compute, &order.network}) {
    for (const LaneStep& step : *lane) {
      if (first[step.part] < 0) first[step.part] = step.of;
      several[step.part] = several[step.part] || first[step.part] != step.of;
    }
  }
  const auto print = [&](const LaneStep& step) {
    return absl::StrCat(several[step.part] ? absl::StrCat(step.of + 1, ".") : "",
                        Print(LayerPart{step.part, step.layer, step.chunk}));
  };
  std::string text = "compute";
  for (const LaneStep& step : order.compute) absl::StrAppend(&text, " ", print(step));
  absl::StrAppend(&text, " | network");
  for (const LaneStep& step : order.network) absl::StrAppend(&text, " ", print(step));
  return text;
}

}  // namespace stringline
