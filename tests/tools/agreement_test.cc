// Every key of a run file that differs between two processes is named before the run begins.
#include "tools/training/agreement.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/run/run_keys.h"
#include "gtest/gtest.h"
#include "schedlang/costs/model_keys.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;
using Keys = std::map<std::string, std::string>;
using File = std::map<std::string, Keys>;  // sections; "" holds the keys beside them

constexpr const char* kFolderConfig =
    R"({"model_type": "qwen3_moe", "num_hidden_layers": 4, "hidden_size": 16,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 10, "head_dim": 4,
    "max_position_embeddings": 32, "vocab_size": 300, "moe_intermediate_size": 6,
    "num_experts": 4, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.5})";

class Agreement : public testing::Test {
 protected:
  Agreement() {
    fs::create_directories(folder_ + "/model");
    Write("model/config.json", kFolderConfig);
    Write("t.bin", "0123456789");
  }
  ~Agreement() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }

  absl::StatusOr<RunConfig> Read(const File& file) const {
    std::string text;
    for (const auto& [section, keys] : file) {
      const auto print = [](std::string* out, const auto& entry) {
        absl::StrAppend(out, entry.first, ": ", entry.second);
      };
      absl::StrAppend(&text, section.empty() ? "" : absl::StrCat(section, ": {"),
                      absl::StrJoin(keys, section.empty() ? "\n" : ", ", print),
                      section.empty() ? "\n" : "}\n");
    }
    Write("run.yaml", text);
    return ReadRunConfig(folder_ + "/run.yaml");
  }

  // The error of two processes, of which the second has `theirs`.
  static std::string Compare(const ConfigLines& mine, const ConfigLines& theirs) {
    Hello first, second;
    first.host = second.host = "here";
    first.processes = second.processes = 2;
    second.process = 1;
    first.config = mine;
    second.config = theirs;
    return std::string(CheckConfig(first, second).message());
  }

  ConfigLines LinesOf(const File& file) const {
    const absl::StatusOr<RunConfig> config = Read(file);
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? AgreementOf(*config, Plan(), {}) : ConfigLines();
  }

  const std::string folder_ = absl::StrCat(testing::TempDir(), "/stringline-agreement-", getpid());
};

std::string Of(const ConfigLines& lines, const std::string& key) {
  for (const auto& [name, value] : lines) {
    if (name == key) return value;
  }
  return "missing";
}

// A run file of each kind of model, and of a folder.
File BaseOf(const std::string& kind) {
  File file = {{"", {{"sharding", "parameters"}, {"bucket", "2097152B"}}},
               {"schedule", {{"file", "s.sched"}, {"P", "2"}, {"M", "4"}}},
               {"data", {{"tokens", "t.bin"}, {"dtype", "uint16"}, {"microbatch", "2"}}},
               {"train", {{"steps", "6"}, {"learning_rate", "0.125"}}},
               {"mesh", {{"data", "4"}}},
               {"checkpoint", {{"every", "5"}, {"folder", "c"}}},
               {"heal", {{"every", "2"}}},
               {"evaluate", {{"every", "2"}, {"tokens", "t.bin"}, {"dtype", "uint16"}}},
               {"nccl", {}}};
  file["model"] = {{"layers", "4"}, {"width", "16"}, {"heads", "4"}, {"context", "8"}};
  if (kind == "folder") {
    file["model"] = {{"folder", "model"}};
    return file;
  }
  file["model"]["kind"] = kind;
  if (kind == "encoder_decoder") {
    file["model"]["encoder_layers"] = "2";
    file["model"]["source"] = "3";
    return file;
  }
  if (kind != "gpt") file["model"]["hidden"] = "24";
  if (kind == "moe") {
    for (const auto& [key, value] :
         Keys{{"experts", "4"}, {"top_k", "2"}, {"expert_hidden", "6"}}) {
      file["model"][key] = value;
    }
  }
  return file;
}

// Another value of every key, in the agreement's printed form.
const Keys kOther = {
    {"train.log_every", "7"},
    {"heal.every", "3"},
    {"heal.return", "true"},
    {"metrics.every", "5"},
    {"schedule.M", "8"},
    {"model.layers", "6"},
    {"model.width", "32"},
    {"model.heads", "2"},
    {"model.context", "16"},
    {"model.vocabulary", "1000"},
    {"model.tied", "true"},
    {"model.skips", "true"},
    {"model.encoder_layers", "1"},
    {"model.source", "5"},
    {"model.split", "[1, 3]"},
    {"model.kv_heads", "1"},
    {"model.head_dim", "6"},
    {"model.hidden", "48"},
    {"model.theta", "10000.000001"},
    {"model.epsilon", "1.0000001e-05"},
    {"model.stddev", "0.03"},
    {"model.qkv_bias", "true"},
    {"model.qk_norm", "true"},
    {"model.experts", "8"},
    {"model.top_k", "1"},
    {"model.expert_hidden", "12"},
    {"model.shared_hidden", "4"},
    {"model.first_dense", "1"},
    {"model.scores", "sigmoid"},
    {"model.normalise", "false"},
    {"model.scale", "2.5"},
    {"model.groups", "2"},
    {"model.top_groups", "2"},
    {"model.group_best", "2"},
    {"model.balance_rate", "0.001"},
    {"model.aux_coefficient", "0.02"},
    {"model.capacity", "1.5"},
    {"model.exceeded", "drop"},
    {"data.dtype", "uint32"},
    {"data.microbatch", "3"},
    {"train.steps", "7"},
    {"train.learning_rate", "0.1250000001"},
    {"train.warmup_steps", "2"},
    {"train.final_learning_rate", "0.01"},
    {"train.beta1", "0.5"},
    {"train.beta2", "0.5"},
    {"train.weight_decay", "0.5"},
    {"train.clip_norm", "2"},
    {"train.seed", "9"},
    {"train.check_copies", "3"},
    {"train.recompute", "[all, none]"},
    {"train.recompute_weights", "true"},
    {"mesh.pipeline", "2"},
    {"mesh.data", "8"},
    {"mesh.expert", "2"},
    {"mesh.shard", "2"},
    {"mesh.replicate", "2"},
    {"checkpoint.every", "7"},
    {"checkpoint.folder", "other"},
    {"evaluate.every", "3"},
    {"evaluate.dtype", "uint32"},
    {"evaluate.sequences", "24"},
    {"nccl.min_ctas", "3"},
    {"nccl.max_ctas", "5"},
    {"nccl.free_sms", "24"},
    {"nccl.rows", "counted"},
    {"nccl.sums", "nccl"},
    {"nccl.layout", "pair"},
    {"nccl.capture", "true"},
    {"precision", "bf16"},
    {"deterministic", "off"},
    {"sharding", "optimizer"},
    {"bucket", "1048576"},
};

bool IsOwn(const std::string& key) {
  return std::any_of(OwnKeys().begin(), OwnKeys().end(),
                     [&](const OwnKey& own) { return own.key == key; });
}

// The keys of run files for this kind of model, as "section.key".
std::vector<std::pair<std::string, std::string>> KeysOf(const std::string& kind) {
  RunConfig config;
  RunWishes wishes;
  for (const RunModelKind& known : RunModelKinds()) {
    if (known.name == kind) config.shape = known.shape;
  }
  wishes.kind = kind;
  std::vector<std::pair<std::string, std::string>> keys;
  for (const Section& section : RunSections(&config, &wishes, kind == "folder" ? "folder" : "")) {
    for (const Field& field : section.fields) keys.emplace_back(section.key, field.key);
    if (section.free != nullptr) keys.emplace_back(section.key, "M");
  }
  for (const WordChoice& choice : kWordsBeside) keys.emplace_back("", choice.key);
  for (const char* const key : kNumbersBeside) keys.emplace_back("", key);
  return keys;
}

TEST_F(Agreement, EveryKeyThatDiffersIsNamedWithBothValues) {
  std::set<std::string> walked;
  for (const char* const kind : {"gpt", "llama", "moe", "encoder_decoder", "folder"}) {
    const File base = BaseOf(kind);
    const ConfigLines mine = LinesOf(base);
    EXPECT_EQ(Compare(mine, mine), "");
    for (const auto& [section, key] : KeysOf(kind)) {
      const std::string whole = section.empty() ? key : absl::StrCat(section, ".", key);
      SCOPED_TRACE(absl::StrCat(kind, " ", whole));
      walked.insert(whole);
      if (IsOwn(whole) || whole == "model.kind") continue;
      ASSERT_EQ(kOther.count(whole), 1u) << "the key is new: compare it, or say why not";
      File other = base;
      // A number of bytes has a unit in the file, and none where processes compare it.
      other[section][key] = kOther.at(whole) + (whole == "bucket" ? "B" : "");
      const ConfigLines theirs = LinesOf(other);
      const std::string value = Of(theirs, whole);
      EXPECT_TRUE(absl::StrContains(value, kOther.at(whole))) << value;
      const std::string said = Compare(mine, theirs);
      EXPECT_TRUE(absl::StrContains(
          said, absl::StrCat(whole, " (\"", value, "\" and \"", Of(mine, whole), "\")")))
          << said;
    }
  }
  for (const auto& [key, value] : kOther) EXPECT_EQ(walked.count(key), 1u) << key;
  for (const OwnKey& own : OwnKeys()) {
    if (own.key == std::string("model.export")) continue;  // of another origin
    EXPECT_EQ(walked.count(own.key), 1u) << own.key << " is no key";
  }
}

TEST_F(Agreement, KeysOfOneProcessMayDiffer) {
  const File base = BaseOf("gpt");
  const struct {
    const char* section;
    const char* key;
    const char* value;
  } own[] = {{"train", "threads", "3"}, {"", "timeout", "9s"},    {"", "capture", "off"},
             {"", "elastic", "true"},   {"", "transport", "tcp"}, {"checkpoint", "keep", "9"}};
  for (const auto& [section, key, value] : own) {
    File other = base;
    other[section][key] = value;
    EXPECT_EQ(Compare(LinesOf(base), LinesOf(other)), "") << key;
  }
}

TEST_F(Agreement, AKindOfModelAndASplitDiffer) {
  File other = BaseOf("moe");
  EXPECT_TRUE(absl::StrContains(Compare(LinesOf(BaseOf("llama")), LinesOf(other)),
                                "model.aux_coefficient (\"0\" and not set)"));
  const std::string kinds = Compare(LinesOf(BaseOf("gpt")), LinesOf(BaseOf("llama")));
  EXPECT_TRUE(absl::StrContains(kinds, " do not run the same: they differ in model.")) << kinds;
  RunConfig even = *Read(BaseOf("gpt")), balanced = even;
  balanced.split_balanced = true;
  EXPECT_TRUE(absl::StrContains(
      Compare(AgreementOf(even, Plan(), {}), AgreementOf(balanced, Plan(), {})), "model.split"));
}

// A difference in a file's contents, not in its name.
TEST_F(Agreement, ContentsOfFilesAreCompared) {
  const File file = BaseOf("folder");
  const auto lines = [&](const std::string& load) {
    return AgreementOf(*Read(file), Plan(), {.load = load.empty() ? "" : folder_ + "/" + load});
  };
  Write("model/model.safetensors", std::string(100, 'a'));
  fs::create_directories(folder_ + "/a");
  fs::create_directories(folder_ + "/b");
  Write("a/model-00001-of-00001.safetensors", std::string(100'000, 'a'));
  Write("b/model-00001-of-00001.safetensors", std::string(99'999, 'a') + "b");
  const ConfigLines before = lines("");
  EXPECT_TRUE(absl::StrContains(Compare(lines("a"), lines("b")),
                                "contents of --load (\"1 file of "
                                "100000 bytes, "));
  EXPECT_EQ(Compare(lines("a"), lines("a")), "");
  Write("a/optimizer-00001-of-00001.safetensors", "not read");
  Write("a/notes.txt", "not read");
  EXPECT_TRUE(absl::StrContains(Compare(lines("a"), lines("b")), "\"1 file of 100000 bytes, "));
  Write("model/model.safetensors", std::string(99, 'a') + "b");
  EXPECT_TRUE(absl::StrContains(Compare(before, lines("")), "contents of model.folder (\"2 files"));
  Write("t.bin", "0123456780");
  EXPECT_TRUE(absl::StrContains(Compare(before, lines("")), "contents of data (\"tokens of 10 "));
}

TEST_F(Agreement, DocumentsAreCompared) {
  File file = BaseOf("gpt"), same = file, tokens = file, other = file;
  Write("lengths", "2\n3\n");
  Write("same", "2\n3\n");
  file["data"]["packed"] = "lengths";
  same["data"]["packed"] = "same";
  tokens["data"]["packed"] = "{end: 3}";
  other["data"]["packed"] = "{end: 4}";
  EXPECT_EQ(Compare(LinesOf(file), LinesOf(same)), "");
  const std::string said = Compare(LinesOf(file), LinesOf(tokens));
  EXPECT_TRUE(absl::StrContains(said, "lengths of 4 bytes, ")) << said;
  EXPECT_TRUE(absl::StrContains(said, "documents end with 3")) << said;
  EXPECT_NE(Compare(LinesOf(tokens), LinesOf(other)), "");
  EXPECT_NE(Compare(LinesOf(BaseOf("gpt")), LinesOf(tokens)), "");
}

TEST_F(Agreement, OptionsThatShapeARunAreCompared) {
  const RunConfig config = *Read(BaseOf("gpt"));
  const ConfigLines mine = AgreementOf(config, Plan(), {});
  RunConfig other = config;
  other.strict = true;
  EXPECT_TRUE(absl::StrContains(Compare(mine, AgreementOf(other, Plan(), {})),
                                "--strict (\"given\" and \"not given\")"));
  other = config;
  other.link.latency_ns = 1000;
  EXPECT_TRUE(absl::StrContains(Compare(mine, AgreementOf(other, Plan(), {})), "--link (\"1000ns"));
  other = config;
  other.resume = "there";
  EXPECT_TRUE(absl::StrContains(Compare(mine, AgreementOf(other, Plan(), {})),
                                "--resume (\"there\" and \"\")"));
  EXPECT_TRUE(absl::StrContains(Compare(mine, AgreementOf(config, Plan(), {.save = "s"})),
                                "--save (\"given\" and \"not given\")"));
  Plan plan;
  plan.schedule = "another";
  EXPECT_TRUE(absl::StrContains(Compare(mine, AgreementOf(config, plan, {})), "plan (\"another"));
  EXPECT_NE(Of(mine, "version"), "missing");
  EXPECT_EQ(Of(mine, "build").size(), 40u) << Of(mine, "build");
  ConfigLines built = mine;
  for (auto& [key, value] : built) value = key == "build" ? "another" : value;
  EXPECT_TRUE(absl::StrContains(Compare(mine, built), "differ in build (\"another\" and \""));
}

}  // namespace
}  // namespace stringline
