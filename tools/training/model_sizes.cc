#include "tools/training/model_sizes.h"

#include "executor/run/build_stages.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<ModelSizes> SizesOfModel(const std::string& run_file, const Plan& plan) {
  SL_ASSIGN_OR_RETURN(const RunConfig config, ReadRunConfig(run_file));
  SL_ASSIGN_OR_RETURN(const std::vector<StageProgram> programs, BuildStages(config, plan));
  return ModelSizes{SizesOf(plan, programs, SharingOf(config)), CollectivesOf(config)};
}

}  // namespace stringline
