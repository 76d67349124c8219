#include "schedlang/ask/sweep.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/session.h"
#include "schedlang/base/threads.h"

namespace stringline {
namespace {

class SweepRun {
 public:
  SweepRun(const ast::File& file, const std::string& schedule, const std::vector<Parameter>& fixed,
           const SweepPoints& points, const PlanProof& prove,
           const std::function<void()>& after_each, search::KeptOrders* kept)
      : file_(file),
        schedule_(schedule),
        fixed_(fixed),
        points_(points),
        prove_(prove),
        after_each_(after_each),
        limits_{.kept = kept},
        next_(points.size()) {
    result_.verdicts.resize(points.size());
  }

  absl::StatusOr<SweepResult> Run(int threads) {
    WorkOnThreads(threads, [this] { Work(); });
    if (out_of_memory_) return absl::ResourceExhaustedError("not enough memory for these plans");
    for (auto& [place, refusal] : refusals_) result_.refusals.push_back(std::move(refusal));
    std::sort(result_.refusals.begin(), result_.refusals.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    const auto wrong =
        std::find(result_.verdicts.begin(), result_.verdicts.end(), SweepVerdict::kWrong);
    if (wrong != result_.verdicts.end()) {
      result_.first_wrong = static_cast<size_t>(wrong - result_.verdicts.begin());
      Prove(*result_.first_wrong, &result_.findings);
    }
    return std::move(result_);
  }

 private:
  // Takes points until all are taken; the last points, mostly the largest, first.
  void Work() {
    try {
      while (!out_of_memory_) {
        const size_t left = next_.load();
        if (left == 0) return;
        size_t mine = left;
        if (!next_.compare_exchange_weak(mine, left - 1)) continue;
        Judge(left - 1);
        after_each_();
      }
    } catch (const std::bad_alloc&) {
      out_of_memory_ = true;
    }
  }

  bool Prove(size_t point, Diagnostics* findings) const {
    const auto parameters = ParametersAt(points_, point, fixed_);
    const std::optional<Plan> plan =
        ElaboratedPlan(file_, schedule_, parameters, findings, limits_);
    return plan && prove_(*plan, findings);
  }

  void Judge(size_t point) {
    Diagnostics findings;
    if (Prove(point, &findings)) return;
    const Diagnostic* const refusal_here = RefusalIn(findings);
    const bool refused = refusal_here != nullptr;
    result_.verdicts[point] = refused ? SweepVerdict::kRefused : SweepVerdict::kWrong;
    if (!refused) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [slot, is_new] = refusals_.try_emplace(refusal_here->span.begin);
    SweepResult::Refusal& refusal = slot->second;
    ++refusal.count;
    refusal.first = is_new ? point : std::min(refusal.first, point);
    // Behind the message stand the values at this point.
    const std::string& why = refusal_here->text;
    if (is_new) refusal.message = why.substr(0, why.rfind(", with "));
  }

  const ast::File& file_;
  const std::string& schedule_;
  const std::vector<Parameter>& fixed_;
  const SweepPoints& points_;
  const PlanProof& prove_;
  const std::function<void()>& after_each_;
  const ElaborateLimits limits_;
  std::atomic<size_t> next_;  // points from here on are taken
  std::atomic<bool> out_of_memory_ = false;
  std::mutex mutex_;
  std::map<uint32_t, SweepResult::Refusal> refusals_;  // by place
  SweepResult result_;
};

}  // namespace

size_t SweepResult::Count(SweepVerdict verdict) const {
  return static_cast<size_t>(std::count(verdicts.begin(), verdicts.end(), verdict));
}

std::vector<Parameter> ParametersAt(const SweepPoints& points, size_t point,
                                    const std::vector<Parameter>& fixed) {
  std::vector<Parameter> parameters = fixed;
  for (size_t i = 0; i < points.names.size(); ++i) {
    parameters.push_back({points.names[i], points.at(point)[i]});
  }
  return parameters;
}

absl::StatusOr<SweepResult> Sweep(const ast::File& file, const std::string& schedule,
                                  const std::vector<Parameter>& fixed, const SweepPoints& points,
                                  const PlanProof& prove, int threads,
                                  const std::function<void()>& after_each,
                                  search::KeptOrders* kept) {
  return SweepRun(file, schedule, fixed, points, prove, after_each, kept).Run(threads);
}

}  // namespace stringline
