#include "stages/layers.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<std::vector<int>> SplitEven(int layers, int stages) {
  if (stages < 1) return absl::InvalidArgumentError(absl::StrCat(stages, " stages"));
  if (layers < stages) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot split ", layers, " layers into ", stages, " stages"));
  }
  std::vector<int> result;
  for (int s = 0; s < stages; ++s)
    result.push_back(layers / stages + (s < layers % stages ? 1 : 0));
  return result;
}

absl::StatusOr<std::vector<int>> SplitBalanced(int layers, int stages, double first, double layer,
                                               double last) {
  SL_RETURN_IF_ERROR(SplitEven(layers, stages).status());
  // Give the layers out one by one, always to the stage that is then the least slow: with equal
  // layers that is optimal. The stages between the first and the last have one to begin with.
  std::vector<int> result(stages, 0);
  const auto load = [&](int s, int count) {
    return count * layer + (s == 0 ? first : 0) + (s == stages - 1 ? last : 0);
  };
  int left = layers;
  for (int s = 1; s + 1 < stages; ++s, --left) result[s] = 1;
  for (; left > 0; --left) {
    int best = 0;
    for (int s = 1; s < stages; ++s) {
      if (load(s, result[s] + 1) < load(best, result[best] + 1)) best = s;
    }
    ++result[best];
  }
  return result;
}

absl::Status CheckLayers(int layers, const std::vector<int>& layers_per_stage) {
  const std::string list = absl::StrCat("split [", absl::StrJoin(layers_per_stage, ", "), "]");
  const int stages = static_cast<int>(layers_per_stage.size());
  if (stages == 0) return absl::InvalidArgumentError(absl::StrCat(list, " has no stage"));
  int64_t sum = 0;
  for (int s = 0; s < stages; ++s) {
    sum += layers_per_stage[s];
    if (layers_per_stage[s] < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(list, ": stage ", s, " has ", layers_per_stage[s], " layers"));
    }
    if (layers_per_stage[s] == 0 && s > 0 && s < stages - 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(list, ": stage ", s, " has no layer, only the first and last may"));
    }
  }
  if (sum != layers) {
    return absl::InvalidArgumentError(
        absl::StrCat(list, " has ", sum, " layers, the model has ", layers));
  }
  return absl::OkStatus();
}

}  // namespace stringline
