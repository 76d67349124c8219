#include "schedlang/check/replay.h"

namespace stringline {
namespace {

// Walks every rank's list as the rank issues it: a receive counts as there once it is issued.
bool IssuedInOrder(const Plan& plan) {
  LiveValues issued(plan);
  for (size_t i = 0; i < plan.actions.size();) {
    const auto group = GroupAt(plan.actions, i);
    for (size_t k = 0; k < group.size(); ++k) {
      if (issued.Missing(group, k) != 0) return false;
    }
    for (const Action& part : group) issued.Perform(part);
    i += group.size();
  }
  return true;
}

}  // namespace

bool Ends(const Plan& lowered, CommLayout layout, int buffers) {
  if (!IssuedInOrder(lowered)) return false;
  NoClock clock;
  return Replay<NoClock>(lowered, &clock, layout, buffers).Run();
}

}  // namespace stringline
