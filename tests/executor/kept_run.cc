#include "tests/executor/kept_run.h"

#include "executor/training/trainer.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

// Calls visit(name, type, values, gradients) for every parameter of every stage.
template <typename Visit>
void ForEveryParam(Trainer& trainer, Visit visit) {
  for (size_t s = 0; s < trainer.programs().size(); ++s) {
    const StageId stage(static_cast<int32_t>(s));
    const std::vector<Param>& params = trainer.programs()[s].params;
    for (size_t p = 0; p < params.size(); ++p) {
      const int index = static_cast<int>(p);
      visit(params[p].name, params[p].type, trainer.param(stage, index),
            trainer.grad(stage, index));
    }
  }
}

void KeepFirst(Trainer& trainer, KeptRun* run) {
  const auto targets = static_cast<double>(trainer.targets_per_step());
  ForEveryParam(trainer, [&](const std::string& name, const Type& type,
                             absl::Span<const float> values, absl::Span<const float> gradients) {
    KeptParam& param = run->params[name];
    param.shape = type.shape;
    param.first.assign(values.begin(), values.end());
    std::vector<double> mean(gradients.begin(), gradients.end());
    for (double& value : mean) value /= targets;
    // Every copy of a stage has the sum over all.
    SL_CHECK(param.gradient.empty() || param.gradient == mean) << name;
    param.gradient = std::move(mean);
  });
}

}  // namespace

KeptRun TrainAndKeep(const RunConfig& config, const Plan& lowered, const TrainingData& data) {
  KeptRun run;
  TrainHooks hooks;
  hooks.gradients = [&](int64_t step, Trainer& trainer) {
    if (step == 1) KeepFirst(trainer, &run);
    std::vector<int32_t>& tokens = run.tokens.emplace_back();
    std::vector<int32_t>& targets = run.targets.emplace_back();
    std::vector<int32_t>& positions = run.positions.emplace_back();
    for (int32_t m = 0; m < trainer.microbatches(); ++m) {
      const auto of = trainer.tokens(MicrobatchId(m)), next = trainer.targets(MicrobatchId(m));
      tokens.insert(tokens.end(), of.begin(), of.end());
      targets.insert(targets.end(), next.begin(), next.end());
      const auto in_documents = trainer.positions(MicrobatchId(m));
      positions.insert(positions.end(), in_documents.begin(), in_documents.end());
    }
  };
  hooks.after_step = [&](const TrainStep& step, Trainer& trainer) {
    run.steps.push_back(step);
    if (step.step < config.steps) return absl::OkStatus();
    ForEveryParam(trainer, [&](const std::string& name, const Type&, absl::Span<const float> values,
                               absl::Span<const float>) {
      run.params[name].last.emplace_back(values.begin(), values.end());
    });
    return absl::OkStatus();
  };
  const auto result = Train(config, lowered, data, hooks);
  SL_CHECK(result.ok()) << result.status();
  return run;
}

}  // namespace stringline
