// Each collective at the front of a rank, and each message at the front of one of its ends, is
// asked which partners lack their part. Of collectives that nobody waits in only the first of a
// group that some rank has not reached counts: its other ranks gave it up.
#include "schedlang/diagnose/waits.h"

#include <algorithm>
#include <limits>

namespace stringline {
namespace {

// The collectives of which a rank may be done before the others have come.
bool EndsAlone(const std::string& name) {
  for (const char* const rooted :
       {"broadcast", "_broadcast_oop", "reduce", "_reduce_oop", "gather", "scatter"}) {
    if (name == rooted) return true;
  }
  return false;
}

class WaitFinder {
 public:
  WaitFinder(const Records& records, const std::vector<Standing>& standings,
             const Partners& partners)
      : records_(records), standings_(standings), partners_(partners) {}

  Waits Find() {
    waits_.waits_in.resize(records_.world);
    waits_.holds_up.resize(records_.world);
    FindLeast();
    int32_t failed_in = -1;  // a group: one failure of each is enough
    for (size_t i = 0; i < partners_.meetings.size(); ++i) {
      Examine(static_cast<int>(i), &failed_in);
    }
    for (size_t i = 0; i < partners_.pairs.size(); ++i) ExaminePair(static_cast<int>(i));
    return std::move(waits_);
  }

 private:
  const RecordedLaunch& LaunchOf(const CallAt& at) const {
    const Standing& standing = standings_[at.rank];
    return standing.launches[standing.launch_of[at.call]];
  }
  CallAt FrontOf(const CallAt& at) const {
    const Standing& standing = standings_[at.rank];
    const int32_t front = standing.front_of[LaunchOf(at).queue];
    return {at.rank, standing.launches[front].first_call};
  }

  // By group: the number of the last collective that all its members with a dump have reached.
  void FindLeast() {
    least_.assign(records_.groups.size(), std::numeric_limits<int64_t>::max());
    for (size_t g = 0; g < least_.size(); ++g) {
      for (const int member : records_.groups[g].members) {
        const int32_t rank = records_.IndexOf(member);
        if (rank < 0) continue;
        const auto span = standings_[rank].collectives.find(static_cast<int32_t>(g));
        const bool has_any = span != standings_[rank].collectives.end();
        least_[g] = std::min(least_[g], has_any ? span->second.last : -1);
      }
    }
  }

  void Examine(int index, int32_t* failed_in) {
    const Meeting& meeting = partners_.meetings[index];
    HeldCall held{.meeting = index};
    for (const CallAt& at : meeting.calls) {
      const RecordedLaunch& launch = LaunchOf(at);
      if (!launch.ended && launch.at_front) held.waiting.push_back(at);
    }
    if (held.waiting.empty()) {
      const bool is_whole = meeting.sequence <= least_[meeting.group];
      if (is_whole || *failed_in == meeting.group) return;
      if (EndsAlone(records_.ShapeOf(meeting.calls[0]).name)) return;
      for (const CallAt& at : meeting.calls) {
        if (LaunchOf(at).ended) held.waiting.push_back(at);
      }
      if (held.waiting.empty()) return;
      held.has_failed = true;
    }
    FindLacking(meeting, &held);
    if (held.lacking.empty()) return;
    if (held.has_failed) *failed_in = meeting.group;
    Keep(std::move(held));
  }

  void FindLacking(const Meeting& meeting, HeldCall* held) const {
    auto own = meeting.calls.begin();
    for (const int member : records_.groups[meeting.group].members) {
      const int32_t rank = records_.IndexOf(member);
      if (rank < 0) {
        if (!held->has_failed) held->lacking.push_back({member, Lack::kNoDump, {}, {}});
        continue;
      }
      while (own != meeting.calls.end() && own->rank < rank) ++own;
      // Members need not be in order.
      if (own != meeting.calls.begin() && (own == meeting.calls.end() || own->rank != rank)) {
        own = std::lower_bound(meeting.calls.begin(), meeting.calls.end(), rank,
                               [](const CallAt& at, int32_t wanted) { return at.rank < wanted; });
      }
      if (own != meeting.calls.end() && own->rank == rank) {
        const RecordedLaunch& launch = LaunchOf(*own);
        if (launch.ended || launch.at_front) continue;
        held->lacking.push_back({member, Lack::kBehind, *own, FrontOf(*own)});
        continue;
      }
      if (HasPassed(rank, meeting, held->has_failed)) continue;
      held->lacking.push_back({member, Lack::kNotMade, {}, {}});
    }
  }

  // True if the rank has made its part, which its recorder has overwritten.
  bool HasPassed(int32_t rank, const Meeting& meeting, bool unless_sure) const {
    const auto span = standings_[rank].collectives.find(meeting.group);
    const bool dropped = records_.ranks[rank].dropped;
    if (span == standings_[rank].collectives.end()) return dropped && unless_sure;
    return meeting.sequence < span->second.last && dropped;
  }

  void ExaminePair(int index) {
    const Pair& pair = partners_.pairs[index];
    for (const bool by_sender : {true, false}) {
      const std::vector<CallAt>& own = by_sender ? pair.sends : pair.receives;
      const std::vector<CallAt>& other = by_sender ? pair.receives : pair.sends;
      const size_t base = by_sender ? pair.send_base : pair.receive_base;
      const size_t other_base = by_sender ? pair.receive_base : pair.send_base;
      for (size_t i = base; i < own.size(); ++i) {
        const RecordedLaunch& launch = LaunchOf(own[i]);
        if (launch.ended || !launch.at_front) continue;
        const size_t partner = i - base + other_base;
        ExamineMessage(index, own[i], partner < other.size() ? &other[partner] : nullptr,
                       by_sender ? pair.to : pair.from);
      }
    }
  }

  void ExamineMessage(int index, const CallAt& own, const CallAt* partner, int end) {
    const std::vector<int>& members = records_.groups[partners_.pairs[index].group].members;
    if (end >= static_cast<int>(members.size())) return;
    Lacking lacking{.rank = members[end]};
    if (records_.IndexOf(lacking.rank) < 0) {
      lacking.lack = Lack::kNoDump;
    } else if (partner) {
      const RecordedLaunch& launch = LaunchOf(*partner);
      if (launch.ended || launch.at_front) return;
      lacking.lack = Lack::kBehind;
      lacking.own = *partner;
      lacking.behind = FrontOf(*partner);
    }
    Keep({.waiting = {own}, .lacking = {lacking}, .pair = index});
  }

  void Keep(HeldCall held) {
    const auto index = static_cast<int32_t>(waits_.held.size());
    for (const CallAt& at : held.waiting) {
      waits_.waits_in[records_.ranks[at.rank].rank].push_back(index);
    }
    for (const Lacking& lacking : held.lacking) waits_.holds_up[lacking.rank].push_back(index);
    waits_.held.push_back(std::move(held));
  }

  const Records& records_;
  const std::vector<Standing>& standings_;
  const Partners& partners_;
  Waits waits_;
  std::vector<int64_t> least_;
};

}  // namespace

Waits WaitsOf(const Records& records, const std::vector<Standing>& standings,
              const Partners& partners) {
  return WaitFinder(records, standings, partners).Find();
}

}  // namespace stringline
