// There is no executor in the package that could say what a run holds.
#include "absl/strings/str_cat.h"
#include "tools/model_sizes.h"

namespace stringline {

absl::StatusOr<ModelSizes> SizesOfModel(const std::string& run_file, const Plan&) {
  return absl::UnimplementedError(
      absl::StrCat(run_file,
                   ": the bytes of a run file are counted by 'stringline check --model'; "
                   "in Python give costs with a model's shape or with memory.* keys"));
}

}  // namespace stringline
