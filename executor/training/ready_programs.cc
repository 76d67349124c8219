#include "executor/training/ready_programs.h"

#include <algorithm>

#include "schedlang/plan/effects.h"

namespace stringline {

ReadyPrograms::ReadyPrograms(const Plan& plan, absl::Span<const StageProgram> programs,
                             bool gathers, Kernels* kernels)
    : plan_(plan), bytes_(static_cast<size_t>(plan.graph.entries())) {
  for (size_t s = 0; s < programs.size(); ++s) {
    for (int k = 0; k < programs[s].slice.of; ++k) {
      const StageProgram& program = programs[s].OfSlice(k);
      const StageLayout layout(program, gathers);
      for (int v = 0; v < kBuiltInValues; ++v) {
        const auto value = static_cast<StageValue>(v);
        bytes_[s][value] = std::max(bytes_[s][value], layout.bytes[value]);
      }
      TakeEdges(StageId(static_cast<int32_t>(s)), layout);
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

void ReadyPrograms::TakeEdges(StageId stage, const StageLayout& layout) {
  for (int w = 0; w == 0 || w < static_cast<int>(plan_.ways.size()); ++w) {
    const StageGraph& graph = plan_.ways.empty() ? plan_.graph : plan_.ways[w];
    for (const StageValue value : kMoving) {
      const absl::Span<const Edge> edges = LeadsHere(value) ? graph.In(stage) : graph.Out(stage);
      for (size_t e = 0; e < edges.size(); ++e) {
        int64_t& bytes = bytes_[EntryOf(plan_, edges[e], value).value][value];
        bytes = std::max(bytes, layout.EdgesOf(value)[e]);
      }
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
