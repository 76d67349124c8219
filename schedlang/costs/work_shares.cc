#include "schedlang/costs/work_shares.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

constexpr const char* kNames[] = {"stage", "rank", "model"};

// The stage's place among those of its pipe.
size_t PlaceInPipe(const Plan& plan, StageId stage) {
  const int first = plan.pipes.empty() ? 0 : plan.pipes[plan.stage(stage).pipe].first_stage.value;
  return static_cast<size_t>(stage.value - first);
}

// The stage's layers, or 1 where all have as many.
double LayersOf(const Plan& plan, StageId stage) {
  return static_cast<double>(LayersBySplit(plan, stage).value_or(1));
}

}  // namespace

const char* NameOf(WorkScope work) { return kNames[static_cast<int>(work)]; }

std::optional<WorkScope> ReadWorkScope(absl::string_view name) {
  for (const WorkScope work : {WorkScope::kStage, WorkScope::kRank, WorkScope::kModel}) {
    if (name == NameOf(work)) return work;
  }
  return std::nullopt;
}

std::vector<double> WorkShares(const Plan& plan, WorkScope work) {
  std::vector<double> shares(plan.stages.size(), 1);
  if (work == WorkScope::kStage) return shares;
  // Stages that share a cost have the same pipe and, for kRank, the same rank.
  std::map<std::pair<int, int>, double> sums;
  const auto key = [&](StageId id) {
    const Stage& stage = plan.stage(id);
    return std::pair<int, int>(stage.pipe, work == WorkScope::kRank ? stage.rank.value : 0);
  };
  for (int s = 0; s < static_cast<int>(shares.size()); ++s) {
    sums[key(StageId(s))] += LayersOf(plan, StageId(s));
  }
  for (int s = 0; s < static_cast<int>(shares.size()); ++s) {
    const double sum = sums[key(StageId(s))];
    shares[s] = sum == 0 ? 0 : LayersOf(plan, StageId(s)) / sum;
  }
  return shares;
}

int StagesOfModel(const Plan& plan) {
  return plan.pipes.empty() ? static_cast<int>(plan.stages.size()) : plan.pipes[0].stages;
}

absl::StatusOr<std::vector<int64_t>> ListOfStages(const Plan& plan, absl::string_view key,
                                                  const std::vector<int64_t>& values) {
  const size_t stages = plan.stages.size();
  if (values.size() == 1) return std::vector<int64_t>(stages, values[0]);
  if (values.size() == stages) return values;
  if (values.size() == static_cast<size_t>(StagesOfModel(plan))) {
    std::vector<int64_t> all;
    for (size_t s = 0; s < stages; ++s) {
      all.push_back(values[PlaceInPipe(plan, StageId(static_cast<int32_t>(s)))]);
    }
    return all;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      key, ": ", values.size(), " values for ", stages, " stages (give one for all, or one a stage",
      plan.pipes.empty() ? ")" : " of a pipe, or of all)"));
}

std::optional<int64_t> LayersBySplit(const Plan& plan, StageId stage) {
  const size_t index = PlaceInPipe(plan, stage);
  const Split& split = plan.split;
  if (split.kind == Split::Kind::kLayers && index < split.layers.size()) return split.layers[index];
  if (split.kind == Split::Kind::kLayout && index < split.layout.size()) {
    return std::count(split.layout[index].begin(), split.layout[index].end(), 't');
  }
  return std::nullopt;
}

int64_t LayersOfStage(const Plan& plan, StageId stage, int64_t layers) {
  if (const auto said = LayersBySplit(plan, stage)) return *said;
  const int64_t count = StagesOfModel(plan);
  const auto index = static_cast<int64_t>(PlaceInPipe(plan, stage));
  return layers / count + (index < layers % count ? 1 : 0);
}

}  // namespace stringline
