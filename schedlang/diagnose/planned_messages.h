// The messages of a schedule, as the calls that a runtime makes of them: the k-th message from a
// rank to another in one step, step after step.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "schedlang/plan/plan.h"

namespace stringline {

struct PlannedMessage {
  const Action* send = nullptr;
  const Action* receive = nullptr;
  int64_t round = 0;  // how often the plan was performed before
};

class PlannedMessages {
 public:
  // `lowered` has its messages, and outlives this.
  explicit PlannedMessages(const Plan& lowered);

  // The message with this number, from 0, of the ranks' messages; nothing if the plan has none
  // between them.
  std::optional<PlannedMessage> Of(int from, int to, int64_t number) const;

  int ranks() const { return ranks_; }

 private:
  struct Ends {
    std::vector<const Action*> sends, receives;
  };
  std::map<std::pair<int, int>, Ends> ends_;
  int ranks_ = 0;
};

}  // namespace stringline
