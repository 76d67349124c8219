#include "schedlang/check/meetings.h"

#include <cstddef>

#include "schedlang/check/waits.h"

namespace stringline {
namespace {

class Hall {
 public:
  explicit Hall(const MeetingSteps& members)
      : members_(members),
        at_(members.steps.size(), 0),
        missing_(members.meetings, 0),
        of_meeting_(members.meetings) {
    for (size_t m = 0; m < members.steps.size(); ++m) {
      for (const auto& step : members.steps[m]) {
        for (const int meeting : step) {
          of_meeting_[meeting].push_back(static_cast<int>(m));
          ++missing_[meeting];
        }
      }
    }
  }

  void Run() {
    std::vector<int> arriving;
    for (size_t m = 0; m < at_.size(); ++m) arriving.push_back(static_cast<int>(m));
    // Every member comes to its first step; then members go on whose step may be over.
    for (const int member : arriving) Arrive(member);
    while (!ready_.empty()) {
      const int member = ready_.back();
      ready_.pop_back();
      if (AtEnd(member) || !StepIsOver(member)) continue;
      ++at_[member];
      Arrive(member);
    }
  }

  std::vector<MeetingWait> Cycle() const {
    std::vector<std::vector<int>> waits_for(at_.size());
    for (size_t m = 0; m < at_.size(); ++m) {
      if (AtEnd(static_cast<int>(m))) continue;
      for (const int meeting : Step(static_cast<int>(m))) {
        for (const int other : of_meeting_[meeting]) {
          if (missing_[meeting] > 0 && !HasCome(other, meeting)) waits_for[m].push_back(other);
        }
      }
    }
    std::vector<MeetingWait> cycle;
    const std::vector<int> members = ShortestCycle(waits_for);
    for (size_t i = 0; i < members.size(); ++i) {
      const int next = members[(i + 1) % members.size()];
      for (const int meeting : Step(members[i])) {
        if (missing_[meeting] == 0 || HasCome(next, meeting) || !Joins(next, meeting)) continue;
        cycle.push_back({members[i], static_cast<int>(at_[members[i]]), meeting});
        break;
      }
    }
    return cycle;
  }

 private:
  const std::vector<int>& Step(int member) const { return members_.steps[member][at_[member]]; }
  bool AtEnd(int member) const { return at_[member] == members_.steps[member].size(); }

  void Arrive(int member) {
    if (AtEnd(member)) return;
    ready_.push_back(member);
    for (const int meeting : Step(member)) {
      if (--missing_[meeting] > 0) continue;
      for (const int other : of_meeting_[meeting]) ready_.push_back(other);
    }
  }

  bool StepIsOver(int member) const {
    for (const int meeting : Step(member)) {
      if (missing_[meeting] > 0) return false;
    }
    return true;
  }

  bool Joins(int member, int meeting) const {
    for (const int other : of_meeting_[meeting]) {
      if (other == member) return true;
    }
    return false;
  }

  bool HasCome(int member, int meeting) const {
    for (size_t k = 0; k <= at_[member] && k < members_.steps[member].size(); ++k) {
      for (const int m : members_.steps[member][k]) {
        if (m == meeting) return true;
      }
    }
    return false;
  }

  const MeetingSteps& members_;
  std::vector<size_t> at_;    // by member: its step
  std::vector<int> missing_;  // by meeting: members that have not come
  std::vector<std::vector<int>> of_meeting_;
  std::vector<int> ready_;
};

}  // namespace

std::vector<MeetingWait> FindMeetingCycle(const MeetingSteps& members) {
  Hall hall(members);
  hall.Run();
  return hall.Cycle();
}

}  // namespace stringline
