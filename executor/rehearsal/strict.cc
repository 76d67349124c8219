#include "executor/rehearsal/strict.h"

#include "executor/cpu/device.h"
#include "executor/cpu/threads_group.h"
#include "executor/engine/interpreter.h"
#include "executor/engine/stage_work.h"
#include "executor/rehearsal/own_calls.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// Own actions of all ranks meet.
class StrictWork final : public NoWork {
 public:
  StrictWork(const Plan& plan, Groups* groups) : own_calls_(plan, groups) {}

  absl::StatusOr<Piece> Own(const OwnAction& row, const Action& action) override {
    if (row.by != By::kAllRanks) return Piece();
    return Piece{{}, {own_calls_.Of(action)}, {}};
  }

 private:
  const OwnCalls own_calls_;
};

}  // namespace

absl::Status RunStrict(const Plan& lowered, CommLayout layout) {
  CpuDevice device;
  ThreadGroups groups(&device);
  StrictWork work(lowered, &groups);
  SL_ASSIGN_OR_RETURN(auto step,
                      Interpreter::Make(lowered, &work, &device, &groups,
                                        /*recorder=*/nullptr,
                                        {.order = MessageOrder::kListedWork, .layout = layout}));
  step->EnqueueStep();
  return device.Synchronize();
}

}  // namespace stringline
