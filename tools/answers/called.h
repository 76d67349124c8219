// A recorded call as people and programs read it, and the action of a schedule that it performs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedlang/diagnose/diagnosis.h"
#include "tools/answers/diagnosis.h"
#include "tools/io/json.h"

namespace stringline {

// "0-3, 5"
std::string PrintRanks(const std::vector<int>& ranks);
// "rank 3", "ranks 0-3, 5"
std::string NameRanks(const std::vector<int>& ranks);

class CalledWords {
 public:
  CalledWords(const Records& records, const Diagnosis& diagnosis,
              const std::optional<DiagnosedPlan>& planned);

  // The job's rank that made it.
  int RankOf(const CallAt& at) const { return records_.ranks[at.rank].rank; }
  std::vector<int> RanksOf(const std::vector<CallAt>& calls) const;

  // "all_reduce #7", "send to rank 2"
  std::string Name(const CallAt& at) const;
  // "[4, 8] Float, train.py:41 in step"
  std::string Details(const CallAt& at) const;
  // Name, "of group 0 (default_pg)", state and details.
  std::string Whole(const CallAt& at) const;
  std::string Group(int32_t group) const;
  // "1SEND_F3 (1f1b.sched:12), 1RECV… in step 0" of a message; "" without a plan of it.
  std::string Planned(int pair, const CallAt& at) const;

  Json AsJson(const CallAt& at) const;
  Json PlannedAsJson(int pair, const CallAt& at) const;

  // Groups with as many ranks as the plan has and with messages.
  const std::vector<int32_t>& planned_groups() const { return planned_groups_; }

 private:
  int MemberOf(int32_t group, int end) const;
  std::optional<PlannedMessage> PlannedOf(int pair, const CallAt& at) const;

  const Records& records_;
  const Diagnosis& diagnosis_;
  const std::optional<DiagnosedPlan>& planned_;
  std::vector<int32_t> planned_groups_;
};

}  // namespace stringline
