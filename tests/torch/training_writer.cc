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
  const char* schedule;  // of the library, or one of those below
  int p;
  RunConfig config;
  std::vector<int> split;  // layers per stage
};

// The encoder is stage 0, and all others read its result.
constexpr char kEncoder[] = R"(schedule encoder(P, M) {
  stages P on line;
  edges s -> s + 1, 0 -> d where d > 1;
  rank r greedy { prefer I, F, W; hold at most 2 * P; }
}
)";

Plan PlanOf(const WrittenRun& run) {
  const absl::string_view name = run.schedule;
  if (name == "u" || name == "encoder") {
    return PlanOfSchedule(name == "u" ? kUShaped : kEncoder, run.p, kReferenceMicrobatches);
  }
  return LibraryPlan(run.schedule, run.p, kReferenceMicrobatches).value();
}

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
  const auto* const gpt = std::get_if<GptShape>(&config.shape.family);
  const auto* const both = std::get_if<EncoderDecoderShape>(&config.shape.family);
  return {{"layers", config.shape.layers()},
          {"width", config.shape.width()},
          {"heads", gpt != nullptr ? gpt->heads : both->heads},
          {"encoder_layers", both != nullptr ? both->encoder_layers : 0},
          {"source", config.shape.source()},
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
  const Plan plan = PlanOf(written);
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
  RunConfig skips = LongRun();
  std::get<GptShape>(skips.shape.family).layers = 4;
  std::get<GptShape>(skips.shape.family).skips = true;
  RunConfig encoder = LongRun();
  encoder.shape = EncoderDecoderShape{.layers = 4,
                                      .encoder_layers = 1,
                                      .width = 24,
                                      .heads = 3,
                                      .context = 97,
                                      .source = 40,
                                      .microbatch = 2};
  const WrittenRun runs[] = {
      {"zb_h1", 2, packed, {2, 1}},
      {"gpipe", 1, LongRun(), {3}},
      {"1f1b", 2, LongRun(), {2, 1}},
      {"zb_v", 2, LongRun(), {0, 2, 1, 0}},
      {"dualpipe", 2, LongRun(), {1, 2}},
      {"chimera", 4, LongRun(), {0, 1, 2, 0}},
      {"dualpipe_v", 2, OtherRun(), {0, 1, 1, 0}},
      {"zb_h2", 2, skips, {3, 1}},
      {"u", 2, skips, {1, 1, 1, 1}},
      {"two_bp", 2, encoder, {2, 2}},
      {"encoder", 3, encoder, {1, 1, 2}},
  };
  for (const WrittenRun& run : runs) {
    Write(absl::StrCat(argv[1], "/", run.schedule, "_p", run.p), run);
  }
}
