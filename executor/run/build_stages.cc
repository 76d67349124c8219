#include "executor/run/build_stages.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "executor/cpu/backend.h"
#include "executor/engine/available_memory.h"
#include "executor/training/least_memory.h"
#include "executor/training/stages.h"
#include "schedlang/base/status.h"
#include "stages/layers.h"
#include "stages/models/model.h"

namespace stringline {
namespace {

// Layers per stage of a layout string; the embedding stands in the first stage, the loss in the
// last.
absl::StatusOr<std::vector<int>> LayersOfLayout(const std::vector<std::string>& layout) {
  std::vector<int> layers;
  for (size_t s = 0; s < layout.size(); ++s) {
    const std::string& stage = layout[s];
    if (stage.find('m') != std::string::npos) {
      return absl::UnimplementedError(
          absl::StrCat("stage ", s,
                       " of the layout has a multi-token prediction layer, 'm', which "
                       "this model does not have"));
    }
    const bool embeds = stage.find('E') != std::string::npos;
    const bool loses = stage.find('L') != std::string::npos;
    if (embeds != (s == 0) || loses != (s + 1 == layout.size())) {
      return absl::UnimplementedError(
          absl::StrCat("stage ", s, " of the layout, '", stage,
                       "': this model has its embedding in the first stage and its loss in the "
                       "last"));
    }
    layers.push_back(static_cast<int>(std::count(stage.begin(), stage.end(), 't')));
  }
  return layers;
}

// Sums of bytes stay far within 64 bits, and the graphs within this machine; the model itself may
// be for another.
absl::Status CheckCountable(const RunConfig& config, int pipes) {
  SL_ASSIGN_OR_RETURN(NeededMemory needed,
                      LeastMemory(config.shape, pipes, config.mesh, SharingOf(config)));
  SL_RETURN_IF_ERROR(CheckMemory(needed, {.bytes = int64_t{1} << 56}));
  needed.params = needed.activations = 0;
  return CheckMemory(needed, FindAvailableMemory());
}

// The recomputation of the stages of a pipe.
absl::StatusOr<RecomputePolicy> RecomputeOf(const RunConfig& config, const Plan& plan, size_t first,
                                            size_t stages) {
  RecomputePolicy policy = config.recompute;
  if (policy.by_stage.empty()) policy.by_stage.assign(stages, policy.what);
  for (size_t s = 0; s < std::min(stages, policy.by_stage.size()); ++s) {
    const bool remakes = plan.stages[first + s].remakes;
    policy.remakes.push_back(remakes);
    Recompute& what = policy.by_stage[s];
    const bool scheduled = !plan.recompute.empty() && plan.recompute[first + s] != 0;
    if (what == Recompute::kScheduled) what = scheduled ? Recompute::kAll : Recompute::kNone;
    const bool nothing = what == Recompute::kNone;
    if (!remakes || !(nothing || policy.for_weights)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "train.", nothing ? "recompute: none" : "recompute_weights",
        ": the schedule performs R of ", "stage ",
        PrintStage(plan.pipes, StageId(static_cast<int32_t>(first + s))),
        nothing ? ", which has then nothing to do; say 'all', 'attn' or 'experts', or leave it out"
                : ", which makes the values of W, too; leave it out"));
  }
  return policy;
}

// The edges over which values go, or none where every stage leads to the next one.
std::vector<StageEdge> EdgesOf(const Plan& plan) {
  std::vector<StageEdge> edges;
  const StageGraph& graph = plan.WholeGraph();
  if (graph.is_chain()) return edges;
  for (const Edge& edge : graph.edges()) edges.push_back({edge.from.value, edge.to.value});
  return edges;
}

absl::StatusOr<std::vector<StageProgram>> Build(const RunConfig& config, const Plan& plan) {
  SL_RETURN_IF_ERROR(CheckShape(config.shape));
  const size_t pipes = std::max<size_t>(1, plan.pipes.size());
  SL_ASSIGN_OR_RETURN(const std::vector<int> layers, LayersOfStages(config, plan));
  if (config.mesh_pipeline > 0 && config.mesh_pipeline != plan.ranks()) {
    return absl::InvalidArgumentError(absl::StrCat("mesh.pipeline is ", config.mesh_pipeline,
                                                   ", but the schedule has ", plan.ranks(),
                                                   " ranks"));
  }
  SL_RETURN_IF_ERROR(CheckCountable(config, static_cast<int>(pipes)));
  if (plan.forward_only) {
    return absl::InvalidArgumentError(
        "the schedule is forward only, and 'run' trains; evaluate.schedule of a run file may name "
        "it, and 'check', 'sim' and 'rehearse' know it");
  }
  const int sequences = config.shape.microbatch();
  if (sequences % plan.chunks != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the schedule cuts a microbatch into ", plan.chunks, " chunks, and data.microbatch", " is ",
        sequences, " sequences: make it a multiple of ", plan.chunks));
  }
  std::vector<StageProgram> programs;
  for (size_t p = 0; p < pipes; ++p) {
    SL_ASSIGN_OR_RETURN(RecomputePolicy recompute,
                        RecomputeOf(config, plan, p * layers.size(), layers.size()));
    SL_ASSIGN_OR_RETURN(
        std::vector<StageProgram> pipe,
        BuildModelStages(config.shape.WithMicrobatch(sequences / plan.chunks), layers,
                         {.expert_ranks = config.mesh.expert,
                          .recompute = std::move(recompute),
                          .slices = plan.slices,
                          .packed = IsPacked(config),
                          .edges = EdgesOf(plan)}));
    programs.insert(programs.end(), std::make_move_iterator(pipe.begin()),
                    std::make_move_iterator(pipe.end()));
  }
  return programs;
}

}  // namespace

absl::StatusOr<std::vector<int>> LayersOfStages(const RunConfig& config, const Plan& plan) {
  const size_t pipes = std::max<size_t>(1, plan.pipes.size());
  const int stages = static_cast<int>(plan.stages.size() / pipes);
  if (!config.layers_per_stage.empty()) {
    if (static_cast<int>(config.layers_per_stage.size()) == stages) return config.layers_per_stage;
    return absl::InvalidArgumentError(absl::StrCat("model.split names ",
                                                   config.layers_per_stage.size(),
                                                   " stages, but the schedule has ", stages));
  }
  switch (config.split_balanced ? Split::Kind::kBalanced : plan.split.kind) {
    case Split::Kind::kLayers:
      return plan.split.layers;
    case Split::Kind::kLayout:
      return LayersOfLayout(plan.split.layout);
    case Split::Kind::kBalanced: {
      if (const auto* const raised = std::get_if<RaisedShape>(&config.shape.family)) {
        const std::vector<double> each = WorkOfEach(*raised);
        return SplitBalanced({each.begin() + 1, each.end() - 1}, stages, each.front(), each.back());
      }
      const ModelWork work = WorkOf(config.shape);
      return SplitBalanced(config.shape.layers(), stages, work.embedding, work.layer, work.head);
    }
    default:
      return SplitEven(config.shape.layers(), stages);
  }
}

absl::StatusOr<std::vector<StageProgram>> BuildStages(const RunConfig& config, const Plan& plan) {
  absl::StatusOr<std::vector<StageProgram>> programs = Build(config, plan);
  if (programs.ok() || config.path.empty()) return programs;
  return absl::Status(programs.status().code(),
                      absl::StrCat(config.path, ": ", programs.status().message()));
}

std::vector<StageSizes> SizesOf(const Plan& plan, const std::vector<StageProgram>& programs,
                                const StateSharing& sharing) {
  return Stages::SizesOf(plan, programs, CpuKernels(), sharing);
}

}  // namespace stringline
