#include "schedlang/tune/finish.h"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "schedlang/base/threads.h"
#include "schedlang/tune/better_order.h"
#include "schedlang/tune/evaluate.h"

namespace stringline::tune {
namespace {

class Finisher {
 public:
  Finisher(const TuneRequest& request, int64_t start_ns, PlanCache* cache, TunedChoices* answer)
      : request_(request), start_ns_(start_ns), cache_(cache), answer_(answer) {}

  absl::Status Run() {
    // A schedule that is given keeps its order.
    if (!request_.pins.schedule) ImproveOrders();
    SL_RETURN_IF_ERROR(AddParts(&answer_->best));
    if (request_.jitter == 0) return absl::OkStatus();
    return JudgeWithJitter();
  }

 private:
  static constexpr size_t kJudged = 4;              // choices of a mesh, with a jitter
  static constexpr int64_t kMostIterations = 2000;  // of the optimiser, for one choice
  static constexpr double kUntil = 0.93;            // of the time; the rest is for the parts

  // Replaces the orders of the best few by better ones, where the optimiser finds any.
  void ImproveOrders() {
    const size_t count = std::min(request_.improved, answer_->best.size());
    for (size_t i = 0; i < count && !IsWished(request_.stop); ++i) {
      Outcome& outcome = answer_->best[i];
      SearchBudget budget;
      const int64_t left_ns =
          start_ns_ + static_cast<int64_t>(kUntil * request_.seconds * 1e9) - NowNs();
      if (request_.evaluations > 0) {
        budget.iterations = std::min(request_.evaluations, kMostIterations);
      } else if (left_ns > 0) {
        budget.time_ns = left_ns / static_cast<int64_t>(count - i);
      } else {
        return;
      }
      const absl::StatusOr<BetterOrder> better =
          FindBetterOrder(request_.base, outcome.choice, budget, request_.stop);
      if (!better.ok() || better->step_ns >= outcome.step_ns || better->bytes > answer_->capacity)
        continue;
      outcome.step_ns = better->step_ns;
      outcome.bytes = better->bytes;
      outcome.found = better->plan;
      answer_->simulated.push_back(outcome);
    }
    std::stable_sort(answer_->best.begin(), answer_->best.end(), IsShorter);
    if (!answer_->best.empty()) {
      answer_->bound_ns = std::min(answer_->bound_ns, answer_->best[0].step_ns);
    }
  }

  // The orders of these outcomes.
  std::vector<std::shared_ptr<const PreparedPlan>> PlansOf(const std::vector<Outcome>& outcomes) {
    std::vector<PlanKey> keys;
    for (const Outcome& outcome : outcomes) keys.push_back(KeyOf(outcome.choice));
    auto plans = cache_->Prepare(keys, request_.threads);
    for (size_t i = 0; i < outcomes.size(); ++i) {
      if (outcomes[i].found != nullptr) plans[i] = outcomes[i].found;
    }
    return plans;
  }

  // The few best choices of each mesh in the answer take the mean of their draws, and the best of
  // them stays.
  absl::Status JudgeWithJitter() {
    std::map<MeshKey, std::vector<Outcome>> of_mesh;
    for (const Outcome& best : answer_->best) of_mesh[MeshOf(best.choice)];
    for (const Outcome& outcome : answer_->simulated) {
      const auto mesh = of_mesh.find(MeshOf(outcome.choice));
      if (mesh != of_mesh.end()) mesh->second.push_back(outcome);
    }
    std::vector<Outcome> judged;
    for (auto& [mesh, outcomes] : of_mesh) {
      std::stable_sort(outcomes.begin(), outcomes.end(), IsShorter);
      // Longer ones were not judged by all of their bytes, and are no better with a jitter.
      outcomes.resize(std::min(outcomes.size(), kJudged));
      judged.insert(judged.end(), outcomes.begin(), outcomes.end());
    }
    SL_RETURN_IF_ERROR(AddParts(&judged));
    SL_RETURN_IF_ERROR(AddJitter(&judged));
    std::stable_sort(judged.begin(), judged.end(), IsShorter);
    answer_->best.clear();
    for (const Outcome& outcome : judged) {
      if (outcome.bytes > answer_->capacity) continue;
      if (of_mesh.erase(MeshOf(outcome.choice)) > 0) answer_->best.push_back(outcome);
    }
    return absl::OkStatus();
  }

  absl::Status AddJitter(std::vector<Outcome>* outcomes) {
    const auto plans = PlansOf(*outcomes);
    std::vector<absl::Status> ends(outcomes->size());
    ForEachOnThreads(static_cast<int>(outcomes->size()), request_.threads, [&](int i) {
      Outcome& outcome = (*outcomes)[i];
      const absl::StatusOr<JitteredChoice> jittered =
          WithJitter(request_.base, outcome.choice, *plans[i], request_.jitter);
      ends[i] = jittered.status();
      if (!jittered.ok()) return;
      outcome.bytes = jittered->bytes;
      outcome.parts[StepPart::kJitter] = jittered->mean_ns - outcome.step_ns;
      outcome.step_ns = outcome.parts.step_ns = jittered->mean_ns;
    });
    for (const absl::Status& end : ends) SL_RETURN_IF_ERROR(end);
    return absl::OkStatus();
  }

  absl::Status AddParts(std::vector<Outcome>* outcomes) {
    const auto plans = PlansOf(*outcomes);
    std::vector<absl::StatusOr<StepParts>> parts(outcomes->size(), StepParts());
    ForEachOnThreads(static_cast<int>(outcomes->size()), request_.threads, [&](int i) {
      parts[i] = StepPartsOf(request_.base, (*outcomes)[i].choice, *plans[i]);
    });
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!parts[i].ok()) return parts[i].status();
      (*outcomes)[i].parts = *parts[i];
    }
    return absl::OkStatus();
  }

  const TuneRequest& request_;
  const int64_t start_ns_;
  PlanCache* const cache_;
  TunedChoices* const answer_;
};

}  // namespace

absl::Status Finish(const TuneRequest& request, int64_t start_ns, PlanCache* cache,
                    TunedChoices* answer) {
  return Finisher(request, start_ns, cache, answer).Run();
}

}  // namespace stringline::tune
