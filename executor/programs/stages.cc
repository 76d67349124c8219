// Place reckons with types alone: layouts, sizes, a memory plan. Allocate then takes a few blocks
// for each rank, and every address is an offset in one of them. What people fill in and read lies
// in host memory; copies around each F move it.
#include "executor/programs/stages.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/effects.h"

namespace stringline {
namespace {

absl::Status CheckFit(const Plan& plan, absl::Span<const StageProgram> programs) {
  if (plan.stages.size() != programs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has ", plan.stages.size(), " stages, the model ", programs.size()));
  }
  for (size_t s = 0; s < programs.size(); ++s) {
    if (programs[s].first != !plan.stages[s].previous.valid() ||
        programs[s].last != !plan.stages[s].next.valid()) {
      return absl::InvalidArgumentError(
          absl::StrCat("stage ", s, " of the model does not stand where the plan has it"));
    }
  }
  return absl::OkStatus();
}

// Those of parameters to which another is tied.
std::set<absl::string_view> TiedNames(absl::Span<const StageProgram> programs) {
  std::set<absl::string_view> names;
  for (const StageProgram& program : programs) {
    for (const Param& param : program.params) names.insert(param.tied_to);
  }
  return names;
}

template <typename Number>
absl::Status AllocateOnHost(int64_t count, Device* device, absl::Span<Number>* numbers) {
  if (count == 0) return absl::OkStatus();
  SL_ASSIGN_OR_RETURN(void* memory,
                      device->AllocateHost(count * static_cast<int64_t>(sizeof(Number))));
  *numbers = {static_cast<Number*>(memory), static_cast<size_t>(count)};
  return absl::OkStatus();
}

}  // namespace

Stages::Stages(const Plan& lowered, absl::Span<const StageProgram> programs, Kernels* kernels,
               const StateSharing& sharing)
    : plan_(lowered),
      programs_(programs),
      kernels_(kernels),
      sharing_(sharing),
      token_bytes_(AlignUp(programs.front().input.bytes())),
      target_bytes_(AlignUp(programs.back().target.bytes())),
      allocated_(lowered.ranks(), 0),
      device_tokens_(lowered.microbatches, nullptr),
      device_targets_(lowered.microbatches, nullptr),
      device_losses_(lowered.microbatches, nullptr) {
  const std::set<absl::string_view> tied = TiedNames(programs);
  for (const StageProgram& program : programs) {
    std::vector<bool> alone;
    for (const Param& param : program.params) {
      alone.push_back(!param.tied_to.empty() || tied.count(param.name) > 0);
    }
    Stage& stage = stages_.emplace_back(program, alone, sharing);
    stage.programs.emplace_back(program.forward, program.forward_parts, stage.layout, kernels);
    stage.programs.emplace_back(program.backward, absl::Span<const GraphPart>(), stage.layout,
                                kernels);
    stage.programs.emplace_back(program.input_gradient, program.input_gradient_parts, stage.layout,
                                kernels);
    stage.programs.emplace_back(program.weight_gradient, program.weight_gradient_parts,
                                stage.layout, kernels);
  }
}

std::vector<StageSizes> Stages::SizesOf(const Plan& plan, absl::Span<const StageProgram> programs,
                                        Kernels* kernels, const StateSharing& sharing) {
  return Stages(plan, programs, kernels, sharing).Sizes();
}

std::vector<StageSizes> Stages::Sizes() const {
  std::vector<StageSizes> sizes;
  for (size_t s = 0; s < stages_.size(); ++s) {
    const StageId id(static_cast<int32_t>(s));
    const StageLayout& layout = stages_[s].layout;
    StageSizes& size = sizes.emplace_back();
    size.of_microbatch = layout.bytes;
    size.in_parts = layout.layers > 0;
    for (int program = 0; program < kPrograms; ++program) {
      const bool runs = !size.in_parts || program != static_cast<int>(ActionKind::kBackward);
      size.temporaries[program] = runs ? stages_[s].programs[program].arena_bytes() : 0;
    }
    const DataBytes data = DataOfStage(id);
    size.resident = state(id).all() + plan_.microbatches * TallyBytes(id) + data.tokens +
                    data.targets + data.losses;
    if (gathers()) size.gathered = layout.working_bytes;
  }
  return sizes;
}

absl::StatusOr<std::unique_ptr<Stages>> Stages::Place(const Plan& lowered,
                                                      absl::Span<const StageProgram> programs,
                                                      Kernels* kernels,
                                                      const StateSharing& sharing) {
  SL_RETURN_IF_ERROR(CheckFit(lowered, programs));
  std::unique_ptr<Stages> stages(new Stages(lowered, programs, kernels, sharing));
  for (const Stage& stage : stages->stages_) {
    for (const ReadyGraph& program : stage.programs) SL_RETURN_IF_ERROR(program.status());
  }
  if (stages->gathers()) SL_RETURN_IF_ERROR(stages->CheckGathered());
  SL_ASSIGN_OR_RETURN(stages->memory_, PlanMemory(lowered, stages->Sizes()));
  return stages;
}

NeededMemory Stages::needed(absl::Span<const RankId> ranks) const {
  NeededMemory needed;
  double tallies = 0;
  for (size_t s = 0; s < stages_.size(); ++s) {
    if (!Holds(ranks, StageId(static_cast<int32_t>(s)))) continue;
    needed.params += static_cast<double>(state(StageId(static_cast<int32_t>(s))).all());
    tallies += static_cast<double>(TallyBytes(StageId(static_cast<int32_t>(s))));
  }
  for (const RankId rank : ranks) {
    needed.activations += static_cast<double>(memory_.ranks[rank.value].all());
  }
  needed.activations -= needed.params;
  // What of it is in host memory too.
  const int64_t data = programs_.front().input.bytes() + programs_.back().target.bytes();
  needed.activations += plan_.microbatches * (static_cast<double>(data) + tallies);
  return needed;
}

std::vector<RankBytes> Stages::rank_bytes() const {
  std::vector<RankBytes> ranks;
  for (int r = 0; r < plan_.ranks(); ++r) {
    ranks.push_back({memory_.ranks[r].all(), allocated_[r]});
  }
  return ranks;
}

absl::StatusOr<void*> Stages::Take(RankId rank, int64_t bytes, Device* device) {
  device->MakeFor(seat_.coordinate * plan_.ranks() + rank.value);
  SL_ASSIGN_OR_RETURN(void* memory, device->Allocate(bytes));
  allocated_[rank.value] += bytes;
  return memory;
}

Stages::DataBytes Stages::DataOfStage(StageId stage) const {
  const StageProgram& program = programs_[stage.value];
  const int64_t count = plan_.microbatches_of(stage);
  DataBytes data;
  if (program.first) data.tokens = count * token_bytes_;
  if (program.last) data = {data.tokens, count * target_bytes_, count * kBufferAlignment};
  return data;
}

absl::Status Stages::AllocateData(StageId stage, Device* device) {
  const DataBytes data = DataOfStage(stage);
  const int32_t first = DataOf({ActionKind::kForward, false, stage, MicrobatchId(0)});
  const auto allocate = [&](int64_t bytes, std::vector<char*>* places) -> absl::Status {
    if (bytes == 0) return absl::OkStatus();
    SL_ASSIGN_OR_RETURN(void* memory, Take(plan_.stage(stage).rank, bytes, device));
    const int32_t count = plan_.microbatches_of(stage);
    for (int32_t m = 0; m < count; ++m) {
      (*places)[first + m] = static_cast<char*>(memory) + bytes / count * m;
    }
    return absl::OkStatus();
  };
  SL_RETURN_IF_ERROR(allocate(data.tokens, &device_tokens_));
  SL_RETURN_IF_ERROR(allocate(data.targets, &device_targets_));
  return allocate(data.losses, &device_losses_);
}

bool Stages::Holds(absl::Span<const RankId> ranks, StageId stage) const {
  return std::find(ranks.begin(), ranks.end(), plan_.stage(stage).rank) != ranks.end();
}

absl::Status Stages::Allocate(uint64_t seed, int expert_rank, absl::Span<const RankId> ranks,
                              Device* device) {
  const auto allocate = [&](RankId rank, int64_t bytes, char** place) -> absl::Status {
    SL_ASSIGN_OR_RETURN(void* memory, Take(rank, bytes, device));
    *place = static_cast<char*>(memory);
    return absl::OkStatus();
  };
  bool reads_data = false;
  for (size_t s = 0; s < stages_.size(); ++s) {
    Stage& stage = stages_[s];
    const StageId id(static_cast<int32_t>(s));
    const RankId rank = plan_.stages[s].rank;
    const int64_t tallies = plan_.microbatches * TallyBytes(id);
    SL_RETURN_IF_ERROR(AllocateOnHost(tallies / sizeof(float), device, &stage.host_tallies));
    if (!Holds(ranks, id)) continue;
    reads_data = reads_data || programs_[s].first || programs_[s].last;
    const StateBytes bytes = state(id);
    SL_RETURN_IF_ERROR(allocate(rank, bytes.params, &stage.params));
    SL_RETURN_IF_ERROR(allocate(rank, bytes.grads, &stage.grads));
    SL_RETURN_IF_ERROR(allocate(rank, bytes.working, &stage.working));
    SL_RETURN_IF_ERROR(WriteFirstValues(id, seed, expert_rank, device));
    SL_RETURN_IF_ERROR(allocate(rank, tallies, &stage.tallies));
    SL_RETURN_IF_ERROR(AllocateData(id, device));
  }
  blocks_.resize(plan_.ranks());
  gathered_.resize(plan_.ranks());
  arenas_.resize(plan_.ranks());
  for (const RankId rank : ranks) {
    const RankMemory& memory = memory_.ranks[rank.value];
    SL_RETURN_IF_ERROR(allocate(rank, memory.block, &blocks_[rank.value]));
    SL_RETURN_IF_ERROR(allocate(rank, memory.gathered, &gathered_[rank.value]));
    for (int arena = 0; arena < kArenas; ++arena) {
      SL_RETURN_IF_ERROR(allocate(rank, memory.arenas[arena], &arenas_[rank.value][arena]));
    }
  }
  SL_RETURN_IF_ERROR(AllocateOnHost(plan_.microbatches, device, &losses_));
  if (!reads_data) return absl::OkStatus();
  const int64_t microbatches = plan_.microbatches;
  SL_RETURN_IF_ERROR(
      AllocateOnHost(microbatches * programs_.front().input.elements(), device, &tokens_));
  return AllocateOnHost(microbatches * programs_.back().target.elements(), device, &targets_);
}

char* Stages::AddressOf(StageId stage, MicrobatchId microbatch, StageValue value) const {
  const int64_t offset = memory_.OffsetOf(stage, microbatch, value);
  return offset < 0 ? nullptr : blocks_[plan_.stage(stage).rank.value] + offset;
}

int32_t Stages::DataOf(const Action& action) const {
  const int32_t before =
      plan_.pipes.empty() ? 0 : plan_.pipes[plan_.stage(action.stage).pipe].first_microbatch;
  return before + action.microbatch.value;
}

std::vector<HostCopy> Stages::CopiesBefore(const Action& action) {
  std::vector<HostCopy> copies;
  if (action.kind != ActionKind::kForward) return copies;
  const StageProgram& program = programs_[action.stage.value];
  const int32_t data = DataOf(action);
  const auto copy = [&](char* to, absl::Span<const int32_t> from) {
    copies.push_back({to, from.data(), static_cast<int64_t>(from.size() * sizeof(int32_t))});
  };
  if (program.first) copy(device_tokens_[data], tokens(MicrobatchId(data)));
  if (program.last) copy(device_targets_[data], targets(MicrobatchId(data)));
  return copies;
}

std::vector<HostCopy> Stages::CopiesAfter(const Action& action) {
  std::vector<HostCopy> copies;
  if (action.kind != ActionKind::kForward) return copies;
  const int32_t data = DataOf(action);
  if (programs_[action.stage.value].last) {
    copies.push_back({&losses_[data], device_losses_[data], sizeof(float)});
  }
  if (const int64_t bytes = TallyBytes(action.stage); bytes > 0) {
    Stage& stage = stages_[action.stage.value];
    copies.push_back({stage.host_tallies.data() + data * bytes / sizeof(float),
                      stage.tallies + data * bytes, bytes});
  }
  return copies;
}

float Stages::TallyOf(StageId stage, MicrobatchId microbatch, int index) const {
  const int64_t at = microbatch.value * TallyBytes(stage) + index * kBufferAlignment;
  return stages_[stage.value].host_tallies[at / static_cast<int64_t>(sizeof(float))];
}

Bytes Stages::Payload(const Action& action) const {
  const StageValue value = MessageOf(action.kind);
  return {AddressOf(action.stage, action.microbatch, value),
          stages_[action.stage.value].layout.bytes[value]};
}

std::vector<absl::Span<float>> Stages::Given(StageId stage) {
  std::vector<absl::Span<float>> given;
  if (programs_[stage.value].last) {
    const int32_t first = DataOf({ActionKind::kForward, false, stage, MicrobatchId(0)});
    given.push_back(losses_.subspan(first, plan_.microbatches_of(stage)));
  }
  given.push_back(stages_[stage.value].host_tallies);
  return given;
}

absl::Span<int32_t> Stages::tokens(MicrobatchId microbatch) {
  if (tokens_.empty()) return {};
  const int64_t count = programs_.front().input.elements();
  return tokens_.subspan(microbatch.value * count, count);
}

absl::Span<int32_t> Stages::targets(MicrobatchId microbatch) {
  if (targets_.empty()) return {};
  const int64_t count = programs_.back().target.elements();
  return targets_.subspan(microbatch.value * count, count);
}

}  // namespace stringline
