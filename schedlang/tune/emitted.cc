#include "schedlang/tune/emitted.h"

#include <yaml-cpp/yaml.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/base/yaml.h"
#include "schedlang/text/ast.h"
#include "schedlang/tune/choice_costs.h"
#include "schedlang/tune/framework_flags.h"
#include "schedlang/tune/known_schedules.h"
#include "schedlang/tune/plan_cache.h"
#include "schedlang/write/write_schedule.h"

namespace stringline::tune {
namespace {

// The command for people, with the slow ranks and links of the choice.
std::string SimulatedBy(const EmitQuestion& question) {
  const StepCosts costs = CostsOfStep(question.base, question.choice);
  std::string text = absl::StrCat("stringline sim schedule.sched P=", question.choice.pipeline,
                                  " M=", question.choice.microbatches, " --costs costs.yaml");
  const auto add = [&text](const auto& where, int64_t share) {
    absl::StrAppend(&text, " --slow ", where, "=", static_cast<double>(share) / 1e4, "%");
  };
  for (const SlowRank& slow : costs.slow) add(slow.rank, slow.share);
  for (const SlowLink& slow : costs.slow_links) add(Print(slow.link), slow.share);
  const size_t pairs = costs.spec.formula->slow_pairs.size();
  if (pairs > 0) {
    const std::string links = pairs == 1 ? "a slow link" : absl::StrCat(pairs, " slow links");
    absl::StrAppend(&text, "\n# It does not know ", links, " between GPUs of one rank: ",
                    "collectives of the choice are slower than there.");
  }
  return text;
}

std::string CostsText(const EmitQuestion& question) {
  const Choice& choice = question.choice;
  const auto root = LoadYaml(question.model);
  SL_CHECK(root.ok()) << root.status();
  std::string text = absl::StrCat("# The costs of a choice of `stringline tune`: ", Print(choice),
                                  "\n# ", SimulatedBy(question), "\n", YAML::Dump(*root), "\n");
  absl::StrAppend(&text, "data: {microbatch: ", choice.microbatch, "}\n");
  absl::StrAppend(&text, "mesh: {layout: megatron, tensor: ", choice.tensor,
                  ", context: ", choice.context, ", pipeline: ", choice.pipeline,
                  ", data: ", choice.data, ", expert: ", choice.expert, "}\n");
  absl::StrAppend(&text, "sharding: ", NameOf(choice.sharding), "\n");
  if (!(*root)["bucket"]) absl::StrAppend(&text, "bucket: ", BucketOf(choice), "B\n");
  const int64_t layers = LayersOf(choice, question.base.spec.formula->model.layers);
  if (choice.recompute == Recompute::kOffload) {
    absl::StrAppend(&text, "layer_offload: ", layers, "\n");
  } else if (choice.recompute != Recompute::kNone) {
    absl::StrAppend(&text, "layer_recompute: ",
                    choice.recompute == Recompute::kFull   ? "all"
                    : choice.recompute == Recompute::kPart ? absl::StrCat(layers)
                                                           : NameOf(choice.recompute),
                    "\n");
  }
  absl::StrAppend(&text, "hardware: hardware.yaml\n");
  return text;
}

// The library's text with the choice's parameters as defaults, and its split.
std::string ScheduleText(const EmitQuestion& question) {
  const Choice& choice = question.choice;
  const KnownSchedule& known = KnownSchedules()[static_cast<size_t>(choice.schedule)];
  absl::StatusOr<Source> source = OpenOfLibrary(known.name);
  SL_CHECK(source.ok()) << source.status();
  const std::string original(source->text());
  Diagnostics findings;
  const std::optional<ast::File> file = ParseWithUses(&*source, &findings);
  SL_CHECK(file.has_value());
  std::string text = original;
  if (choice.light_ends) {
    const std::vector<int> layers = LayersOfStages(question.base.spec, choice);
    const size_t end = text.rfind('}');
    text.insert(end, absl::StrCat("  split [", absl::StrJoin(layers, ", "), "];\n"));
  }
  const auto& parameters = file->schedules.back().parameters;
  // From behind, so that places before stay where they are.
  for (size_t i = parameters.size(); i-- > 0;) {
    for (const Parameter& parameter : ParametersOf(choice)) {
      if (parameter.name != parameters[i].name.text || !parameters[i].value) continue;
      const Span value = parameters[i].value->span;
      text.replace(value.begin, value.end - value.begin, absl::StrCat(parameter.value));
    }
  }
  return absl::StrCat("# A choice of `stringline tune`: ", Print(choice), "\n# ",
                      SimulatedBy(question), "\n#\n", text);
}

// The text of the order that was found.
absl::StatusOr<std::string> FoundText(const EmitQuestion& question) {
  search::WriteOptions options;
  options.name = "found";
  options.header = {
      absl::StrCat("A choice of `stringline tune`, in a better order: ", Print(question.choice)),
      SimulatedBy(question)};
  SL_ASSIGN_OR_RETURN(const search::WrittenSchedule written,
                      search::WriteSchedule(*question.found, options));
  return written.text;
}

// A run file, or in its place the reasons why the executor cannot run the choice.
std::string RunText(const EmitQuestion& question) {
  const Choice& choice = question.choice;
  const ModelShape& model = question.base.spec.formula->model;
  std::vector<std::string> reasons;
  if (choice.tensor > 1) {
    reasons.push_back(absl::StrCat(
        "tp=", choice.tensor, ": its stages run on one rank each, without tensor parallelism"));
  }
  const std::string name = KnownSchedules()[static_cast<size_t>(choice.schedule)].name;
  if (name == "bpipe") reasons.emplace_back("bpipe: actions of a schedule's own are not executed");
  if (choice.context > 1) {
    reasons.push_back(absl::StrCat("cp=", choice.context, ": no ranks share a sequence"));
  }
  if (choice.data % choice.expert != 0) {
    reasons.push_back(absl::StrCat("ep=", choice.expert,
                                   ": experts are shared out over copies, and "
                                   "there are ",
                                   choice.data));
  }
  if (IsNarrow(model.precision)) {
    reasons.push_back(absl::StrCat("precision ", kPrecisions[static_cast<int>(model.precision)],
                                   ": it trains in fp32 and bf16"));
  }
  if (choice.recompute != Recompute::kNone && choice.recompute != Recompute::kFull) {
    reasons.push_back(absl::StrCat(
        "recompute=", NameOf(choice.recompute),
        ": it recomputes whole stages, and copies what its schedule says to the host"));
  }
  if (model.kv_rank > 0 || model.window > 0 || model.predicted > 0) {
    reasons.emplace_back("latent attention, windows and further predicted tokens are not trained");
  }
  if (!reasons.empty()) {
    return absl::StrCat("# `stringline run` cannot run this choice:\n#   ",
                        absl::StrJoin(reasons, "\n#   "),
                        "\n# megatron.txt and torchtitan.toml say it for other frameworks.\n");
  }
  const auto root = LoadYaml(question.model);
  SL_CHECK(root.ok()) << root.status();
  std::string text = absl::StrCat(
      "# A run of a choice of `stringline tune`: ", Print(choice), "\n",
      "# Give the text to train on, and the lines of `train` that the model needs.\n",
      "schedule: {file: schedule.sched, P: ", choice.pipeline, ", M: ", choice.microbatches, "}\n");
  YAML::Node shape(YAML::NodeType::Map);
  shape["model"] = (*root)["model"];
  absl::StrAppend(&text, YAML::Dump(shape), "\n");
  absl::StrAppend(&text, "data: {text: text.txt, microbatch: ", choice.microbatch, "}\n");
  absl::StrAppend(&text, "mesh: {data: ", choice.data / choice.expert, ", expert: ", choice.expert,
                  "}\n");
  absl::StrAppend(&text, "sharding: ", NameOf(choice.sharding), "\n");
  absl::StrAppend(&text, "precision: ", model.bytes == 2 ? "bf16" : "fp32", "\n");
  absl::StrAppend(&text, "train: {steps: 100, learning_rate: 3e-4",
                  choice.recompute == Recompute::kFull ? ", recompute: all" : "", "}\n");
  return text;
}

}  // namespace

EmitQuestion EmitQuestionOf(const TuneQuestion& question, const OpenedQuestion& opened,
                            const Outcome& outcome) {
  const Plan* const found = outcome.found == nullptr ? nullptr : &outcome.found->written;
  return {question.model,        opened.cluster, opened.request.base,
          question.global_batch, outcome.choice, found};
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> EmittedFiles(
    const EmitQuestion& question) {
  const FrameworkQuestion framework = {
      question.base.spec.formula->model, question.choice, question.global_batch,
      LayersOfStages(question.base.spec, question.choice), question.found != nullptr};
  std::string schedule;
  if (question.found == nullptr) {
    schedule = ScheduleText(question);
  } else {
    SL_ASSIGN_OR_RETURN(schedule, FoundText(question));
  }
  return std::vector<std::pair<std::string, std::string>>{
      {"costs.yaml", CostsText(question)},
      {"hardware.yaml", std::string(question.cluster.machine.text())},
      {"schedule.sched", schedule},
      {"run.yaml", RunText(question)},
      {"megatron.txt", MegatronFlags(framework)},
      {"torchtitan.toml", TorchTitanKeys(framework)}};
}

}  // namespace stringline::tune
