// Backwards from the ranks that wait for nobody, a breadth-first search gives every waiting rank
// the next rank of its chain. Ranks that reach no such end wait in circles, which a walk from one
// to the next finds.
#include "schedlang/diagnose/diagnosis.h"

#include <algorithm>
#include <map>
#include <utility>

namespace stringline {
namespace {

class DiagnosisMaker {
 public:
  DiagnosisMaker(const Records& records, CommLayout layout)
      : records_(records), standings_(StandingsOf(records, layout)) {
    made_.partners = PartnersOf(records, standings_);
    made_.waits = WaitsOf(records, standings_, made_.partners);
    made_.mismatches = MismatchesOf(records, standings_, made_.partners);
  }

  Diagnosis Make() {
    for (const RankRecord& rank : records_.ranks) made_.dropped |= rank.dropped;
    FindEnds();
    FollowChains();
    for (size_t i = 0; i < made_.behind.size(); ++i) Complete(&made_.behind[i], farthest_[i]);
    FindCircles();
    FindUnderWay();
    return std::move(made_);
  }

 private:
  const HeldCall& HeldAt(int32_t index) const { return made_.waits.held[index]; }

  BehindWhy WhyOf(int rank) const {
    const int32_t index = records_.IndexOf(rank);
    if (index >= 0) {
      for (const int32_t front : standings_[index].front_of) {
        if (front >= 0) return BehindWhy::kStuck;
      }
      return BehindWhy::kLate;
    }
    return records_.Find(rank) == nullptr ? BehindWhy::kNoDump : BehindWhy::kCutShort;
  }

  // By rank the held call that tells most: one that the rank has not made, the earliest; or else
  // the first that it holds up, or -1.
  std::vector<int32_t> FindTelling() const {
    std::vector<int32_t> told_by(records_.world, -1);
    for (size_t held = 0; held < made_.waits.held.size(); ++held) {
      for (const Lacking& lacking : made_.waits.held[held].lacking) {
        int32_t& telling = told_by[lacking.rank];
        if (lacking.lack != Lack::kBehind && telling < 0) telling = static_cast<int32_t>(held);
      }
    }
    for (int rank = 0; rank < records_.world; ++rank) {
      const std::vector<int32_t>& held = made_.waits.holds_up[rank];
      if (told_by[rank] < 0 && !held.empty()) told_by[rank] = held.front();
    }
    return told_by;
  }

  void FindEnds() {
    end_of_.assign(records_.world, -1);
    const std::vector<int32_t> told_by = FindTelling();
    std::map<std::pair<int32_t, BehindWhy>, size_t> known;
    for (int rank = 0; rank < records_.world; ++rank) {
      const BehindWhy why = WhyOf(rank);
      const bool holds = !made_.waits.holds_up[rank].empty();
      if (!holds && why == BehindWhy::kNoDump) made_.without_dump.push_back(rank);
      if (!holds && why != BehindWhy::kCutShort) continue;
      if (!made_.waits.waits_in[rank].empty()) continue;
      const int32_t held = told_by[rank];
      const auto [found, is_new] = known.try_emplace({held, why}, made_.behind.size());
      if (is_new) made_.behind.push_back({.why = why, .held = held});
      made_.behind[found->second].ranks.push_back(rank);
      end_of_[rank] = static_cast<int32_t>(found->second);
    }
  }

  void FollowChains() {
    next_.resize(records_.world);
    farthest_.assign(made_.behind.size(), -1);
    std::vector<bool> done(made_.waits.held.size());
    std::vector<int> reached;
    for (int rank = 0; rank < records_.world; ++rank) {
      if (end_of_[rank] >= 0) reached.push_back(rank);
    }
    for (size_t i = 0; i < reached.size(); ++i) {
      const int rank = reached[i];
      for (const int32_t held : made_.waits.holds_up[rank]) {
        if (done[held]) continue;
        done[held] = true;
        const Lacking lacking = LackingOf(held, rank);
        for (const CallAt& at : HeldAt(held).waiting) {
          const int waiting = records_.ranks[at.rank].rank;
          if (end_of_[waiting] >= 0) continue;
          end_of_[waiting] = end_of_[rank];
          next_[waiting] = {held, at, lacking};
          farthest_[end_of_[rank]] = waiting;
          ++made_.behind[end_of_[rank]].waiting;
          reached.push_back(waiting);
        }
      }
    }
  }

  Lacking LackingOf(int32_t held, int rank) const {
    for (const Lacking& lacking : HeldAt(held).lacking) {
      if (lacking.rank == rank) return lacking;
    }
    return {};
  }

  void Complete(Behind* behind, int farthest) {
    for (int rank = farthest; rank >= 0 && next_[rank].held >= 0; rank = next_[rank].lacking.rank) {
      behind->chain.push_back(next_[rank]);
    }
    const int32_t index = records_.IndexOf(behind->ranks.front());
    if (index < 0 || records_.ranks[index].calls.empty()) return;
    behind->last = {index, static_cast<int32_t>(records_.ranks[index].calls.size()) - 1};
    if (behind->held < 0 || HeldAt(behind->held).meeting < 0) return;
    behind->divergence = FindDivergence(HeldAt(behind->held), index);
  }

  // The first collective of the group that the late rank and a waiting one make at different
  // places. Only the late rank's own calls are visited: over all ranks each call once.
  std::optional<Divergence> FindDivergence(const HeldCall& held, int32_t late) {
    const int32_t group = made_.partners.meetings[held.meeting].group;
    const int32_t other = held.waiting.front().rank;
    std::optional<Divergence> first;
    int64_t first_sequence = 0;
    for (const RecordedLaunch& launch : standings_[late].launches) {
      ++made_.visited_for_divergence;
      if (launch.is_message || launch.group != group) continue;
      if (first && launch.sequence >= first_sequence) continue;
      const CallAt own{late, launch.first_call};
      const std::optional<CallAt> others = CallIn(group, launch.sequence, other);
      if (!others) continue;
      const int32_t place = records_.At(own).place;
      if (place < 0 || place == records_.At(*others).place) continue;
      first = {own, *others};
      first_sequence = launch.sequence;
    }
    return first;
  }

  // The rank's call in a collective of the group.
  std::optional<CallAt> CallIn(int32_t group, int64_t sequence, int32_t rank) const {
    const std::vector<Meeting>& meetings = made_.partners.meetings;
    const auto meeting =
        std::lower_bound(meetings.begin(), meetings.end(), std::pair(group, sequence),
                         [](const Meeting& of, const std::pair<int32_t, int64_t>& wanted) {
                           return std::pair(of.group, of.sequence) < wanted;
                         });
    if (meeting == meetings.end()) return std::nullopt;
    if (meeting->group != group || meeting->sequence != sequence) return std::nullopt;
    const auto call =
        std::lower_bound(meeting->calls.begin(), meeting->calls.end(), rank,
                         [](const CallAt& at, int32_t wanted) { return at.rank < wanted; });
    if (call == meeting->calls.end() || call->rank != rank) return std::nullopt;
    return *call;
  }

  // The call with which the rank waits in a held call.
  CallAt WaitingCall(int32_t held, int rank) const {
    const std::vector<CallAt>& waiting = HeldAt(held).waiting;
    const int32_t index = records_.IndexOf(rank);
    return *std::lower_bound(waiting.begin(), waiting.end(), index,
                             [](const CallAt& at, int32_t wanted) { return at.rank < wanted; });
  }

  // The first wait of a rank for a rank that is in a circle or leads to one.
  WaitStep FirstWait(int rank) const {
    for (const int32_t held : made_.waits.waits_in[rank]) {
      for (const Lacking& lacking : HeldAt(held).lacking) {
        if (end_of_[lacking.rank] < 0) return {held, WaitingCall(held, rank), lacking};
      }
    }
    return {};
  }

  void FindCircles() {
    // By rank: the walk that came by first, from 1; 0 for none.
    std::vector<int> seen_in(records_.world);
    int walk = 0;
    for (int begin = 0; begin < records_.world; ++begin) {
      if (end_of_[begin] >= 0 || made_.waits.waits_in[begin].empty()) continue;
      ++walk;
      std::vector<WaitStep> steps;
      int rank = begin;
      while (seen_in[rank] == 0) {
        seen_in[rank] = walk;
        const WaitStep step = FirstWait(rank);
        if (step.held < 0) break;
        steps.push_back(step);
        rank = step.lacking.rank;
      }
      if (seen_in[rank] != walk || steps.empty() || steps.back().lacking.rank != rank) continue;
      const auto first = std::find_if(steps.begin(), steps.end(), [&](const WaitStep& step) {
        return records_.ranks[step.call.rank].rank == rank;
      });
      made_.circles.emplace_back(first, steps.end());
    }
  }

  std::vector<bool> MismatchedGroups() const {
    std::vector<bool> groups(records_.groups.size());
    for (const Mismatch& mismatch : made_.mismatches) {
      groups[mismatch.meeting >= 0 ? made_.partners.meetings[mismatch.meeting].group
                                   : made_.partners.pairs[mismatch.pair].group] = true;
    }
    return groups;
  }

  // The launches at the front that wait for nobody.
  void FindUnderWay() {
    std::map<std::tuple<int32_t, bool, int64_t>, std::vector<CallAt>> given_up;
    const std::vector<bool> mismatched = MismatchedGroups();
    for (size_t r = 0; r < standings_.size(); ++r) {
      const std::vector<bool> is_held = HeldLaunches(static_cast<int32_t>(r));
      for (const int32_t front : standings_[r].front_of) {
        if (front < 0) continue;
        const RecordedLaunch& launch = standings_[r].launches[front];
        if (is_held[front]) continue;
        ++made_.under_way;
        const CallAt at{static_cast<int32_t>(r), launch.first_call};
        if (!records_.At(at).timed_out || mismatched[launch.group]) continue;
        given_up[{launch.group, launch.is_message, launch.sequence}].push_back(at);
      }
    }
    if (!made_.IsClean()) return;
    for (auto& [key, calls] : given_up) made_.given_up.push_back(std::move(calls));
  }

  // By launch of the rank: whether it is in a held call.
  std::vector<bool> HeldLaunches(int32_t index) const {
    std::vector<bool> is_held(standings_[index].launches.size());
    const int rank = records_.ranks[index].rank;
    for (const int32_t held : made_.waits.waits_in[rank]) {
      is_held[standings_[index].launch_of[WaitingCall(held, rank).call]] = true;
    }
    return is_held;
  }

  const Records& records_;
  const std::vector<Standing> standings_;
  Diagnosis made_;
  std::vector<int32_t> end_of_;  // by rank: the index in `behind` at which its chain ends, or -1
  std::vector<WaitStep> next_;   // by rank, of those that wait and are no end
  std::vector<int> farthest_;    // by index in `behind`: the last rank that was reached, or -1
};

}  // namespace

Diagnosis Diagnose(const Records& records, CommLayout layout) {
  return DiagnosisMaker(records, layout).Make();
}

std::optional<int64_t> NumberOf(const Records& records, const Pair& pair, const CallAt& message) {
  if (pair.is_counted_from_open || records.At(message).of_object) return std::nullopt;
  const bool is_send = records.ShapeOf(message).IsSend();
  int64_t number = 0;
  for (const CallAt& at : is_send ? pair.sends : pair.receives) {
    if (at.call >= message.call) break;
    if (!records.At(at).of_object) ++number;
  }
  return number;
}

}  // namespace stringline
