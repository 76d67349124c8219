// Threads only note the verdict of a point, and count refusals by the place of their `require`. The
// first wrong plan is made and proven once more at the end, for its findings: so these are the same
// whichever thread met which plan first.
#include "schedlang/ask/check_sweep.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

class CheckedPoints {
 public:
  CheckedPoints(const Sweep& sweep, const PlanProof& prove) : prove_(prove) {
    SL_CHECK(sweep.schedules.size() == 1) << "schedules to check at once: 1";
    result_.verdicts.resize(sweep.points.size());
  }

  void Judge(size_t point, const std::optional<Plan>& plan, Diagnostics* findings) {
    if (plan && prove_(*plan, findings)) return;
    const Diagnostic* const why = RefusalIn(*findings);
    result_.verdicts[point] = why != nullptr ? SweepVerdict::kRefused : SweepVerdict::kWrong;
    if (why != nullptr) CountRefusal(point, *why);
  }

  CheckedSweep Result(const Sweep& sweep) {
    for (auto& [place, refusal] : refusals_) result_.refusals.push_back(std::move(refusal));
    std::sort(result_.refusals.begin(), result_.refusals.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    const auto wrong =
        std::find(result_.verdicts.begin(), result_.verdicts.end(), SweepVerdict::kWrong);
    if (wrong != result_.verdicts.end()) {
      result_.first_wrong = static_cast<size_t>(wrong - result_.verdicts.begin());
      const std::optional<Plan> plan = PlanAt(sweep, *result_.first_wrong, &result_.findings);
      if (plan) prove_(*plan, &result_.findings);
    }
    return std::move(result_);
  }

 private:
  void CountRefusal(size_t point, const Diagnostic& why) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [slot, is_new] = refusals_.try_emplace(why.span.begin);
    CheckedSweep::Refusal& refusal = slot->second;
    ++refusal.count;
    refusal.first = is_new ? point : std::min(refusal.first, point);
    // Behind the message stand the values at this point.
    if (is_new) refusal.message = why.text.substr(0, why.text.rfind(", with "));
  }

  const PlanProof& prove_;
  std::mutex mutex_;
  std::map<uint32_t, CheckedSweep::Refusal> refusals_;  // by place
  CheckedSweep result_;
};

}  // namespace

size_t CheckedSweep::Count(SweepVerdict verdict) const {
  return static_cast<size_t>(std::count(verdicts.begin(), verdicts.end(), verdict));
}

absl::StatusOr<CheckedSweep> CheckAll(const Sweep& sweep, const PlanProof& prove, int threads,
                                      const std::function<bool()>& after_each) {
  CheckedPoints points(sweep, prove);
  SL_RETURN_IF_ERROR(ForEachPlan(
      sweep,
      [&points](size_t point, const std::optional<Plan>& plan, Diagnostics* findings) {
        points.Judge(point, plan, findings);
        return absl::OkStatus();
      },
      threads, after_each));
  return points.Result(sweep);
}

}  // namespace stringline
