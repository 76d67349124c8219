// The work of a rank during elaboration: takes demands ("another F of stage 3"), decides the
// microbatch of each, and appends the numbered actions to the plan.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/counters.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/elaborate/eval.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// An action without its number.
struct Demand {
  ActionKind kind = ActionKind::kForward;
  StageId stage;                      // none for a bare W
  std::optional<int64_t> slice;       // given by '[ ]'
  std::optional<int64_t> microbatch;  // given by '@'
};

class RankWork {
 public:
  RankWork(int64_t padded_microbatches, const ElaborateLimits& limits, Plan* plan,
           Diagnostics* diagnostics);

  void StartRank(RankId rank);
  void EndRank();  // also after a finding, in the middle of loops and groups

  // Loops, for the iterations in actions and messages.
  void OpenLoop() { loops_.push_back({}); }
  void StartPass(int64_t i) { loops_.back() = {i, -1}; }
  void CloseLoop() { loops_.pop_back(); }
  // The innermost pass as an index into Plan::iterations, -1 for none.
  int32_t CurrentIteration();
  // Sets the iteration of the next actions and messages; none: the loops' own again.
  void SetIteration(std::optional<int32_t> iteration) { set_iteration_ = iteration; }

  // True if the stage exists.
  bool HasStage(int64_t stage) const {
    return stage >= 0 && stage < static_cast<int64_t>(plan_->stages.size());
  }
  // True if it exists and is on this rank.
  bool OwnsStage(int64_t stage) const {
    return HasStage(stage) && plan_->stages[static_cast<size_t>(stage)].rank == rank_;
  }
  // Adds the finding for a stage of another rank; `values` explains the number.
  void FindNotOwned(int64_t stage, Span span, const std::string& values);

  // The parts of `a & b` are performed between these two. A weight gradient deferred in the group
  // can be taken after EndGroup.
  void StartGroup();
  void EndGroup();
  // Numbers the demand and appends the action. False after a finding at `span`; `written`, if
  // given, is the demand's place in an order. `place` is its index in the plan's places.
  bool Perform(const Demand& demand, uint32_t place, Span span, const Span* written = nullptr);

  // Appends a collective of a stage of this rank. False after a finding at `span`.
  bool PerformCollective(ActionKind kind, StageId stage, uint32_t place, Span span);

  // Appends the stage's next UPDATE. False after a finding at `span`.
  bool PerformUpdate(StageId stage, uint32_t place, Span span);

  // Adds a finding, with the rank, the loop passes and the parameters as its `where`.
  Diagnostic& Find(Code code, Span span, std::string text);
  // Makes a finding of the evaluator's failure; false then.
  bool Evaluated(Evaluator* evaluator);
  std::string Where();

  // Stops elaboration, on all ranks.
  void Stop() { stopped_ = true; }
  void StopAtActionLimit(Span span);
  bool stopped() const { return stopped_; }

 private:
  struct Pass {
    int64_t i = 0;
    int32_t id = -1;  // in Plan::iterations; -1 until an action is performed in the pass
  };
  struct StageCounters {
    explicit StageCounters(int slices)
        : forward(slices), input_gradient(slices), recompute(slices), offload(slices) {}

    WorkCounter forward;
    WorkCounter input_gradient;
    WorkCounter recompute;
    WorkCounter offload;
    int updates = 0;
    std::map<ActionKind, WorkCounter> own;
  };

  // False after a finding if the plan has no backwards, and the action, called `word`, is for them.
  bool IsForward(ActionKind kind, const char* word, Span span);

  // True if the plan may have one more action; otherwise a finding at `span`.
  bool HasRoom(Span span);

  // The numbered action; none after a finding.
  std::optional<Action> Number(const Demand& demand, Span span);
  std::optional<Action> NumberCounted(const Demand& demand, Span span);
  std::optional<Action> NumberLeft(const Demand& demand, Span span);
  // The finding for a microbatch or a slice that does not exist; false then.
  bool Exists(const Demand& demand, SliceNumber number, Span span);
  // The entry that a W or a U takes; null if none fits.
  const Deferred::Entry* TakeLeft(const Demand& demand, Deferred* left);
  // "3F7", "3F7.1": the demand as an action of this number.
  std::string NameOf(const Demand& demand, SliceNumber number) const;
  // False after a finding if the demand is an R of a stage that keeps everything.
  bool Recomputes(const Demand& demand, Span span);
  void NoteEarlier(const Action& action, Diagnostic* finding);
  void FindNothingDeferred(const Demand& demand, Span span);
  void FindNothingOffloaded(const Demand& demand, Span span);

  // The number of microbatches that the stage's counters see.
  int64_t MicrobatchesOf(StageId stage) const;

  int64_t microbatches_;  // padded
  const ElaborateLimits& limits_;
  Plan* plan_;
  Diagnostics* diagnostics_;
  RankId rank_;
  bool stopped_ = false;
  std::vector<StageCounters> counters_;  // per stage
  Deferred deferred_;
  Deferred offloaded_;
  std::vector<Action> new_deferred_;  // for the current group
  std::vector<Pass> loops_;
  std::optional<int32_t> set_iteration_;
  bool group_began_ = false;       // a part of the group is in the plan
  const Span* written_ = nullptr;  // the place in an order of the current action
};

}  // namespace stringline
