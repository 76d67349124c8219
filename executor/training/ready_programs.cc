#include "executor/training/ready_programs.h"

#include <algorithm>

namespace stringline {

ReadyPrograms::ReadyPrograms(const Plan& plan, absl::Span<const StageProgram> programs,
                             bool gathers, Kernels* kernels)
    : plan_(plan), bytes_(programs.size()) {
  for (size_t s = 0; s < programs.size(); ++s) {
    for (int k = 0; k < programs[s].slice.of; ++k) {
      const StageProgram& program = programs[s].OfSlice(k);
      const StageLayout layout(program, gathers);
      for (int v = 0; v < kBuiltInValues; ++v) {
        const auto value = static_cast<StageValue>(v);
        bytes_[s][value] = std::max(bytes_[s][value], layout.bytes[value]);
      }
      const auto add = [&](const Graph& graph, absl::Span<const GraphPart> parts) {
        programs_.emplace_back(graph, parts, layout, kernels);
      };
      add(program.forward, program.forward_parts);
      add(program.backward, {});
      add(program.input_gradient, program.input_gradient_parts);
      add(program.weight_gradient, program.weight_gradient_parts);
      add(program.recompute, {});
    }
  }
}

absl::Status ReadyPrograms::status() const {
  for (const ReadyGraph& program : programs_) {
    if (!program.status().ok()) return program.status();
  }
  return absl::OkStatus();
}

int64_t ReadyPrograms::arena_bytes(StageId stage, ActionKind kind) const {
  int64_t most = 0;
  for (int k = 0; k < plan_.slices; ++k) {
    most = std::max(most, programs_[Index(stage, k, kind)].arena_bytes());
  }
  return most;
}

int64_t ReadyPrograms::most_launches(StageId stage) const {
  int64_t most = 0;
  for (const ReadyGraph& program : OfStage(stage)) most = std::max(most, program.most_launches());
  return most;
}

}  // namespace stringline
