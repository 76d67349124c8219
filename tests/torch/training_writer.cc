// training_writer FOLDER: runs of ours for training_test.py to repeat with torch, a folder each.
//
// A folder holds numbers.f64, doubles one after the other, and index.json, which describes them:
// {"at": first, "shape": […]} stands for an array of them.
#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "executor/training/trainer.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/write_file.h"
#include "tests/executor/kept_run.h"
#include "tests/executor/plans.h"
#include "tests/executor/reference_runs.h"

namespace stringline {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct WrittenRun {
  const char* schedule;
  int p;
  RunConfig config;
  std::vector<int> split;  // layers per stage
};

class Numbers {
 public:
  template <typename Values>
  OrderedJson Add(const Values& values, const std::vector<int64_t>& shape) {
    const size_t at = numbers_.size();
    for (const auto value : values) numbers_.push_back(static_cast<double>(value));
    return {{"at", at}, {"shape", shape}};
  }
  absl::string_view bytes() const {
    return {reinterpret_cast<const char*>(numbers_.data()), numbers_.size() * sizeof(double)};
  }

 private:
  std::vector<double> numbers_;
};

OrderedJson SettingsAsJson(const RunConfig& config) {
  const AdamW& adam = config.optimizer;
  const GptShape& shape = std::get<GptShape>(config.shape.family);
  return {{"layers", shape.layers},
          {"width", shape.width},
          {"heads", shape.heads},
          {"steps", config.steps},
          {"warmup_steps", config.warmup_steps},
          {"learning_rate", adam.learning_rate},
          {"final_rate", config.final_rate},
          {"betas", {adam.beta1, adam.beta2}},
          {"epsilon", adam.epsilon},
          {"weight_decay", adam.weight_decay},
          {"clip_norm", config.clip_norm}};
}

OrderedJson ParamsAsJson(const KeptRun& run, Numbers* numbers) {
  OrderedJson params = OrderedJson::object();
  for (const auto& [name, param] : run.params) {
    OrderedJson last = OrderedJson::array();
    for (const auto& values : param.last) last.push_back(numbers->Add(values, param.shape));
    params[name] = {{"first", numbers->Add(param.first, param.shape)},
                    {"gradient", numbers->Add(param.gradient, param.shape)},
                    {"last", last}};
  }
  return params;
}

OrderedJson StepsAsJson(const KeptRun& run, const AnyShape& shape, Numbers* numbers) {
  OrderedJson steps = OrderedJson::array();
  const std::vector<int64_t> batch = {kReferenceMicrobatches * shape.microbatch(), shape.context()};
  for (size_t s = 0; s < run.steps.size(); ++s) {
    steps.push_back({{"loss", run.steps[s].loss_nats},
                     {"norm", run.steps[s].grad_norm},
                     {"rate", run.steps[s].learning_rate},
                     {"tokens", numbers->Add(run.tokens[s], batch)},
                     {"targets", numbers->Add(run.targets[s], batch)}});
    if (run.positions[s].empty()) continue;
    steps.back()["positions"] = numbers->Add(run.positions[s], batch);
  }
  return steps;
}

void Write(const std::string& folder, const WrittenRun& written) {
  RunConfig config = written.config;
  config.layers_per_stage = written.split;
  const Plan plan = LibraryPlan(written.schedule, written.p, kReferenceMicrobatches).value();
  const std::string text = ReferenceText();
  const Documents documents = Documents::EndingWith(config.data.packed.end);
  const TrainingData data(text);
  const KeptRun run =
      TrainAndKeep(config, plan, config.data.packed.wanted() ? data.PackedOf(documents) : data);
  Numbers numbers;
  const OrderedJson index = {{"settings", SettingsAsJson(config)},
                             {"params", ParamsAsJson(run, &numbers)},
                             {"steps", StepsAsJson(run, config.shape, &numbers)}};
  for (const auto& [name, text] : {std::pair<const char*, std::string>{"index.json", index.dump(1)},
                                   {"numbers.f64", std::string(numbers.bytes())}}) {
    const absl::Status status = WriteFileAtomically(absl::StrCat(folder, "/", name), text);
    SL_CHECK(status.ok()) << status;
  }
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) {
  using namespace stringline;
  if (argc != 2) {
    std::cerr << "usage: training_writer FOLDER\n";
    return 2;
  }
  RunConfig packed = LongRun();
  packed.data.packed.end = 'e';
  const WrittenRun runs[] = {
      {"zb_h1", 2, packed, {2, 1}},
      {"gpipe", 1, LongRun(), {3}},
      {"1f1b", 2, LongRun(), {2, 1}},
      {"zb_v", 2, LongRun(), {0, 2, 1, 0}},
      {"dualpipe", 2, LongRun(), {1, 2}},
      {"chimera", 4, LongRun(), {0, 1, 2, 0}},
      {"dualpipe_v", 2, OtherRun(), {0, 1, 1, 0}},
  };
  for (const WrittenRun& run : runs) {
    Write(absl::StrCat(argv[1], "/", run.schedule, "_p", run.p), run);
  }
}
