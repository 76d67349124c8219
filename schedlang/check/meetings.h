// Meetings: events that take place only when all their members have come to them.
//
// Connecting a communicator is a meeting, and so is a collective. Each member has a list of steps;
// a step is a set of meetings that the member waits for at once. The member goes on to its next
// step when all of them have taken place, and a meeting takes place when all of its members have
// come to a step that names it. Nothing else holds them up.
#pragma once

#include <vector>

namespace stringline {

struct MeetingSteps {
  // steps[member][k]: the meetings of the member's k-th step. Each meeting at most once per member.
  std::vector<std::vector<std::vector<int>>> steps;
  int meetings = 0;
};

// A link of a cycle: a member waits at a meeting to which the next member has not come.
struct MeetingWait {
  int member = 0;
  int step = 0;     // the member's current step
  int meeting = 0;  // a meeting of the step, to which the next member of the cycle has still to
                    // come
};

// A shortest cycle of the members that cannot go on; empty when all members come to their end.
std::vector<MeetingWait> FindMeetingCycle(const MeetingSteps& members);

}  // namespace stringline
