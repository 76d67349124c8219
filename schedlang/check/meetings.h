// Meetings: what only happens when all who take part have come to it, one after the other.
//
// Connecting a communicator is one, and so is a collective. Each member has a list of steps; a step
// is one or more meetings that it waits for at once. The member goes on to its next step when all
// of them have taken place, and a meeting takes place when all of its members have come to a step
// that names it. Nothing else holds them up.
#pragma once

#include <vector>

namespace stringline {

struct MeetingSteps {
  // steps[member][k]: the meetings of the member's k-th step. Each meeting at most once per member.
  std::vector<std::vector<std::vector<int>>> steps;
  int meetings = 0;
};

// A circle of members, each waiting at a meeting for the next one, which has not come to it.
struct MeetingWait {
  int member = 0;
  int step = 0;     // where it stands
  int meeting = 0;  // one of that step, which the next member of the circle has still to come to
};

// The shortest circle that is left when nobody can go on; empty when all members come to their end.
std::vector<MeetingWait> FindMeetingCircle(const MeetingSteps& members);

}  // namespace stringline
