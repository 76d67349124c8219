// Sizes agree as numbers of elements: what NCCL moves has no shape. Collectives in which each rank
// has a size of its own are only compared by name and dtype.
#include "schedlang/diagnose/mismatches.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"

namespace stringline {
namespace {

bool IsUneven(const std::string& name) {
  return absl::StartsWith(name, "all_to_all") || absl::EndsWith(name, "_v");
}

std::optional<Disagreement> Between(const CallShape& a, const CallShape& b) {
  if (a.name != b.name) return Disagreement::kCall;
  const bool inputs = a.name != "scatter", outputs = a.name != "gather";
  if (!IsUneven(a.name)) {
    if (inputs && a.input_elements != b.input_elements) return Disagreement::kSize;
    if (outputs && a.output_elements != b.output_elements) return Disagreement::kSize;
  }
  if (inputs && a.input_dtypes != b.input_dtypes) return Disagreement::kDtype;
  if (outputs && a.output_dtypes != b.output_dtypes) return Disagreement::kDtype;
  return std::nullopt;
}

std::optional<Disagreement> BetweenEnds(const CallShape& send, const CallShape& receive) {
  if (send.input_elements != receive.output_elements) return Disagreement::kSize;
  if (send.input_dtypes != receive.output_dtypes) return Disagreement::kDtype;
  return std::nullopt;
}

class MismatchFinder {
 public:
  MismatchFinder(const Records& records, const std::vector<Standing>& standings,
                 const Partners& partners)
      : records_(records), standings_(standings), partners_(partners) {}

  std::vector<Mismatch> Find() {
    int32_t found_in = -1;
    for (size_t i = 0; i < partners_.meetings.size(); ++i) {
      if (partners_.meetings[i].group == found_in) continue;
      if (Compare(static_cast<int>(i))) found_in = partners_.meetings[i].group;
    }
    for (size_t i = 0; i < partners_.pairs.size(); ++i) ComparePair(static_cast<int>(i));
    return std::move(found_);
  }

 private:
  std::optional<Disagreement> Between(const CallAt& a, const CallAt& b) const {
    const bool alone =
        standings_[a.rank].next_call[a.call] < 0 && standings_[b.rank].next_call[b.call] < 0;
    if (alone && records_.At(a).shape == records_.At(b).shape) return std::nullopt;
    const std::vector<int32_t> first = PartsOf(a), second = PartsOf(b);
    if (first.size() != second.size()) return Disagreement::kCall;
    for (size_t i = 0; i < first.size(); ++i) {
      const auto found = stringline::Between(records_.shapes[first[i]], records_.shapes[second[i]]);
      if (found) return found;
    }
    return std::nullopt;
  }

  // The shapes of all calls of its launch.
  std::vector<int32_t> PartsOf(const CallAt& at) const {
    std::vector<int32_t> parts;
    const RankRecord& rank = records_.ranks[at.rank];
    const Standing& standing = standings_[at.rank];
    ForCalls(records_, rank, standing, standing.launches[standing.launch_of[at.call]],
             [&](int32_t call) { parts.push_back(rank.calls[call].shape); });
    return parts;
  }

  bool Compare(int index) {
    const Meeting& meeting = partners_.meetings[index];
    Mismatch mismatch{.meeting = index};
    std::optional<Disagreement> about;
    for (const CallAt& at : meeting.calls) {
      bool fits = false;
      for (std::vector<CallAt>& side : mismatch.sides) {
        const std::optional<Disagreement> found = Between(side.front(), at);
        if (found && !about) about = found;
        if (found) continue;
        side.push_back(at);
        fits = true;
        break;
      }
      // More sides than people can compare are left out.
      if (!fits && mismatch.sides.size() < kMostSides) mismatch.sides.push_back({at});
    }
    if (!about) return false;
    mismatch.about = *about;
    std::stable_sort(mismatch.sides.begin(), mismatch.sides.end(),
                     [](const auto& a, const auto& b) { return a.size() > b.size(); });
    mismatch.hint = HintFor(index, mismatch.sides[0].front(), mismatch.sides[1].front());
    found_.push_back(std::move(mismatch));
    return true;
  }

  // The call of the rank in the following collective of the group, if both are recorded.
  std::optional<CallAt> Next(int index, int32_t rank) const {
    const Meeting& meeting = partners_.meetings[index];
    if (index + 1 >= static_cast<int>(partners_.meetings.size())) return std::nullopt;
    const Meeting& next = partners_.meetings[index + 1];
    if (next.group != meeting.group || next.sequence != meeting.sequence + 1) return std::nullopt;
    for (const CallAt& at : next.calls) {
      if (at.rank == rank) return at;
    }
    return std::nullopt;
  }

  Hint HintFor(int index, const CallAt& most, const CallAt& odd) const {
    const std::optional<CallAt> after_most = Next(index, most.rank);
    const std::optional<CallAt> after_odd = Next(index, odd.rank);
    const bool odd_is_ahead = after_most && !Between(*after_most, odd);
    const bool odd_comes_later = after_odd && !Between(*after_odd, most);
    if (odd_is_ahead && odd_comes_later) return Hint::kSwapped;
    if (odd_is_ahead) return Hint::kLeftOut;
    return odd_comes_later ? Hint::kSurplus : Hint::kNone;
  }

  void ComparePair(int index) {
    const Pair& pair = partners_.pairs[index];
    for (size_t i = 0;
         pair.send_base + i < pair.sends.size() && pair.receive_base + i < pair.receives.size();
         ++i) {
      const CallAt& send = pair.sends[pair.send_base + i];
      const CallAt& receive = pair.receives[pair.receive_base + i];
      const auto about = BetweenEnds(records_.ShapeOf(send), records_.ShapeOf(receive));
      if (!about) continue;
      found_.push_back({.about = *about, .pair = index, .sides = {{send}, {receive}}});
      return;
    }
  }

  static constexpr size_t kMostSides = 16;

  const Records& records_;
  const std::vector<Standing>& standings_;
  const Partners& partners_;
  std::vector<Mismatch> found_;
};

}  // namespace

std::vector<Mismatch> MismatchesOf(const Records& records, const std::vector<Standing>& standings,
                                   const Partners& partners) {
  return MismatchFinder(records, standings, partners).Find();
}

}  // namespace stringline
