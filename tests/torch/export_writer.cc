// export_writer RUN.yaml OUT: the first step of a run of an exported model, for export_test.py.
//
// OUT gets batch.json, the step's tokens and targets, its loss, and the logits of its first
// microbatch; `gradients`, a folder with the gradients of the loss's sum under the program's names;
// and `saved`, the output of --save after the step.
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/model_folder.h"
#include "executor/cpu/evaluate.h"
#include "executor/run/sample_file.h"
#include "executor/run/train.h"
#include "executor/torch_model/export_file.h"
#include "executor/training/data.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/write_file.h"
#include "stages/builder.h"
#include "tests/executor/plans.h"

namespace stringline {
namespace {

using Json = nlohmann::json;

void Ok(const absl::Status& status) { SL_CHECK(status.ok()) << status; }

// For every parameter that is no copy, the sum of its gradient and its copy's; all pipes have the
// same gradients.
class Gradients {
 public:
  explicit Gradients(Trainer& trainer) {
    for (size_t s = 0; s < trainer.programs().size(); ++s) {
      const std::vector<Param>& params = trainer.programs()[s].params;
      for (size_t p = 0; p < params.size(); ++p) {
        const auto grad = trainer.grad(StageId(static_cast<int32_t>(s)), static_cast<int>(p));
        values_[params[p].name] = {params[p], {grad.begin(), grad.end()}};
      }
    }
    for (auto& [name, of] : values_) {
      if (of.param.tied_to.empty()) continue;
      std::vector<float>& sum = values_.at(of.param.tied_to).values;
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += of.values[i];
    }
  }

  ParamPlaces Places() {
    ParamPlaces places;
    for (auto& [name, of] : values_) {
      if (of.param.tied_to.empty()) places.Add(of.param, absl::MakeSpan(of.values));
    }
    return places;
  }

 private:
  struct Gradient {
    Param param;
    std::vector<float> values;
  };
  std::map<std::string, Gradient> values_;
};

std::vector<float> LogitsOf(const RunConfig& config, absl::Span<const int32_t> tokens) {
  const auto programs = BuildModelStages(config.shape, {config.shape.layers()});
  Ok(programs.status());
  const StageProgram& model = programs->front();
  cpu::StageState state = cpu::MakeState(model, 1);
  ParamPlaces places;
  for (size_t p = 0; p < model.params.size(); ++p) {
    places.Add(model.params[p],
               absl::MakeSpan(state.params[p].f32(), model.params[p].type.elements()));
  }
  Ok(LoadExportedParams(config.model_export, config.shape, places.all()));
  state.inputs[0] = cpu::MakeArray(model.inputs[0].type);
  state.target = cpu::MakeArray(model.target);
  std::copy(tokens.begin(), tokens.end(), state.inputs[0].i32());
  if (model.mask_key) state.mask_key = cpu::MakeMaskKey({config.seed, 0});
  Builder builder(model.forward);
  for (const Node& node : model.forward.nodes) {
    if (node.op == Op::kCrossEntropy) builder.Output(Role::kOutput, 0, node.inputs[0]);
  }
  cpu::Evaluate(builder.Finish(), &state);
  return {state.outputs[0].f32(), state.outputs[0].f32() + state.outputs[0].type.elements()};
}

void Write(const std::string& file, const std::string& out) {
  const auto config = ReadRunConfig(file);
  Ok(config.status());
  const auto schedule = ReadSource(config->schedule_file);
  Ok(schedule.status());
  int p = 0, m = 0;
  for (const Parameter& parameter : config->parameters) {
    (parameter.name == "P" ? p : m) = static_cast<int>(parameter.value);
  }
  const Plan plan = PlanOfSchedule(std::string(schedule->text()), p, m);
  std::optional<TokenFile> tokens;
  std::optional<SampleFile> samples;
  if (config->data.samples.empty()) {
    auto opened =
        TokenFile::Open(config->data.tokens, config->data.dtype, config->shape.vocabulary());
    Ok(opened.status());
    tokens.emplace(*std::move(opened));
  } else {
    auto opened = SampleFile::Open(config->data.samples, config->shape.sample());
    Ok(opened.status());
    samples.emplace(*std::move(opened));
  }
  Json said = {{"tokens", Json::array()}, {"targets", Json::array()}};
  TrainHooks hooks;
  hooks.gradients = [&](int64_t, Trainer& trainer) {
    for (int32_t i = 0; i < plan.microbatches; ++i) {
      const auto tokens = trainer.tokens(MicrobatchId(i)),
                 targets = trainer.targets(MicrobatchId(i));
      said["tokens"].push_back(std::vector<int32_t>(tokens.begin(), tokens.end()));
      said["targets"].push_back(std::vector<int32_t>(targets.begin(), targets.end()));
      if (i == 0) said["logits"] = LogitsOf(*config, tokens);
    }
    Ok(SaveModelFolder(out + "/gradients", config->shape, 0, Gradients(trainer).Places().all()));
  };
  hooks.end = [&](int64_t step, Trainer& trainer) {
    return SaveModelFolder(out + "/saved", config->shape, step, PlacesOf(trainer).all());
  };
  const auto result =
      Train(*config, plan, samples ? TrainingData(*samples) : TrainingData(*tokens), hooks);
  Ok(result.status());
  said["loss"] = result->first_loss_nats;
  said["params"] = result->params;
  Ok(WriteFileAtomically(out + "/batch.json", said.dump()));
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: export_writer RUN.yaml OUT\n";
    return 2;
  }
  stringline::Write(argv[1], argv[2]);
}
