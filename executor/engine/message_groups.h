// The groups in which a plan's messages are exchanged: one for every communicator of the layout,
// with the ranks that use it.
#pragma once

#include <vector>

#include "executor/engine/group.h"
#include "schedlang/plan/communicators.h"
#include "schedlang/plan/plan.h"

namespace stringline {

class MessageGroups {
 public:
  // Rank r of the plan is rank first_rank + r of the mesh. Made before Groups::Connect.
  MessageGroups(const Plan& lowered, CommLayout layout, int first_rank, Groups* groups);

  // A channel of the plan (channels.h): its group, and the members that send and receive.
  struct Ends {
    Group* group = nullptr;
    int from = 0;
    int to = 0;
  };
  const Ends& of(int channel) const { return ends_[static_cast<size_t>(channel)]; }
  // Groups::BeginsTogether
  bool begins_together() const { return begins_together_; }

 private:
  bool begins_together_;
  std::vector<Ends> ends_;
};

}  // namespace stringline
