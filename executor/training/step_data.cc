// Copies move what a forward reads to the device before it, and its results back behind it. A chunk
// has some sequences of its microbatch; a slice has some positions of each.
#include "executor/training/step_data.h"

#include <algorithm>

#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int64_t kMaskKeyWords = std::tuple_size_v<decltype(MaskKey().words())>;

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
      rows_(programs.back().target.shape[0]),
      sequence_(SequenceOf(programs)),
      target_bytes_(AlignUp(programs.back().target.bytes())),
      on_device_(plan.microbatches),
      tallies_(programs.size()),
      tokens_on_device_(programs.size(), nullptr),
      positions_on_device_(programs.size(), nullptr),
      mask_keys_on_device_(programs.size(), nullptr) {}

int64_t StepData::SequenceOf(absl::Span<const StageProgram> programs) {
  int64_t sequence = programs.back().target.shape[1] * programs.back().slice.of;
  for (const StageProgram& program : programs) {
    for (const Crossing& input : program.inputs) {
      if (!input.is_tokens()) continue;
      sequence = std::max(sequence, input.first + input.type.shape[1] * program.slice.of);
    }
  }
  return sequence;
}

int64_t StepData::TokenBytes(StageId stage) const {
  int64_t bytes = 0;
  for (const Crossing& input : programs_[stage.value].inputs) {
    if (input.is_tokens()) bytes += AlignUp(input.type.bytes());
  }
  return bytes;
}

StepData::DataBytes StepData::DataOf(StageId stage) const {
  const StageProgram& program = programs_[stage.value];
  const int64_t count = plan_.microbatches_of(stage) * plan_.chunks;
  DataBytes data;
  data.tokens = count * TokenBytes(stage);
  if (program.last) data = {data.tokens, count * target_bytes_, count * kBufferAlignment};
  data.positions = count * PositionBytes(stage);
  data.mask_keys = count * MaskKeyBytes(stage);
  return data;
}

int64_t StepData::BytesOf(StageId stage) const {
  const DataBytes data = DataOf(stage);
  return plan_.microbatches * plan_.chunks * TallyBytes(stage) + data.tokens + data.targets +
         data.losses + data.positions + data.mask_keys;
}

absl::Status StepData::Allocate(absl::Span<const StageId> held, RankAllocator* allocator) {
  Device* const device = allocator->device();
  bool has_losses = false;
  for (const StageId stage : held) {
    const int64_t tallies = plan_.microbatches * plan_.chunks * TallyBytes(stage) / sizeof(float);
    SL_RETURN_IF_ERROR(AllocateOnHost(tallies, device, &tallies_[stage.value].host));
    SL_RETURN_IF_ERROR(AllocateStage(stage, allocator));
    has_losses = has_losses || programs_[stage.value].last;
  }
  if (has_losses) {
    SL_RETURN_IF_ERROR(AllocateOnHost(plan_.microbatches * plan_.chunks, device, &losses_));
  }
  const auto packed = std::find_if(held.begin(), held.end(),
                                   [this](StageId stage) { return PositionBytes(stage) > 0; });
  if (packed != held.end()) {
    const int64_t each = programs_[packed->value].positions->elements();
    SL_RETURN_IF_ERROR(
        AllocateOnHost(plan_.microbatches * plan_.chunks * each, device, &positions_));
  }
  const bool drops = std::any_of(held.begin(), held.end(),
                                 [this](StageId stage) { return MaskKeyBytes(stage) > 0; });
  if (drops) {
    SL_RETURN_IF_ERROR(
        AllocateOnHost(plan_.microbatches * plan_.chunks * kMaskKeyWords, device, &mask_keys_));
  }
  const bool reads_data = std::any_of(held.begin(), held.end(), [this](StageId stage) {
    return TokenBytes(stage) > 0 || programs_[stage.value].last;
  });
  if (!reads_data) return absl::OkStatus();
  const int64_t tokens = plan_.microbatches / plan_.slices * TokensOfMicrobatch();
  SL_RETURN_IF_ERROR(AllocateOnHost(tokens, device, &tokens_));
  return AllocateOnHost(tokens, device, &targets_);
}

absl::Status StepData::AllocateStage(StageId stage, RankAllocator* allocator) {
  const RankId rank = plan_.stage(stage).rank;
  SL_ASSIGN_OR_RETURN(tallies_[stage.value].device,
                      allocator->Take(rank, plan_.microbatches * plan_.chunks * TallyBytes(stage)));
  const DataBytes data = DataOf(stage);
  if (data.tokens > 0) {
    SL_ASSIGN_OR_RETURN(tokens_on_device_[stage.value], allocator->Take(rank, data.tokens));
  }
  if (data.positions > 0) {
    SL_ASSIGN_OR_RETURN(positions_on_device_[stage.value], allocator->Take(rank, data.positions));
  }
  if (data.mask_keys > 0) {
    SL_ASSIGN_OR_RETURN(mask_keys_on_device_[stage.value], allocator->Take(rank, data.mask_keys));
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
  // A chunk has some sequences of the microbatch, and a slice some tokens of each sequence, those
  // from `first` on cut into slices.
  const auto copy = [&](char* to, int64_t chunk_bytes, absl::Span<const int32_t> from,
                        const Type& piece, int64_t first) {
    const bool all = piece.shape[1] == sequence_;
    const int64_t count = all ? piece.elements() : piece.shape[1];
    const int64_t apart = all ? count : sequence_, runs = all ? 1 : piece.shape[0];
    const int64_t bytes = count * static_cast<int64_t>(sizeof(int32_t));
    const int32_t* next = from.data() + first + (all ? 0 : slice * count);
    for (int chunk = 0; chunk < plan_.chunks; ++chunk) {
      for (int64_t run = 0; run < runs; ++run, next += apart) {
        copies.push_back({to + chunk * chunk_bytes + run * bytes, next, bytes});
      }
    }
  };
  int64_t offset = 0;
  for (const Crossing& input : program.inputs) {
    if (!input.is_tokens()) continue;
    copy(TokensOf(action) + offset, TokenBytes(action.stage), tokens(whole), input.type,
         input.first);
    offset += AlignUp(input.type.bytes());
  }
  if (program.last) {
    copy(on_device_[data].targets, target_bytes_, targets(whole), program.target,
         program.first_target);
  }
  if (program.positions) {
    copy(PositionsOf(action), PositionBytes(action.stage), positions(whole), *program.positions, 0);
  }
  if (program.mask_key) {
    for (int chunk = 0; chunk < plan_.chunks; ++chunk) {
      const int64_t place = (whole.value * plan_.chunks + chunk) * kMaskKeyWords;
      copies.push_back({MaskKeyOf(action) + chunk * MaskKeyBytes(action.stage), &mask_keys_[place],
                        program.mask_key->bytes()});
    }
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
  if (const int64_t bytes = TokenBytes(action.stage); bytes > 0) {
    set(Region::kTokens, TokensOf(action) + chunk * bytes);
  }
  if (programs_[action.stage.value].last) {
    set(Region::kTarget, on_device_[data].targets + chunk * target_bytes_);
    set(Region::kLoss, on_device_[data].loss + chunk * kBufferAlignment);
  }
  if (programs_[action.stage.value].positions) {
    set(Region::kPositions, PositionsOf(action) + chunk * PositionBytes(action.stage));
  }
  if (programs_[action.stage.value].mask_key) {
    set(Region::kMaskKey, MaskKeyOf(action) + chunk * MaskKeyBytes(action.stage));
  }
}

void StepData::SetMaskKey(MicrobatchId microbatch, MaskKey key) {
  if (mask_keys_.empty()) return;
  for (int chunk = 0; chunk < plan_.chunks; ++chunk, key.first_sample += rows_) {
    const int64_t place = (microbatch.value * plan_.chunks + chunk) * kMaskKeyWords;
    const auto words = key.words();
    std::copy(words.begin(), words.end(), mask_keys_.begin() + place);
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

absl::Span<int32_t> StepData::OfMicrobatch(absl::Span<int32_t> all, MicrobatchId first) const {
  if (all.empty()) return {};
  const int64_t count = TokensOfMicrobatch();
  return all.subspan(first.value / plan_.slices * count, count);
}

absl::Span<int32_t> StepData::positions(MicrobatchId microbatch) {
  if (positions_.empty()) return {};
  const auto count = static_cast<int64_t>(positions_.size()) / plan_.microbatches;
  return positions_.subspan(microbatch.value * count, count);
}

}  // namespace stringline
