// Copies move what a forward reads to the device before it, and its results back behind it. A chunk
// has some sequences of its microbatch; a slice has some positions of each.
#include "executor/training/step_data.h"

#include <algorithm>

#include "schedlang/base/status.h"

namespace stringline {
namespace {

template <typename Number>
absl::Status AllocateOnHost(int64_t count, Device* device, absl::Span<Number>* numbers) {
  if (count == 0) return absl::OkStatus();
  SL_ASSIGN_OR_RETURN(void* memory,
                      device->AllocateHost(count * static_cast<int64_t>(sizeof(Number))));
  *numbers = {static_cast<Number*>(memory), static_cast<size_t>(count)};
  return absl::OkStatus();
}

}  // namespace

StepData::StepData(const Plan& plan, absl::Span<const StageProgram> programs)
    : plan_(plan),
      programs_(programs),
      token_bytes_(AlignUp(programs.front().input.bytes())),
      target_bytes_(AlignUp(programs.back().target.bytes())),
      on_device_(plan.microbatches),
      tallies_(programs.size()),
      positions_on_device_(programs.size(), nullptr) {}

StepData::DataBytes StepData::DataOf(StageId stage) const {
  const StageProgram& program = programs_[stage.value];
  const int64_t count = plan_.microbatches_of(stage) * plan_.chunks;
  DataBytes data;
  if (program.first) data.tokens = count * token_bytes_;
  if (program.last) data = {data.tokens, count * target_bytes_, count * kBufferAlignment};
  data.positions = count * PositionBytes(stage);
  return data;
}

int64_t StepData::BytesOf(StageId stage) const {
  const DataBytes data = DataOf(stage);
  return plan_.microbatches * plan_.chunks * TallyBytes(stage) + data.tokens + data.targets +
         data.losses + data.positions;
}

absl::Status StepData::Allocate(absl::Span<const StageId> held, RankAllocator* allocator) {
  Device* const device = allocator->device();
  for (size_t s = 0; s < programs_.size(); ++s) {
    const int64_t tallies = plan_.microbatches * plan_.chunks *
                            TallyBytes(StageId(static_cast<int32_t>(s))) / sizeof(float);
    SL_RETURN_IF_ERROR(AllocateOnHost(tallies, device, &tallies_[s].host));
  }
  for (const StageId stage : held) SL_RETURN_IF_ERROR(AllocateStage(stage, allocator));
  SL_RETURN_IF_ERROR(AllocateOnHost(plan_.microbatches * plan_.chunks, device, &losses_));
  const auto packed = std::find_if(held.begin(), held.end(),
                                   [this](StageId stage) { return PositionBytes(stage) > 0; });
  if (packed != held.end()) {
    const int64_t each = programs_[packed->value].positions->elements();
    SL_RETURN_IF_ERROR(
        AllocateOnHost(plan_.microbatches * plan_.chunks * each, device, &positions_));
  }
  const bool reads_data = std::any_of(held.begin(), held.end(), [this](StageId stage) {
    return programs_[stage.value].first || programs_[stage.value].last;
  });
  if (!reads_data) return absl::OkStatus();
  const int64_t microbatches = plan_.microbatches * plan_.chunks;
  SL_RETURN_IF_ERROR(
      AllocateOnHost(microbatches * programs_.front().input.elements(), device, &tokens_));
  return AllocateOnHost(microbatches * programs_.back().target.elements(), device, &targets_);
}

absl::Status StepData::AllocateStage(StageId stage, RankAllocator* allocator) {
  const RankId rank = plan_.stage(stage).rank;
  SL_ASSIGN_OR_RETURN(tallies_[stage.value].device,
                      allocator->Take(rank, plan_.microbatches * plan_.chunks * TallyBytes(stage)));
  const DataBytes data = DataOf(stage);
  if (data.positions > 0) {
    SL_ASSIGN_OR_RETURN(positions_on_device_[stage.value], allocator->Take(rank, data.positions));
  }
  const int32_t first = FirstOf(stage);
  const auto allocate = [&](int64_t bytes, char* OnDevice::*place) -> absl::Status {
    if (bytes == 0) return absl::OkStatus();
    SL_ASSIGN_OR_RETURN(char* const memory, allocator->Take(rank, bytes));
    const int32_t count = plan_.microbatches_of(stage);
    for (int32_t m = 0; m < count; ++m) {
      on_device_[first + m].*place = memory + bytes / count * m;
    }
    return absl::OkStatus();
  };
  SL_RETURN_IF_ERROR(allocate(data.tokens, &OnDevice::tokens));
  SL_RETURN_IF_ERROR(allocate(data.targets, &OnDevice::targets));
  return allocate(data.losses, &OnDevice::loss);
}

int32_t StepData::FirstOf(StageId stage) const {
  return plan_.pipes.empty() ? 0 : plan_.pipes[plan_.stage(stage).pipe].first_microbatch;
}

int32_t StepData::IndexOf(const Action& action) const {
  return FirstOf(action.stage) + action.microbatch.value;
}

std::vector<HostCopy> StepData::CopiesBefore(const Action& action) {
  std::vector<HostCopy> copies;
  if (action.kind != ActionKind::kForward) return copies;
  const StageProgram& program = programs_[action.stage.value];
  const int32_t data = IndexOf(action);
  const int slice = plan_.SliceOf(action);
  const MicrobatchId whole(data - slice);
  // A chunk has some sequences of the microbatch, and a slice some positions of each sequence.
  const auto copy = [&](char* to, int64_t chunk_bytes, absl::Span<const int32_t> from,
                        const Type& piece) {
    const bool sliced = plan_.slices > 1;
    const int64_t runs = sliced ? piece.shape[0] : plan_.chunks;
    const int64_t count = sliced ? piece.shape[1] : piece.elements();
    const int64_t bytes = count * static_cast<int64_t>(sizeof(int32_t));
    const int32_t* next = from.data() + slice * count;
    for (int64_t run = 0; run < runs; ++run, next += plan_.slices * count) {
      copies.push_back({to + run * (sliced ? bytes : chunk_bytes), next, bytes});
    }
  };
  if (program.first) copy(on_device_[data].tokens, token_bytes_, tokens(whole), program.input);
  if (program.last) copy(on_device_[data].targets, target_bytes_, targets(whole), program.target);
  if (program.positions) {
    copy(PositionsOf(action), PositionBytes(action.stage), positions(whole), *program.positions);
  }
  return copies;
}

std::vector<HostCopy> StepData::CopiesAfter(const Action& action) {
  std::vector<HostCopy> copies;
  if (action.kind != ActionKind::kForward) return copies;
  const int32_t data = IndexOf(action);
  if (programs_[action.stage.value].last) {
    for (int chunk = 0; chunk < plan_.chunks; ++chunk) {
      copies.push_back({&losses_[data * plan_.chunks + chunk],
                        on_device_[data].loss + chunk * kBufferAlignment, sizeof(float)});
    }
  }
  if (const int64_t bytes = plan_.chunks * TallyBytes(action.stage); bytes > 0) {
    const Tallies& tallies = tallies_[action.stage.value];
    copies.push_back(
        {tallies.host.data() + data * bytes / sizeof(float), tallies.device + data * bytes, bytes});
  }
  return copies;
}

void StepData::Bind(const Action& action, int chunk, Regions* regions) const {
  const auto set = [&](Region region, char* address) {
    (*regions)[static_cast<int>(region)] = address;
  };
  const int32_t data = IndexOf(action);
  set(Region::kTallies, tallies_[action.stage.value].device +
                            (data * plan_.chunks + chunk) * TallyBytes(action.stage));
  if (programs_[action.stage.value].first) {
    set(Region::kInput, on_device_[data].tokens + chunk * token_bytes_);
  }
  if (programs_[action.stage.value].last) {
    set(Region::kTarget, on_device_[data].targets + chunk * target_bytes_);
    set(Region::kLoss, on_device_[data].loss + chunk * kBufferAlignment);
  }
  if (programs_[action.stage.value].positions) {
    set(Region::kPositions, PositionsOf(action) + chunk * PositionBytes(action.stage));
  }
}

double StepData::loss(MicrobatchId microbatch) const {
  double sum = 0;
  for (int chunk = 0; chunk < plan_.chunks; ++chunk) {
    sum += losses_[microbatch.value * plan_.chunks + chunk];
  }
  return sum;
}

float StepData::TallyOf(StageId stage, MicrobatchId microbatch, int index) const {
  float sum = 0;
  for (int chunk = 0; chunk < plan_.chunks; ++chunk) {
    const int64_t at =
        (microbatch.value * plan_.chunks + chunk) * TallyBytes(stage) + index * kBufferAlignment;
    sum += tallies_[stage.value].host[at / static_cast<int64_t>(sizeof(float))];
  }
  return sum;
}

std::vector<absl::Span<float>> StepData::ResultsOf(StageId stage) {
  std::vector<absl::Span<float>> results;
  if (programs_[stage.value].last) {
    results.push_back(losses_.subspan(FirstOf(stage) * plan_.chunks,
                                      plan_.microbatches_of(stage) * plan_.chunks));
  }
  results.push_back(tallies_[stage.value].host);
  return results;
}

absl::Span<int32_t> StepData::tokens(MicrobatchId microbatch) {
  if (tokens_.empty()) return {};
  const int64_t count = plan_.chunks * programs_.front().input.elements();
  return tokens_.subspan(microbatch.value * count, count * plan_.slices);
}

absl::Span<int32_t> StepData::positions(MicrobatchId microbatch) {
  if (positions_.empty()) return {};
  const auto count = static_cast<int64_t>(positions_.size()) / plan_.microbatches;
  return positions_.subspan(microbatch.value * count, count);
}

absl::Span<int32_t> StepData::targets(MicrobatchId microbatch) {
  if (targets_.empty()) return {};
  const int64_t count = plan_.chunks * programs_.back().target.elements();
  return targets_.subspan(microbatch.value * count, count * plan_.slices);
}

}  // namespace stringline
