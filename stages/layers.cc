#include "stages/layers.h"

#include <algorithm>
#include <limits>

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
  // Gives the layers out one by one, always to the stage with the least resulting load: optimal for
  // equal layers. The stages between the first and the last begin with a layer each.
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

absl::StatusOr<std::vector<int>> SplitBalanced(const std::vector<double>& layers, int stages,
                                               double first, double last) {
  const int count = static_cast<int>(layers.size());
  SL_RETURN_IF_ERROR(SplitEven(count, stages).status());
  std::vector<double> sums(count + 1, 0);
  for (int i = 0; i < count; ++i) sums[i + 1] = sums[i] + layers[i];
  const double never = std::numeric_limits<double>::infinity();
  // slowest[s][n]: of the first s + 1 stages with the first n layers; taken: the layers of stage s.
  std::vector<std::vector<double>> slowest(stages, std::vector<double>(count + 1, never));
  std::vector<std::vector<int>> taken(stages, std::vector<int>(count + 1, 0));
  for (int s = 0; s < stages; ++s) {
    const int least = s > 0 && s + 1 < stages ? 1 : 0;
    const double more = (s == 0 ? first : 0) + (s + 1 == stages ? last : 0);
    for (int n = 0; n <= count; ++n) {
      for (int own = s == 0 ? n : least; own <= n; ++own) {
        const double before = s == 0 ? 0 : slowest[s - 1][n - own];
        const double load = std::max(before, sums[n] - sums[n - own] + more);
        if (load >= slowest[s][n]) continue;
        slowest[s][n] = load;
        taken[s][n] = own;
      }
    }
  }
  std::vector<int> result(stages, 0);
  for (int s = stages - 1, left = count; s >= 0; --s) {
    result[s] = taken[s][left];
    left -= result[s];
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
