// The table of JSON keys against what commands print: every path in an answer is a row of the
// table, with a value of the row's type, and every row is in some answer. tools/JSON.md is the
// table.
#include "tools/commands/json_keys.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "stages/models/model.h"
#include "stages/program_text.h"
#include "tests/stages/raised_builder.h"
#include "tests/tools/prepared_run.h"
#include "tests/tools/suite_results.h"
#include "tests/tools/tool_process.h"
#include "tests/tools/tool_run.h"
#include "tools/commands/command.h"
#include "tools/commands/json_page.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

// The steps of a path: a key, or "[]" for every entry of a list.
using Steps = std::vector<std::string>;

Steps StepsOf(const std::string& path) {
  Steps steps;
  for (absl::string_view key : absl::StrSplit(path, '.')) {
    size_t lists = 0;
    while (absl::ConsumeSuffix(&key, "[]")) ++lists;
    steps.emplace_back(key);
    steps.insert(steps.end(), lists, "[]");
  }
  return steps;
}

std::string Printed(const Steps& steps) {
  std::string path;
  for (const std::string& step : steps) {
    absl::StrAppend(&path, path.empty() || step == "[]" ? "" : ".", step);
  }
  return path;
}

// Do the first steps of a row lead along `steps`?
bool LeadsAlong(const Steps& row, const Steps& steps) {
  if (row.size() < steps.size()) return false;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool any_key = row[i] == "*" && steps[i] != "[]";
    if (!any_key && row[i] != steps[i]) return false;
  }
  return true;
}

bool Fits(const std::string& type, const Json& value) {
  if (type == "text") return value.is_string();
  if (type == "bool") return value.is_boolean();
  if (type == "integer" || type == "bytes") return value.is_number_integer();
  if (type == "list") return value.is_array();
  if (type == "object") return value.is_object();
  return type == "any" || value.is_number();
}

// A row, and whether an answer had a value there, and null.
struct SeenKey {
  WholeKey key;
  Steps steps;
  bool value = false;
  bool null = false;

  bool IsSeen() const { return value && (null || !key.or_null); }
};

std::vector<SeenKey> RowsOf(const JsonShape& shape) {
  std::vector<SeenKey> rows;
  for (const WholeKey& key : WholeKeysOf(shape)) rows.push_back({key, StepsOf(key.path)});
  return rows;
}

// All rows of the table, and the answers so far.
class Table {
 public:
  Table() {
    for (const JsonShape& answer : JsonAnswers()) rows_[answer.name] = RowsOf(answer);
  }

  // An answer of the command line, as `answer` of the table.
  void Take(const std::string& answer, const std::string& line, const std::string& out) {
    ASSERT_EQ(rows_.count(answer), 1u) << answer;
    const Json json = Json::parse(out, nullptr, false);
    ASSERT_TRUE(json.is_object()) << line << "\n" << out;
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << line;
    EXPECT_TRUE(json.contains("ok")) << line;
    said_.clear();
    Look(json, {}, answer, line);
  }

  // Names the rows that no answer had.
  void ExpectAllSeen() const {
    ExpectSeen("every command", every_);
    for (const auto& [name, rows] : rows_) ExpectSeen(name, rows);
  }

 private:
  void Look(const Json& value, const Steps& steps, const std::string& answer,
            const std::string& line) {
    if (!steps.empty() && !Find(value, steps, answer, line)) return;
    if (value.is_array()) {
      Steps inner = steps;
      inner.emplace_back("[]");
      for (const Json& entry : value) Look(entry, inner, answer, line);
    }
    if (!value.is_object()) return;
    for (const auto& [key, entry] : value.items()) {
      Steps inner = steps;
      inner.push_back(key);
      Look(entry, inner, answer, line);
    }
  }

  // False: there is nothing to look for below.
  bool Find(const Json& value, const Steps& steps, const std::string& answer,
            const std::string& line) {
    bool is_row = false, leads = false;
    for (std::vector<SeenKey>* rows : {&every_, &rows_[answer]}) {
      for (SeenKey& row : *rows) {
        if (!LeadsAlong(row.steps, steps)) continue;
        if (row.steps.size() > steps.size()) {
          leads = true;
        } else if (value.is_null() && row.key.or_null) {
          row.null = is_row = true;
        } else if (Fits(row.key.type, value)) {
          row.value = is_row = true;
          if (row.key.type == "any") return false;
          ExpectWhole(row, value, answer, line);
        }
      }
    }
    if (is_row || (leads && value.is_structured())) return true;
    const std::string path = Printed(steps);
    if (said_.insert(path).second) {
      ADD_FAILURE() << answer << ": " << path << " is " << value.dump().substr(0, 60)
                    << ", which the table of tools/commands/json_keys.cc has no row for\nin "
                    << line;
    }
    return false;
  }

  // Times that are no averages are whole numbers where they are whole.
  static void ExpectWhole(const SeenKey& row, const Json& value, const std::string& answer,
                          const std::string& line) {
    const bool has_averages = answer == "compare" || absl::StartsWith(answer, "bench") ||
                              absl::EndsWith(row.key.path, "mean_us") ||
                              absl::EndsWith(row.key.path, "deviation_us");
    if (has_averages || row.key.type != "us" || !value.is_number_float()) return;
    const auto us = value.get<double>();
    EXPECT_NE(us, static_cast<double>(static_cast<int64_t>(us)))
        << answer << ": " << row.key.path << " is " << value << "\nin " << line;
  }

  static void ExpectSeen(const std::string& answer, const std::vector<SeenKey>& rows) {
    for (const SeenKey& row : rows) {
      const bool is_excused = *row.key.row->unseen != '\0';
      EXPECT_TRUE(is_excused || row.IsSeen())
          << answer << ": " << row.key.path << " (" << row.key.row->type << ") is in no answer"
          << (row.value  ? " as null"
              : row.null ? " but as null"
                         : "");
      EXPECT_FALSE(is_excused && row.IsSeen())
          << answer << ": " << row.key.path
          << " is in an answer, and not unseen: " << row.key.row->unseen;
    }
  }

  std::vector<SeenKey> every_ = RowsOf(EveryAnswer());
  std::map<std::string, std::vector<SeenKey>> rows_;
  std::set<std::string> said_;  // paths that the answer has, and the table has not
};

struct Asked {
  const char* answer;
  const char* line;  // at the top of the repository; "@" is a folder of this test
};

#define SL_LLAMA " --costs examples/06_where_the_time_goes/llama.yaml"
const Asked kAsked[] = {
    {"check", "check zb_v P=2 M=4"},
    {"check", "check 1f1b P=2 M=4 --cost F=1,B=2,memory.weights=1GB --memory 80GB"},
    {"check", "check 1f1b P=2 M=4 --cost F=1,B=2,memory.weights=1GB --memory 0:80GB"},
    {"check",
     "check examples/13_offload/found.sched P=8 M=24 --costs examples/13_offload/costs.yaml "
     "--memory 80GB"},
    {"check",
     "check 1f1b_offload P=4 M=8 --cost F=1,B=2,D=1,memory.saved_for_W=1GB --host-memory 9GB"},
    {"check",
     "check 1f1b_offload P=4 M=8 --cost F=1,B=2,D=1,memory.saved_for_W=1GB --host-memory 1:9GB"},
    {"check", "check @/twice.sched P=2 M=4"},
    {"check", "check tests/golden/check/unmatched_overlaps.sched P=2 M=2"},
    {"check", "check examples/03_find_a_deadlock/broken.sched P=4 M=8"},
    {"check", "check 1f1b P=2 M=4 --nonsense"},
    {"check --for", "check dualpipe_v P=2 --for M=2..6..2"},
    {"check --for", "check examples/03_find_a_deadlock/broken.sched P=2 --for M=1..4"},
    {"plan", "plan zb_v P=2 M=4 --lowered"},
    {"plan", "plan bpipe P=4 M=4"},
    {"plan", "plan tests/golden/check/first_calls.plan"},
    {"plan", "plan @/towers.sched P=4 M=2"},
    {"plan", "plan tests/golden/sim/recompute.sched P=3 M=3"},
    {"program", "program examples/01_train/run.yaml --out @/programs.txt"},
    {"program", "program @/programs.txt --stage 1"},
    {"program", "program examples/07_mixture_of_experts/run.yaml"},
    {"program", "program @/packed.yaml"},
    {"program", "program @/dropout.txt"},
    {"show", "show tests/golden/show/observed.timeline"},
    {"show", "show tests/golden/show/flight.timeline"},
    {"show", "show tests/golden/sim/recompute.plan --cost F=2,B=4"},
    {"show", "show hanayo P=2 M=4"},
    {"sim", "sim hanayo P=2 M=4 --cost F=1,B=2,p2p=1 --slow 1=20% --slow 0-1=50%"},
    {"sim", "sim zb_v P=2 M=4 --steps 3"},
    {"check", "check pipedream_2bw P=2 M=4"},
    {"report", "report pipedream_2bw P=2 M=4 steps=2"},
    {"sim", "sim tests/golden/sim/recompute.plan --cost F=2,B=4"},
    {"sim", "sim gpipe P=2 M=2 --cost F=10,B=20,memory.saved_for_I=400,memory.capacity=600"},
    {"sim", "sim gpipe P=2 M=2 --cost F=10,B=20,microbatch=[1,2]"},
    {"sim --for", "sim 1f1b hanayo dualpipe_v P=2 --for M=2..6..2 --slow 1=20%"},
    {"sim --for", "sim examples/03_find_a_deadlock/broken.sched P=2 --for M=2..6..2"},
    {"sim", "sim 1f1b P=2 M=4 window=4 slack=1 --cost F=10,B=20,p2p=3 --jitter 30% --seeds 3"},
    {"report", "report hanayo P=2 M=4 --slow 1=20%"},
    {"report", "report 1f1b P=2 M=4 window=4 slack=1 --cost F=10,B=20,p2p=3"},
    {"report", "report tests/golden/report/moe.timeline"},
    {"report", "report tests/golden/sim/recompute.plan --cost F=2,B=4"},
    {"report",
     "report tests/golden/sim/copies.plan --cost F=2,B=4,message=3MB,memory.saved_for_I=9MB,D=3"},
    {"report", "report zb_h1 P=4 M=8" SL_LLAMA " --mesh data=16 --sharding optimizer"},
    {"report",
     "report gpipe P=2 M=2 --cost F=10,B=20,memory.saved_for_I=400,memory.capacity=600,jitter=5% "
     "--runs 10"},
    {"report", "report gpipe P=2 M=2 --cost F=10,B=20,microbatch=[1,2]"},
    {"compare", "compare hanayo gpipe P=2 M=4"},
    {"compare", "compare gpipe P=2 M=4 --cost F=1,B=2 -- gpipe --cost F=2,B=2"},
    {"compare", "compare gpipe hanayo P=2 M=4"},
    {"compare", "compare tests/golden/sim/recompute.plan tests/golden/sim/recompute.plan"},
    {"search", "search P=2 M=4 --activations 2 --iterations 100"},
    {"search", "search P=2 M=4 --from zb_v --iterations 100"},
    {"search", "search P=2 M=3 --jitter 10% --seeds 2 --slow 1=20% --iterations 100"},
    {"search", "search P=2 M=2 --iterations 100 --cost F=1,I=1,W=1,microbatch=[2,1]"},
    {"search", "search P=4 M=8 --split any --iterations 100" SL_LLAMA},
    {"search",
     "search P=2 M=3 --recompute all --iterations 100 --cost "
     "F=10,I=10,W=8,memory.weights=1GB,memory.saved_for_I=1GB,message=1MB,recompute=1"},
    {"search",
     "search P=4 M=6 --offload any --kinds F,B --iterations 100 --memory 3GB --cost "
     "F=10,B=20,D=5,p2p=8,memory.saved_for_W=1GB"},
    {"search",
     "search P=3 M=6 --recompute any --kinds F,B --iterations 100 --memory 2GB --cost "
     "F=10,B=20,R=1,p2p=8,memory.saved_for_W=1GB,memory.kept=100MB"},
    {"tune",
     "tune examples/17_plan/llama3_8b.yaml examples/17_plan/cluster.yaml --global-batch 64 "
     "--evaluations 20 --pin tp=2,pp=4 --jitter 5%"},
    {"search --for",
     "search --for P=3,4 --for M=3*P --kinds F,I,W --activations 3*P/2 --iterations 300 --cost "
     "F=18522,I=18086,W=9337,p2p=601"},
    {"search --for",
     "search --for P=2,3 --for M=P --kinds F,B --memory 4GB --iterations 40 --cost "
     "F=10,B=20,memory.saved_for_W=1GB"},
    {"explain", "explain hanayo 1F1 P=2 M=4"},
    {"explain", "explain tests/golden/sim/recompute.plan 1B1 --cost F=2,B=4"},
    {"explain",
     "explain interleaved 3F1 P=2 M=4 --cost F=10,B=20,message=2MB,bandwidth=100GB/s "
     "--layout shared"},
    {"explain", "explain gpipe 1F1 P=2 M=2 --cost F=[1,20],B=1,p2p=2,receive_buffers=1"},
    {"explain", "explain interleaved 2F0 P=2 M=4 --cost F=10,I=10,W=10,unshard=15,reduce=20"},
    {"explain", "explain tests/golden/explain/behind_another.plan 1F0 --cost F=10,B=20,p2p=3"},
    {"explain", "explain @/call.plan 1F1 --cost F=1,B=5,p2p=2 --layout pair"},
    {"export", "export zb_v P=2 M=4 --to torch-compute"},
    {"import", "import tests/golden/torch/zbvzerobubble_p2_v2_m4_compute.csv"},
    {"import of traces", "import examples/05_torch/traced"},
    {"report of traces",
     "report tests/golden/torch/kernels --operator aten::linear --against "
     "tests/golden/torch/kernels"},
    {"report of traces", "report examples/05_torch/traced --step 1"},
    {"report of a memory timeline", "report tests/golden/torch/memory.raw.json"},
    {"fmt", "fmt --check schedules/1f1b.sched"},
    {"fmt", "fmt --stdout schedules/1f1b.sched"},
    {"lint", "lint tests/golden/lint/good.csv"},
    {"diagnose", "diagnose tests/golden/diagnose/late --schedule 1f1b P=3 M=3"},
    {"diagnose", "diagnose tests/golden/diagnose/left_out"},
    {"diagnose", "diagnose tests/golden/diagnose/dead"},
    {"diagnose", "diagnose tests/golden/diagnose/message_size"},
    {"diagnose", "diagnose tests/golden/diagnose/circle"},
    {"diagnose", "diagnose tests/golden/diagnose/receives"},
    {"diagnose", "diagnose tests/golden/diagnose/chain --layout shared"},
    {"diagnose", "diagnose tests/golden/diagnose/network"},
    {"diagnose", "diagnose tests/golden/diagnose/gloo"},
    {"diagnose", "diagnose tests/golden/diagnose/cut tests/golden/diagnose/ended --ranks 4"},
    {"rehearse", "rehearse hanayo P=2 M=2 --cost F=100us,B=200us --slow 1=20% --steps 1"},
    {"rehearse", "rehearse tests/golden/sim/recompute.plan --cost F=20us,B=40us --steps 1"},
    {"calibrate", "calibrate tests/golden/show/measured.timeline"},
    {"bench", "bench @/results.json"},
    {"bench", "bench @/others.json"},
    {"bench --compare", "bench --compare @/results.json @/others.json --fail-slower 5%"},
    {"bench --list", "bench @/suite.yaml --list"},
    {"run", "run @/run.yaml --out @/made --save @/kept"},
    {"run", "run @/run.yaml --out @/made --resume @/ckpt --steps 8"},
    {"run", "run @/run.yaml --evaluate --load @/kept"},
    {"run", "run @/tokens.yaml --out @/made"},
    {"watch", "watch @/watched"},
    {"watch", "watch @/alone"},
    {"run", "run @/hangs.yaml --out @/hangs --strict --layout pair"},
    {"schedules", "schedules"},
};
#undef SL_LLAMA

void WriteResults(const std::string& folder) {
  SuiteResults results = MadeResults();
  WriteText(folder + "/results.json", Print(results));
  SlowDown(1.2, &results.cases[0]);
  results.cases[2].repetitions.resize(1);
  results.device["gpu"] = "a made GPU";
  results.versions["cuda"] = "13.0";
  results.versions["torch"] = nullptr;
  WriteText(folder + "/others.json", Print(results));
}

// The files that the lines read: schedules, results of suites, run files.
std::string PrepareFolder() {
  fs::remove_all(ScratchFolder());  // of a run of this test before
  const std::string folder = PrepareRun();
  const std::string base = "schedule s(P, M) { stages P on line; rank r { repeat M { F r } } }\n";
  WriteText(folder + "/base.sched", base);
  WriteText(
      folder + "/towers.sched",
      "schedule t(P, M) { stages P on line; edges 0 -> 1, 1 -> 3, 2 -> 3; skip s @ m where s == "
      "1 and m == 1; rank r { repeat M { F r } repeat M { B r } } }\n");
  WriteText(folder + "/twice.sched", "use \"base.sched\";\n" + base);
  WriteText(folder + "/call.plan",
            "plan call P=2 M=2 lowered\nstages 0 1\n"
            "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1&0RECV_B0 0B0 0RECV_B1 0B1\n"
            "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0&1RECV_F1 1F1 1B1 1SEND_B1\n");
  WriteResults(folder);
  WriteText(folder + "/suite.yaml",
            "models: {tiny: {layers: 2, width: 16, heads: 2, context: 8}}\n"
            "schedules: [{file: 1f1b, P: 2, M: 4}, {file: 1f1b, P: 3, M: 4}]\n"
            "data: {text: words.txt, microbatch: 2}\ndevice: cpu\n"
            "repetitions: 1\nsteps: 1\nwarm_up: 1\n");
  const std::string run = ReadText(folder + "/run.yaml");
  WriteText(folder + "/run.yaml",
            run + "checkpoint: {every: 2, folder: ckpt}\nevaluate: {every: 3, text: words.txt}\n");
  WriteText(folder + "/watched.yaml",
            run +
                "checkpoint: {every: 2, folder: ck}\nevaluate: {every: 3, text: words.txt}\n"
                "metrics: {every: 1}\n");
  EXPECT_EQ(RunToolIn(folder, Words("run watched.yaml --out watched")).status, 0);
  WriteText(folder + "/alone.yaml",
            absl::StrReplaceAll(run, {{"P: 2", "P: 1"}}) + "metrics: {every: 1}\n");
  EXPECT_EQ(RunToolIn(folder, Words("run alone.yaml --out alone")).status, 0);
  WriteText(folder + "/packed.yaml",
            absl::StrReplaceAll(run, {{"words.txt", "words.txt, packed: {end: 10}"}}));
  const std::vector<StageProgram> dropping = BuildModelStages(WithDropout(1, 5, 2), {1}).value();
  WriteText(folder + "/dropout.txt", PrintStageProgram(dropping.front()));
  WriteText(folder + "/tokens.bin", std::string(4000, '\1'));
  WriteText(folder + "/tokens.yaml",
            absl::StrReplaceAll(run, {{"text: words.txt", "tokens: tokens.bin, dtype: uint16"},
                                      {"layers: 2", "layers: 2, vocabulary: 300"}}));
  WriteText(folder + "/p.plan",
            ReadText(SourceFolder() + "/examples/03_find_a_deadlock/both_send_first.plan"));
  WriteText(folder + "/hangs.yaml",
            absl::StrReplaceAll(run, {{"{file: s.sched, P: 2, M: 4}", "{file: p.plan}"}}));
  return folder;
}

// Cuts a file of the newest checkpoint short, so that a run goes on from the one before.
void SpoilNewestCheckpoint(const std::string& folder) {
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (fs::is_directory(entry.path())) found.insert(entry.path().string());
  }
  ASSERT_GE(found.size(), 2u) << folder;
  WriteText(*found.rbegin() + "/state.json", "{");
}

// A run that would take years, ended by a signal.
std::string StoppedRun(const std::string& folder) {
  const std::string part = folder + "/stopped/losses.csv.part";
  ToolProcess run(folder, Words("run tokens.yaml --steps 1000000000 --out stopped --json"));
  EXPECT_TRUE(run.WaitUntil([&] { return fs::exists(part) && fs::file_size(part) > 200; }));
  run.Signal(SIGTERM);
  return run.Wait().out;
}

// The command line with --json, which stands before a second side.
std::string WithJson(const std::string& line) {
  if (absl::StrContains(line, "--json")) return line;
  const size_t side = line.find(" -- ");
  return side == std::string::npos ? line + " --json" : std::string(line).insert(side, " --json");
}

TEST(JsonKeysTest, AnswersHaveTheKeysOfTheTable) {
  const std::string folder = PrepareFolder();
  Table table;
  for (const Asked& asked : kAsked) {
    const std::string line = WithJson(asked.line);
    if (absl::StrContains(line, "--resume")) SpoilNewestCheckpoint(folder + "/ckpt");
    const Answer answer =
        RunToolIn(SourceFolder(), Words(absl::StrReplaceAll(line, {{"@", folder}})));
    table.Take(asked.answer, line, answer.out);
  }
  table.Take("run", "a run that was stopped", StoppedRun(folder));
  table.Take("bench", "bench suite.yaml",
             ToolProcess(folder, Words("bench suite.yaml --json")).Wait().out);
  table.ExpectAllSeen();
}

// The name of the answer to a command line of a golden file; "" for one without JSON.
std::string AnswerTo(const std::vector<std::string>& words) {
  const auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  const std::string& name = words[0];
  const auto found = std::find_if(Commands().begin(), Commands().end(),
                                  [&](const Command& command) { return command.name == name; });
  const bool writes = name == "fmt" && !has("--check") && !has("--stdout");
  if (found == Commands().end() || (found->options & kNoJson) || writes || has("--help")) return "";
  if (has("--for")) return name + " --for";
  const bool is_schedule = absl::EndsWith(words[1], ".csv") || absl::EndsWith(words[1], ".pt2");
  return name == "import" && !is_schedule ? "import of traces" : name;
}

// Whatever golden files ask: no answer has a key that the table lacks.
TEST(JsonKeysTest, AnswersToGoldenFilesHaveNoOtherKeys) {
  Table table;
  size_t asked = 0;
  for (const auto& entry : fs::recursive_directory_iterator(SourceFolder() + "/tests/golden")) {
    const fs::path& path = entry.path();
    if (!entry.is_regular_file() || path.extension() == ".pt2") continue;
    const bool is_list = path.extension() == ".golden";
    const std::vector<std::string> lines = Lines(ReadText(path.string()));
    for (size_t i = 0; i < (is_list ? lines.size() : std::min<size_t>(lines.size(), 1)); ++i) {
      if (!absl::StartsWith(lines[i], "# ")) continue;
      std::vector<std::string> words = Words(WithJson(lines[i].substr(2)));
      if (!is_list) words.insert(words.begin() + 1, path.string());
      const std::string answer = AnswerTo(words);
      if (answer.empty()) continue;
      const std::string line = absl::StrJoin(words, " ");
      table.Take(answer, line, RunToolIn(SourceFolder(), words).out);
      ++asked;
    }
  }
  EXPECT_GT(asked, 150u);
}

TEST(JsonKeysTest, EveryCommandHasATable) {
  std::vector<std::string> commands, tables;
  for (const Command& command : Commands()) {
    if ((command.options & kNoJson) == 0) commands.emplace_back(command.name);
  }
  for (const JsonShape& answer : JsonAnswers()) {
    const std::string name = answer.name;
    tables.push_back(name.substr(0, name.find(' ')));
  }
  tables.erase(std::unique(tables.begin(), tables.end()), tables.end());
  EXPECT_EQ(tables, commands);
}

// A time has its unit in its name, or in that of the object or list around it.
bool EndsInUnit(const Steps& steps, const char* unit) {
  return std::any_of(steps.begin(), steps.end(),
                     [&](const std::string& step) { return absl::EndsWith(step, unit); });
}

TEST(JsonKeysTest, NamesAndTypesGoTogether) {
  std::set<std::string> types, used;
  for (const JsonType& type : JsonTypes()) types.insert(type.name);
  for (const JsonShape& answer : JsonAnswers()) {
    std::set<std::string> paths;
    for (const SeenKey& row : RowsOf(answer)) {
      SCOPED_TRACE(absl::StrCat(answer.name, ": ", row.key.path));
      const std::string& type = row.key.type;
      EXPECT_EQ(types.count(type), 1u) << type;
      used.insert(type);
      if (type != "object" && type != "list") {
        EXPECT_EQ(type == "us", EndsInUnit(row.steps, "_us")) << type;
        EXPECT_EQ(type == "s", EndsInUnit(row.steps, "_s")) << type;
      }
      if (EndsInUnit({row.steps.back()}, "bytes") && type != "object") {
        EXPECT_EQ(type, "bytes");
      }
      EXPECT_TRUE(paths.insert(row.key.path).second || type == "object") << "twice";
      EXPECT_FALSE(absl::StrContains(row.key.row->meaning, "|"));
    }
  }
  EXPECT_EQ(used.size(), types.size());
}

// Every shape is named by an answer or by a shape.
TEST(JsonKeysTest, SharedShapesAreUsed) {
  std::set<std::string> named;
  std::vector<JsonShape> all(JsonAnswers().begin(), JsonAnswers().end());
  all.insert(all.end(), SharedShapes().begin(), SharedShapes().end());
  all.push_back(EveryAnswer());
  for (const JsonShape& shape : all) {
    for (const JsonKey& key : shape.keys) {
      named.insert(std::string(absl::StripSuffix(key.type, " or null")));
    }
    for (const char* const name : shape.also) {
      if (name != nullptr) named.insert(name);
    }
  }
  for (const JsonShape& shape : SharedShapes())
    EXPECT_EQ(named.count(shape.name), 1u) << shape.name;
}

TEST(JsonKeysTest, ThePageIsTheTable) {
  const std::string path = SourceFolder() + "/tools/JSON.md";
  if (UpdatesGolden()) WriteText(path, JsonPage());
  EXPECT_EQ(ReadText(path), JsonPage())
      << "UPDATE_GOLDEN=1 writes the page from tools/commands/json_keys.cc";
}

}  // namespace
}  // namespace stringline
