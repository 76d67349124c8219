// The data and the results of a step's microbatches, in host memory and on the device: the tokens
// of first stages, the targets and losses of last stages, the positions of packed sequences, the
// keys of dropout's masks, and the tallies of mixtures of experts. Copies around each forward
// action move them; a microbatch has memory of its own in both places. A slice has memory of its
// own on the device; in host memory its tokens lie in those of its sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/engine/device.h"
#include "executor/engine/stage_work.h"
#include "executor/training/rank_allocator.h"
#include "executor/training/ready_graph.h"
#include "schedlang/base/align.h"
#include "schedlang/plan/plan.h"
#include "stages/stage_program.h"

namespace stringline {

class StepData {
 public:
  StepData(const Plan& plan, absl::Span<const StageProgram> programs);

  // The bytes on the device for a stage, and in host memory for its tallies of a chunk.
  int64_t BytesOf(StageId stage) const;
  // The bytes of a chunk's tokens in host memory, and of its targets; with slices a slice's share.
  int64_t sequence_bytes() const {
    return rows_ * sequence_ / plan_.slices * static_cast<int64_t>(sizeof(int32_t));
  }
  int64_t TallyBytes(StageId stage) const {
    return 2 * programs_[stage.value].moe_layers * kBufferAlignment;
  }
  // Host memory for the results of the stages in `held`, and, if one of them is a first or a last
  // stage, for tokens and targets; device memory for the stages in `held`.
  absl::Status Allocate(absl::Span<const StageId> held, RankAllocator* allocator);

  // In host memory, of all slices of the microbatch whose first slice is named; empty if no first
  // or last stage is in this process, or no stage that reads positions.
  absl::Span<int32_t> tokens(MicrobatchId microbatch) { return OfMicrobatch(tokens_, microbatch); }
  absl::Span<int32_t> targets(MicrobatchId microbatch) {
    return OfMicrobatch(targets_, microbatch);
  }
  absl::Span<int32_t> positions(MicrobatchId microbatch);
  // The key of the microbatch's masks, of which each chunk gets its own: its first sample differs.
  // Without effect if no stage of this process has dropout.
  void SetMaskKey(MicrobatchId microbatch, MaskKey key);
  // The sum over its chunks, in their order.
  double loss(MicrobatchId microbatch) const;
  // A tally of the stage's mixtures of experts, summed over chunks: by index, the balance losses of
  // all layers come first, then the dropped slots of all layers.
  float TallyOf(StageId stage, MicrobatchId microbatch, int index) const;

  std::vector<HostCopy> CopiesBefore(const Action& action);
  std::vector<HostCopy> CopiesAfter(const Action& action);
  // The addresses of a chunk of the action's microbatch, among `regions`.
  void Bind(const Action& action, int chunk, Regions* regions) const;

 private:
  // On the device, by microbatch of the step.
  struct OnDevice {
    char* targets = nullptr;
    char* loss = nullptr;  // aligned, by chunk: two ranks may write at once
  };
  struct Tallies {
    char* device = nullptr;  // by microbatch of the step
    absl::Span<float> host;  // the same
  };
  // Of a stage, over all its microbatches.
  struct DataBytes {
    int64_t tokens = 0, targets = 0, losses = 0, positions = 0, mask_keys = 0;
  };
  DataBytes DataOf(StageId stage) const;
  // The tokens of a sequence, of which stages may read some each.
  static int64_t SequenceOf(absl::Span<const StageProgram> programs);
  int64_t TokensOfMicrobatch() const { return plan_.chunks * rows_ * sequence_; }
  absl::Span<int32_t> OfMicrobatch(absl::Span<int32_t> all, MicrobatchId first) const;
  static int64_t BytesOf(const std::optional<Type>& type) {
    return type ? AlignUp(type->bytes()) : 0;
  }
  // The memory of the action's microbatch, in its stage's own, of so many bytes a chunk.
  char* OfMicrobatch(const std::vector<char*>& own, int64_t bytes, const Action& action) const {
    return own[action.stage.value] + action.microbatch.value * plan_.chunks * bytes;
  }
  // Bytes of a chunk's tokens on the device, of all inputs of tokens that the stage has.
  int64_t TokenBytes(StageId stage) const;
  // The tokens of the action's microbatch, in the stage's own copy of them.
  char* TokensOf(const Action& action) const {
    return OfMicrobatch(tokens_on_device_, TokenBytes(action.stage), action);
  }
  // Bytes of a chunk's positions on the device: 0 where the stage reads none.
  int64_t PositionBytes(StageId stage) const { return BytesOf(programs_[stage.value].positions); }
  // The positions of the action's microbatch, in the stage's own copy of them.
  char* PositionsOf(const Action& action) const {
    return OfMicrobatch(positions_on_device_, PositionBytes(action.stage), action);
  }
  // The same of the key of masks.
  int64_t MaskKeyBytes(StageId stage) const { return BytesOf(programs_[stage.value].mask_key); }
  char* MaskKeyOf(const Action& action) const {
    return OfMicrobatch(mask_keys_on_device_, MaskKeyBytes(action.stage), action);
  }
  // The index of the action's microbatch in the data of the whole step.
  int32_t IndexOf(const Action& action) const;
  int32_t FirstOf(StageId stage) const;
  absl::Status AllocateStage(StageId stage, RankAllocator* allocator);

  const Plan& plan_;
  const absl::Span<const StageProgram> programs_;
  const int64_t rows_;          // sequences of a chunk
  const int64_t sequence_;      // tokens of a sequence
  const int64_t target_bytes_;  // of a chunk on the device
  absl::Span<int32_t> tokens_;  // in host memory, by microbatch
  absl::Span<int32_t> targets_;
  absl::Span<int32_t> positions_;
  absl::Span<int32_t> mask_keys_;  // by chunk
  absl::Span<float> losses_;
  std::vector<OnDevice> on_device_;         // by microbatch: its first chunk
  std::vector<Tallies> tallies_;            // by stage
  std::vector<char*> tokens_on_device_;     // by stage: by its microbatch and chunk
  std::vector<char*> positions_on_device_;  // the same
  std::vector<char*> mask_keys_on_device_;
};

}  // namespace stringline
