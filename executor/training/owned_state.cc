#include "executor/training/owned_state.h"

#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<std::unique_ptr<OwnedState>> OwnedState::Make(const TrainingJob* job,
                                                             Pipelines* pipelines) {
  std::unique_ptr<OwnedState> state(new OwnedState(job, pipelines));
  for (int c = 0; c < job->mesh().coordinates(); ++c) {
    for (int32_t s = 0; s < job->stages(); ++s) {
      SL_RETURN_IF_ERROR(state->AddBlocks(c, StageId(s)));
    }
  }
  return state;
}

// Moments have the layout of the updated blocks.
absl::Status OwnedState::AddBlocks(int coordinate, StageId stage) {
  std::vector<ParamBlock>& blocks = blocks_.emplace_back();
  if (!job_->holds(stage, coordinate)) return absl::OkStatus();
  Stages& stages = pipelines_->stages(coordinate);
  char* moments[2];
  for (char*& of : moments) {
    SL_ASSIGN_OR_RETURN(void* memory, stages.Take(stage, stages.state(stage).moment));
    of = static_cast<char*>(memory);
  }
  const std::vector<Param>& params = job_->programs()[stage.value].params;
  for (const OwnedBlock& owned : stages.params().OwnedBlocks(stage)) {
    const Param& param = params[stages.pieces(stage).blocks()[owned.block].param];
    ParamBlock& block = blocks.emplace_back();
    block.values = owned.values;
    block.gradient = owned.gradient;
    block.m = {reinterpret_cast<float*>(moments[0] + owned.moment_at), owned.values.size()};
    block.v = {reinterpret_cast<float*>(moments[1] + owned.moment_at), owned.values.size()};
    block.working = owned.working;
    block.balances = param.update == Update::kBalance;
    block.decays = param.decay;
    if (param.update == Update::kAverage) block.momentum = param.momentum;
    block.counts = param.update == Update::kAdamW && param.tied_to.empty();
  }
  return job_->kernels()->Prepare(blocks);
}

std::vector<StatePiece> OwnedState::Pieces() const {
  std::vector<StatePiece> all;
  for (int c = 0; c < job_->mesh().coordinates(); ++c) {
    for (int32_t s = 0; s < job_->stages(); ++s) {
      const StageId stage(s);
      if (!job_->holds(stage, c)) continue;
      const std::vector<OwnedBlock> owned = pipelines_->stages(c).params().OwnedBlocks(stage);
      const std::vector<ParamBlock>& blocks = this->blocks(c, stage);
      for (size_t b = 0; b < blocks.size(); ++b) {
        const StateBlock& cut = pipelines_->stages(c).pieces(stage).blocks()[owned[b].block];
        const ParamBlock& block = blocks[b];
        all.push_back({stage, cut.param, c, cut.first, block.values, block.m, block.v});
      }
    }
  }
  return all;
}

}  // namespace stringline
