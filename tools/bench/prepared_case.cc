#include "tools/bench/prepared_case.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/run/build_stages.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/ask/session.h"
#include "schedlang/base/fields.h"
#include "schedlang/base/fnv.h"
#include "schedlang/base/status.h"
#include "tools/answers/torch_text.h"
#include "tools/bench/machine.h"
#include "tools/training/fingerprint.h"

namespace stringline {
namespace {

std::string HashOfText(const std::string& text) {
  Fnv hash;
  for (const char c : text) hash.Add(static_cast<uint8_t>(c));
  return absl::StrCat(absl::Hex(hash.value()));
}

// The first finding, on a single line.
std::string FirstFinding(const Session& session) {
  const auto& findings = session.diagnostics.findings();
  return findings.empty() ? "the schedule is not right" : findings.front().text;
}

// "1f1b" if the file equals this schedule of the library, otherwise "".
std::string NameInLibrary(const Session& session, const std::string& file) {
  const std::string name = std::filesystem::path(file).stem().string();
  const absl::StatusOr<Source> known = OpenOfLibrary(name);
  return known.ok() && known->text() == session.source.text() ? name : "";
}

Json SizesForTorch(const AnyShape& shape) {
  Json json = {{"kind", KindOf(shape)},
               {"layers", shape.layers()},
               {"width", shape.width()},
               {"context", shape.context()},
               {"vocabulary", shape.vocabulary()}};
  if (const auto* const gpt = std::get_if<GptShape>(&shape.family)) {
    json["heads"] = gpt->heads;
    json["tied"] = gpt->tied;
  } else {
    const auto& llama = std::get<DecoderShape>(shape.family);
    json.update(Json{{"heads", llama.heads},
                     {"tied", llama.tied},
                     {"kv_heads", llama.kv_heads},
                     {"head_dim", llama.head_dim},
                     {"hidden", llama.hidden},
                     {"theta", llama.rope_theta},
                     {"epsilon", llama.norm_epsilon},
                     {"stddev", llama.init_stddev},
                     {"qkv_bias", llama.qkv_bias},
                     {"qk_norm", llama.qk_norm}});
  }
  return json;
}

// The feature of the case that torch's side lacks; "" if torch's side has all.
std::string WhyNotInTorch(const RunConfig& config) {
  const auto* const gpt = std::get_if<GptShape>(&config.shape.family);
  const auto* const llama = std::get_if<DecoderShape>(&config.shape.family);
  if (gpt == nullptr && (llama == nullptr || llama->moe.experts > 0)) {
    return absl::StrCat("torch's side of this suite knows gpt and llama, and not ",
                        KindOf(config.shape));
  }
  if (gpt != nullptr && gpt->skips) return "torch's side of this suite knows no skips";
  if (gpt != nullptr ? gpt->tied : llama->tied) {
    return "torch's side of this suite knows no tied head: it is in another stage";
  }
  if (!config.model_folder.empty()) return "torch's side of this suite begins with drawn values";
  if (config.data.text.empty()) return "torch's side of this suite reads texts only";
  if (config.data.packed.wanted()) return "torch's side of this suite packs no documents";
  if (config.mesh.expert > 1) return "torch's side of this suite shares out no experts";
  return "";
}

// True if `run` would choose the GPU.
bool OnGpu(DeviceKind device) {
  return device == DeviceKind::kCuda ||
         (device == DeviceKind::kAuto && !DescribeDevice()["gpu"].is_null());
}

void PrepareTorch(const Suite& suite, const Session& checked, const std::vector<int>& layers,
                  PreparedCase* made) {
  const RunConfig& config = made->of.config;
  const Plan& plan = *checked.plan;
  made->torch_reason = WhyNotInTorch(config);
  if (!made->torch_reason.empty()) return;
  const std::string library = NameInLibrary(checked, config.schedule_file);
  auto opened = OpenPlan({.file = config.schedule_file,
                          .schedule = config.schedule_name,
                          .parameters = config.parameters});
  if (opened.ok()) {
    const auto csv = TorchTextOf(&*opened, "torch-comms", {});
    if (csv.ok() && *csv) made->torch_csv = **csv;
    if (csv.ok() && !*csv) made->torch_reason = FirstFinding(*opened);
  }
  // Torch may have this schedule itself.
  if (!library.empty() && plan.pipes.empty()) made->torch_reason.clear();
  Json ranks = Json::array();
  for (const Stage& stage : plan.stages) ranks.push_back(stage.rank.value);
  made->torch = {{"model", SizesForTorch(config.shape)},
                 {"layers", layers},
                 {"stages", std::move(ranks)},
                 {"schedule", library},
                 {"parameters", ParametersAsJson(plan.parameters)},
                 {"P", plan.ranks()},
                 {"M", plan.microbatches},
                 {"data", config.mesh.data},
                 {"microbatch", config.shape.microbatch()},
                 {"precision", made->of.precision},
                 {"device", OnGpu(config.device) ? "cuda" : "cpu"},
                 {"steps", suite.steps},
                 {"warm_up", suite.warm_up},
                 {"learning_rate", kSuiteLearningRate},
                 {"seed", config.seed}};
}

}  // namespace

absl::StatusOr<PreparedCase> PrepareCase(const SuiteCase& of, const Suite& suite, bool again) {
  PreparedCase made{.of = of};
  const RunConfig& config = of.config;
  const std::string& data = config.data.text.empty() ? config.data.tokens : config.data.text;
  const std::string fingerprint = FingerprintOf(data);
  if (fingerprint == "none") {
    return absl::NotFoundError(absl::StrCat(suite.path, ": ", data, " cannot be read"));
  }
  made.inputs = {{"model", of.sizes},
                 {"schedule", of.schedule},
                 {"mesh", of.mesh},
                 {"precision", of.precision},
                 {"microbatch", config.shape.microbatch()},
                 {"data", fingerprint},
                 {"device", static_cast<int>(config.device)},
                 {"steps", suite.steps},
                 {"warm_up", suite.warm_up}};
  if (config.data.packed.wanted()) {
    made.inputs["packed"] = config.data.packed.lengths.empty()
                                ? absl::StrCat("end ", config.data.packed.end)
                                : FingerprintOf(config.data.packed.lengths);
  }
  if (!config.model_folder.empty()) made.inputs["folder"] = config.model_folder;
  if (!config.model_export.empty()) made.inputs["export"] = FingerprintOf(config.model_export);
  absl::StatusOr<Session> session = OpenPlan({.file = config.schedule_file,
                                              .schedule = config.schedule_name,
                                              .parameters = config.parameters,
                                              .again = again});
  if (!session.ok()) {
    made.reason = WithFields(session.status().message(), AsKey);
    return made;
  }
  if (!session->plan) {
    made.reason = FirstFinding(*session);
    return made;
  }
  made.plan = Print(*session->plan);
  made.schedule_name = session->plan->schedule;
  made.inputs["plan"] = HashOfText(made.plan);
  if (const absl::Status own_way = RefuseIssued(*session, "a run"); !own_way.ok()) {
    made.reason = std::string(own_way.message());
    return made;
  }
  session = CheckedSession(*std::move(session),
                           {.layout = config.layout, .collectives = CollectivesOf(config)});
  if (!session.ok() || !session->plan) {
    made.reason =
        session.ok() ? FirstFinding(*session) : WithFields(session.status().message(), AsKey);
    return made;
  }
  RunConfig cut = config;
  cut.path.clear();  // errors are of the case, and not of a file
  const absl::StatusOr<std::vector<int>> layers = LayersOfStages(cut, *session->plan);
  const absl::Status built =
      layers.ok() ? BuildStages(cut, *session->plan).status() : layers.status();
  if (!built.ok()) {
    made.reason = std::string(built.message());
    return made;
  }
  if (suite.beside_torch) PrepareTorch(suite, *session, *layers, &made);
  return made;
}

}  // namespace stringline
