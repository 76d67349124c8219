// The command line: exit statuses, a single message for each bad input, a single JSON object with
// --json, and no half-written file.
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>

#include "absl/strings/string_view.h"
#include "schedlang/ask/schedule_library.h"
#include "tests/tools/tool_process.h"
#include "tests/tools/tool_run.h"
#include "tools/commands/command.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

Answer RunHere(const std::string& line) { return RunToolIn(ScratchFolder(), Words(line)); }
Answer RunAtTop(const std::string& line) { return RunToolIn(SourceFolder(), Words(line)); }

int LinesOf(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

nlohmann::json OneObject(const std::string& text) {
  auto json = nlohmann::json::parse(text, nullptr, false);
  EXPECT_TRUE(json.is_object()) << text;
  EXPECT_EQ(LinesOf(text), 1) << text;
  return json;
}

constexpr const char* kGood =
    "schedule s(P, M) { stages P on line; rank r { repeat M { F r; B r } } }\n";

void WriteBadFiles() {
  const std::string folder = ScratchFolder() + "/";
  WriteText(folder + "good.sched", kGood);
  WriteText(folder + "empty.sched", "");
  WriteText(folder + "empty.timeline", "");
  WriteText(folder + "empty.json", "");
  WriteText(folder + "empty.csv", "");
  WriteText(folder + "binary.sched", std::string("schedule \0\x01\xff", 12));
  WriteText(folder + "latin.sched", "schedule caf\xe9(P, M) { }\n");
  WriteText(folder + "truncated.sched", "schedule s(P, M) { stages P on line; rank r {");
  WriteText(folder + "type.yaml", "F: [1, {a: 2}]\n");
  WriteText(folder + "broken.yaml", "F: [1, 2\nB: }\n");
  WriteText(folder + "unknown.yaml", "F: 1\nQ: 2\n");
  WriteText(folder + "machine.yaml", "flops: 1e12\nbandwidth: 1GB/s\n");
  WriteText(folder + "shape.yaml",
            "model: {layers: 2, width: 8, heads: 2, context: 4}\nhardware: machine.yaml\n");
  fs::create_directories(folder + "folder.sched");
}

struct Bad {
  const char* line;
  int status;
  const char* says;  // part of the message
};

const Bad kBad[] = {
    // Not a command line
    {"chek good.sched", 2, "did you mean 'check'"},
    {"zzzzzz", 2, "unknown command 'zzzzzz'"},
    {"check", 2, "needs a file"},
    {"check good.sched P=2 M=2 --widht 3", 2, "unknown option '--widht'"},
    {"compare good.sched good.sched P=2 M=2 --plot x.svg", 2, "unknown option '--plot'"},
    {"sim good.sched P=2 M=2 --messages late", 2, "late not in {early,as-written}"},
    {"show good.sched P=2 M=2 --widht 80", 2, "did you mean '--width'"},
    {"show good.sched P=2 M=2 --width wide", 2, "--width"},
    {"show good.sched P=2 M=2 --width 3", 2, "--width"},
    {"show good.sched P=2 M=2 --color pink", 2, "--color"},
    {"sim good.sched P=2 M=2 --cost F=1 --costs type.yaml", 2, "--cost"},
    // Parameters
    {"check good.sched P=abc M=2", 2, "'P=abc': not an integer"},
    {"check good.sched P= M=2", 2, "'P=': not an integer"},
    {"check good.sched P M=2", 2, "'P' is not a parameter"},
    {"check good.sched =3 M=2", 2, "'=3' is not a parameter"},
    {"check good.sched P=2.5 M=2", 2, "not an integer"},
    {"check good.sched P=99999999999999999999 M=2", 2, "does not fit 64 bits"},
    {"check good.sched P=2 P=2 M=2", 2, "'P' is given twice"},
    {"check good.sched P=1e3 M=2", 2, "'P=1e3': not an integer; write P=1000"},
    {"check good.sched P=2 M=1_000", 2, "'M=1_000': not an integer; write M=1000"},
    {"check good.sched P=0 M=2", 2, "good.sched: 'P' is 0, which is not in 1 .. 1048576"},
    {"check good.sched P=-3 M=2", 2, "good.sched: 'P' is -3, which is not in 1 .. 1048576"},
    {"sim good.sched P=2 M=0", 2, "good.sched: 'M' is 0, which is not in 1 .. 2147483647"},
    {"check good.sched P=2 M=9223372036854775807", 2, "'M' is 9223372036854775807"},
    {"check good.sched P=4 M=10000000", 1,
     "4 stages and 10000000 microbatches take at least 80000000 actions, more than 16777216; on "
     "so many stages a step has at most 2097152 microbatches"},
    {"search P=4 M=10000000", 2, "P=4 M=10000000 --place line: a search orders at most 10000000"},
    {"search P=1000 M=1000000 --place v", 2, "--place v: a search orders at most 10000000"},
    {"search P=5000 M=1", 2, "a search orders at most 4096 stages, and there are 5000"},
    {"check good.sched P=2 M=2 V=2", 2, "V"},
    {"check good.sched P=2 M=2 --schedule t", 2, "good.sched: the file has no schedule 't'"},
    // Numbers without a unit
    {"sim good.sched P=2 M=2 --slow 1=10", 2, "--slow: '10' has no unit: write 10%"},
    {"sim good.sched P=2 M=2 --slow 1=1% --slow 1=2%", 2, "--slow: rank 1 is given twice"},
    {"sim good.sched P=2 M=2 --slow 0-1", 2,
     "--slow: '0-1' is not like 3=10%, nor like 3-4=50% for a link"},
    {"sim good.sched P=2 M=2 --slow 0-1=5", 2, "--slow: '5' has no unit: write 5%"},
    {"sim good.sched P=2 M=2 --slow 0-x=5%", 2,
     "--slow: '0-x' is no link: write its two ranks as 3-4, or as 3->4 for one direction"},
    {"sim good.sched P=2 M=2 --slow 1-1=5%", 2, "--slow: '1-1' leads from a rank to itself"},
    {"sim good.sched P=2 M=2 --slow 0-1=5%", 2,
     "--slow: messages over 0-1 take no time, so none takes longer"},
    {"sim good.sched P=2 M=2 --slow 1-2=5%", 2, "--slow: there is no rank 2; the plan has 2"},
    {"sim good.sched P=3 M=2 --slow 0-2=5% --cost F=1,B=1,p2p=1", 2,
     "--slow: no message of this plan goes over 0-2; messages go over 0-1, 1-2"},
    {"sim good.sched P=2 M=2 --slow 0-1=5% --slow 1->0=5% --cost F=1,B=1,p2p=1", 2,
     "--slow: link 1->0 is given twice, also as 0-1"},
    {"rehearse good.sched P=2 M=2 --link 5us --cost F=1,B=1,links.0-1.p2p=1", 2,
     "--link gives every message one time; leave out links.0-1.p2p"},
    {"rehearse good.sched P=2 M=2 --link 5us --cost F=1,B=1,p2p=1 --slow 0-1=5%", 2,
     "--link gives every message one time; leave out --slow 0-1"},
    {"search P=3 M=3 --for P=3,4 --cost F=1,B=1,links.0-1.p2p=1", 2, "links.0-1.p2p: sizes may"},
    {"search P=3 M=3 --place v --cost F=1,B=1,links.0-2.p2p=1", 2,
     "links.0-2.p2p: no message of this plan goes over 0-2; messages go over 0-1, 1-2"},
    {"search P=3 M=3 --place any --work model --cost F=9,B=9,links.2-5.p2p=1", 2,
     "links.2-5.p2p: there is no rank 5; the plan has 3"},
    {"check good.sched P=2 M=2 --memory 80 --cost F=1,memory.weights=1", 2,
     "--memory: '80' has no unit: write 80kB, 80MB or 80GB"},
    {"check good.sched P=2 M=2 --memory 0:80 --cost F=1,memory.weights=1", 2,
     "--memory: '80' has no unit"},
    {"sim good.sched P=2 M=2 --costs shape.yaml --bucket 25", 2, "bucket: '25' has no unit"},
    {"show good.sched P=2 M=2 --time 0..200", 2, "--time: '0..200' is not like 0..200ms"},
    {"rehearse good.sched P=2 M=2 --link 5", 2, "--link: '5' has no unit: write 5us, 5ms or 5s"},
    {"rehearse good.sched P=2 M=2 --link 5us,100Gb/s", 2, "100Gb/s are 12.5GB/s"},
    {"rehearse good.sched P=2 M=2 --message 1000", 2, "--message: '1000' has no unit"},
    {"search P=2 M=2 --iterations 1e6", 2, "; write 1000000"},
    // Files
    {"check missing.sched P=2 M=2", 2, "missing.sched"},
    {"check folder.sched P=2 M=2", 2, "folder.sched"},
    {"check /dev/zero P=2 M=2", 2, "/dev/zero: is a device, not a file"},
    {"sim good.sched P=2 M=2 --costs /dev/urandom", 2, "/dev/urandom: is a device, not a file"},
    {"run /dev/zero", 2, "/dev/zero: is a device, not a file"},
    {"bench /dev/zero", 2, "/dev/zero: is a device, not a file"},
    {"fmt /dev/zero", 2, "/dev/zero: is a device, not a file"},
    {"check good.sched P=2 M=2 --model /dev/zero", 2, "/dev/zero: is a device, not a file"},
    {"check binary.sched P=2 M=2", 2, "binary.sched"},
    {"check missing.plan", 2, "missing.plan"},
    {"show missing.timeline", 2, "missing.timeline"},
    {"check latin.sched P=2 M=2", 1, "latin.sched:1:"},
    {"check empty.sched P=2 M=2", 1, "empty.sched:1:1"},
    {"check truncated.sched P=2 M=2", 1, "truncated.sched:1:"},
    {"sim truncated.sched P=2 M=2", 1, "truncated.sched:1:"},
    {"run missing.yaml", 2, "missing.yaml"},
    {"run folder.sched", 2, "folder.sched"},
    // rehearse
    {"rehearse good.sched P=2 M=2 --link fast", 2, "--link: 'fast' is not a time"},
    {"rehearse good.sched P=2 M=2 --link 5us,2GB", 2, "--link: '2GB' is not a bandwidth"},
    {"rehearse good.sched P=2 M=2 --link 5us,0B/s", 2, "--link: the bandwidth is 0"},
    {"rehearse good.sched P=2 M=2 --message big", 2, "--message: 'big' is not a number of bytes"},
    {"rehearse good.sched P=2 M=2 --steps 0", 2, "--steps"},
    {"rehearse good.sched P=2 M=2 --cost F=1s,B=200s", 2, "may last ten minutes"},
    {"rehearse missing.sched P=2 M=2", 2, "missing.sched"},
    {"rehearse truncated.sched P=2 M=2", 1, "truncated.sched:1:"},
    // bench
    {"bench", 2, "needs a file"},
    {"bench missing.yaml", 2, "missing.yaml"},
    {"bench missing.json", 2, "missing.json"},
    {"bench unknown.yaml", 2, "unknown.yaml:1: unknown key 'F'"},
    {"bench broken.yaml", 2, "broken.yaml:"},
    {"bench unknown.yaml type.yaml", 2, "expected one suite"},
    {"bench unknown.yaml --out -", 2, "--out -: the file is written again and again"},
    {"bench --compare missing.json missing.json --again", 2, "--again"},
    {"bench --compare unknown.yaml unknown.yaml", 2, "unknown.yaml: no results of a suite"},
    {"bench missing.json --fail-slower 5%", 2, "--compare"},
    // calibrate
    {"calibrate good.sched", 2, "only a recorded timeline has durations"},
    {"calibrate missing.timeline", 2, "missing.timeline"},
    {"calibrate empty.timeline", 1, "empty.timeline:1:1"},
    // import
    {"import good.sched", 2, "one schedule (.csv) or model (.pt2) of torch's can be imported"},
    {"import missing.json", 2, "missing.json"},
    {"import missing.yaml", 2, "missing.yaml"},
    {"import good.sched a=b", 2, "'a=b': only Megatron's arguments (.yaml) take others"},
    {"import missing.csv", 2, "missing.csv"},
    {"import folder.sched", 2, "folder.sched: no trace is in this folder"},
    {"import empty.json", 2, "empty.json: ends in the middle"},
    {"import empty.json good.sched", 2, "good.sched: one schedule"},
    {"import empty.csv --step 1", 2, "empty.csv: --step is for traces"},
    {"import empty.json --step -1", 2, "--step"},
    // fmt, explain, check --for
    {"fmt", 2, "needs a file"},
    {"fmt missing.sched", 2, "missing.sched"},
    {"fmt good.sched missing.sched", 2, "missing.sched"},
    {"fmt folder.sched --check", 2, "folder.sched"},
    {"fmt truncated.sched", 1, "truncated.sched:1:"},
    {"fmt latin.sched --stdout", 1, "latin.sched:1:"},
    {"explain good.sched", 2, "needs an action"},
    {"explain good.sched P=2 M=2", 2, "'P=2' is no action"},
    {"explain good.sched 2F0 P=2 M=2", 2, "rank 1 has 1"},
    {"explain good.sched 0F2 P=2 M=2", 2, "only 0 .. 1"},
    {"explain good.sched 0I1 P=2 M=2", 2, "it has 0F1, 0B1"},
    {"explain missing.sched 0F0 P=2 M=2", 2, "missing.sched"},
    {"explain truncated.sched 0F0 P=2 M=2", 1, "truncated.sched:1:"},
    {"check good.sched --for P=2..", 2, "--for P=2.."},
    {"check good.sched --for R=2..4 M=2", 2, "no parameter 'R'"},
    {"check missing.sched --for P=2..4 M=2", 2, "missing.sched"},
    {"check truncated.sched --for P=2..4 M=2", 1, "truncated.sched:1:"},
    {"check good.sched P=2", 2, "good.sched: schedule 's' needs 'M', as in M=8"},
    {"check good.sched P=2 M=2 Q=1", 2, "has no parameter 'Q'; it has P, M"},
    {"check good.sched --for P=2..4", 2, "needs 'M'"},
    // Costs
    {"sim good.sched P=2 M=2 --cost F=abc", 2, "F"},
    {"sim good.sched P=2 M=2 --cost F=-1,B=1", 2, "F"},
    {"sim good.sched P=2 M=2 --cost Q=1", 2, "Q"},
    {"sim good.sched P=2 M=2 --cost F=[1,2", 2, "F"},
    {"sim good.sched P=2 M=2 --cost F=[1,2,3],B=1", 2, "F"},
    {"sim good.sched P=2 M=2 --cost F=1", 2, "B"},
    {"sim good.sched P=2 M=2 --cost F=1e300,B=1", 2, "F"},
    {"sim good.sched P=2 M=2 --cost ,", 2, "KEY=VALUE"},
    {"sim good.sched P=2 M=2 --costs missing.yaml", 2, "missing.yaml"},
    {"sim good.sched P=2 M=2 --sharding some", 2, "some not in {none,optimizer,gradients"},
    {"sim good.sched P=2 M=2 --mesh data=2", 2, "mesh: needs a model's shape"},
    {"sim good.sched P=2 M=2 --bucket 25MiB", 2, "bucket: needs a model's shape"},
    {"sim good.sched P=2 M=2 --costs shape.yaml --bucket 0", 2, "bucket: expected a number"},
    {"sim good.sched P=2 M=2 --costs shape.yaml --mesh data", 2, "expected KEY=NUMBER"},
    {"sim good.sched P=2 M=2 --costs shape.yaml --mesh date=2", 2, "did you mean 'data'"},
    {"sim good.sched P=2 M=2 --costs shape.yaml --mesh data=0", 2, "expected a number from 1"},
    {"sim good.sched P=2 M=2 --costs shape.yaml --mesh data=4,shard=3", 2, "does not divide"},
    {"sim good.sched P=2 M=2 --costs shape.yaml --sharding parameters", 2, "and there is one"},
    {"check good.sched --for P=2..3 --for M=2 --mesh data=2", 2, "not with --for"},
    {"sim good.sched P=2 M=2 --costs type.yaml", 2, "type.yaml"},
    {"sim good.sched P=2 M=2 --costs broken.yaml", 2, "broken.yaml"},
    {"sim good.sched P=2 M=2 --costs unknown.yaml", 2, "Q"},
    {"sim good.sched P=2 M=2 --timeline good.sched/a.timeline", 2, "good.sched/a.timeline"},
    {"sim good.sched P=2 M=2 --timeline folder.sched", 2, "folder.sched"},
};

TEST(CliTest, BadInputGivesOneMessage) {
  WriteBadFiles();
  for (const Bad& bad : kBad) {
    const Answer answer = RunHere(bad.line);
    EXPECT_EQ(answer.status, bad.status) << bad.line << "\n" << answer.out << answer.err;
    const std::string text = answer.out + answer.err;
    EXPECT_NE(text.find(bad.says), std::string::npos) << bad.line << "\n" << text;
    if (bad.status == 2) {
      EXPECT_EQ(answer.out, "") << bad.line;
      EXPECT_EQ(LinesOf(answer.err), 1) << bad.line << "\n" << answer.err;
    }
  }
}

TEST(CliTest, BadInputGivesOneJsonObject) {
  WriteBadFiles();
  for (const Bad& bad : kBad) {
    const Answer answer = RunHere(std::string(bad.line) + " --json");
    EXPECT_EQ(answer.status, bad.status) << bad.line;
    EXPECT_EQ(answer.err, "") << bad.line;
    const auto json = OneObject(answer.out);
    EXPECT_EQ(json["ok"], false) << bad.line;
    EXPECT_TRUE(json["findings"].is_array()) << bad.line;
    EXPECT_EQ(json["findings"].empty(), bad.status == 2) << bad.line;
    EXPECT_EQ(json.contains("error"), bad.status == 2) << bad.line;
  }
}

TEST(CliTest, BadInputLeavesNoFile) {
  WriteBadFiles();
  const std::string folder = ScratchFolder();
  std::set<std::string> before;
  for (const auto& entry : fs::directory_iterator(folder)) before.insert(entry.path().string());
  for (const Bad& bad : kBad) {
    if (std::string(bad.line).rfind("sim ", 0) != 0) continue;
    RunHere(std::string(bad.line) + (std::string(bad.line).find("--timeline") == std::string::npos
                                         ? " --timeline left.timeline"
                                         : ""));
  }
  std::set<std::string> after;
  for (const auto& entry : fs::directory_iterator(folder)) after.insert(entry.path().string());
  EXPECT_EQ(after, before);
}

// The second halves of two rows are exchanged, so all their cells are on wrong ranks.
TEST(CliTest, VeryManyErrorsAreCounted) {
  const std::string rows =
      ReadText(SourceFolder() + "/tests/golden/torch/interleaved1f1b_p4_v2_m8_comms.csv");
  std::vector<std::string> lines = Lines(rows);
  const size_t first = lines[0].find(',', lines[0].size() / 2);
  const size_t second = lines[1].find(',', lines[1].size() / 2);
  const std::string behind = lines[0].substr(first);
  lines[0] = lines[0].substr(0, first) + lines[1].substr(second);
  lines[1] = lines[1].substr(0, second) + behind;
  std::string exchanged;
  for (const std::string& line : lines) exchanged += line + "\n";
  WriteText(ScratchFolder() + "/exchanged.csv", exchanged);
  const Answer answer = RunHere("check exchanged.csv");
  EXPECT_EQ(answer.status, 1);
  int told = 0;
  for (const std::string& line : Lines(answer.out)) {
    told += line.find(": error: ") == std::string::npos ? 0 : 1;
  }
  EXPECT_EQ(told, 10) << answer.out;
  int all = 0;
  const auto json = OneObject(RunHere("check exchanged.csv --json").out);
  for (const auto& finding : json["findings"]) all += finding.value("count", 1);
  EXPECT_GT(all, 100);
  EXPECT_EQ(Lines(answer.out).back(),
            std::to_string(all - told) + " more errors of these kinds; --json has all of them");
}

TEST(CliTest, TruncatedSchedulesNeverCrash) {
  const std::string text = ReadText(SourceFolder() + "/schedules/dualpipe_v.sched");
  for (size_t length = 0; length < text.size(); length += 7) {
    WriteText(ScratchFolder() + "/cut.sched", text.substr(0, length));
    const Answer answer = RunHere("check cut.sched P=2 M=4");
    EXPECT_EQ(answer.status, 1) << length;
    EXPECT_NE(answer.out, "") << length;
  }
}

// Characters deleted, doubled, swapped and overwritten; no digits are added, so that no number
// becomes large enough to take long.
std::string Mutated(std::string text, std::mt19937* random) {
  constexpr absl::string_view kInserted = "{}()[];,&@=<>?:+-*/%.#\"\n FBIWPMrs\xc3\x80\x01";
  const int changes = 1 + static_cast<int>((*random)() % 4);
  for (int i = 0; i < changes && !text.empty(); ++i) {
    const size_t at = (*random)() % text.size();
    switch ((*random)() % 4) {
      case 0:
        text.erase(at, 1 + (*random)() % 8);
        break;
      case 1:
        text.insert(at, text.substr(at, 1 + (*random)() % 8));
        break;
      case 2:
        std::swap(text[at], text[(*random)() % text.size()]);
        break;
      default:
        text[at] = kInserted[(*random)() % kInserted.size()];
    }
  }
  return text;
}

TEST(CliTest, MutatedSchedulesNeverCrash) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  int clean = 0;
  for (const char* const name : {"1f1b", "dualpipe_v", "interleaved", "zb_v"}) {
    const std::string text = ReadText(SourceFolder() + "/schedules/" + name + ".sched");
    for (int i = 0; i < 150; ++i) {
      const std::string mutated = Mutated(text, &random);
      WriteText(ScratchFolder() + "/mutated.sched", mutated);
      const Answer answer = RunHere("show mutated.sched P=2 M=4 --json");
      ASSERT_LE(answer.status, 2) << "seed " << seed << "\n" << mutated;
      OneObject(answer.out);
      clean += answer.status == 0 ? 1 : 0;
    }
  }
  std::cout << "seed " << seed << ": " << clean << " of 600 still are schedules\n";
}

TEST(CliTest, NoCommandPrintsAnOverview) {
  const Answer answer = RunToolIn(ScratchFolder(), {});
  EXPECT_EQ(answer.status, 2);
  EXPECT_EQ(answer.out, "");
  for (const Command& command : Commands()) {
    EXPECT_NE(answer.err.find(command.summary), std::string::npos) << command.name;
  }
  EXPECT_EQ(RunHere("--help").status, 0);
  EXPECT_EQ(RunHere("--help").out, answer.err);
}

// The program names its own commit, as git does, or reports an unknown commit.
TEST(CliTest, VersionSaysTheCommit) {
  const Answer answer = ToolProcess(ScratchFolder(), {"--version"}).Wait();
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(answer.err, "");
  static const std::regex known(
      "stringline [0-9]+\\.[0-9]+\\.[0-9]+ \\(commit ([0-9a-f]{12}( with changes)?|not known: "
      "built "
      "outside git)\\)\n");
  EXPECT_TRUE(std::regex_match(answer.out, known)) << answer.out;
}

TEST(CliTest, EveryCommandHelpsWithAnExample) {
  for (const Command& command : Commands()) {
    const Answer answer = RunToolIn(ScratchFolder(), {command.name, "--help"});
    EXPECT_EQ(answer.status, 0);
    EXPECT_NE(answer.out.find(command.summary), std::string::npos) << command.name;
    EXPECT_NE(answer.out.find(std::string("Example:\n  ") + command.example), std::string::npos)
        << command.name;
    const bool answers = (command.options & kNoJson) == 0;
    EXPECT_EQ(answer.out.find("--json") != std::string::npos, answers) << command.name;
  }
}

TEST(CliTest, ExamplesOfTheHelpWork) {
  for (const Command& command : Commands()) {
    if (std::string(command.name) == "run") continue;  // trains for minutes
    if (std::string(command.name) == "lsp") continue;  // waits for an editor
    std::vector<std::string> words = Words(command.example);
    ASSERT_EQ(words[0], "stringline");
    words.erase(words.begin());
    EXPECT_EQ(RunToolIn(SourceFolder(), words).status, 0) << command.example;
  }
}

TEST(CliTest, SimulationAsJson) {
  const auto json = OneObject(RunAtTop("sim schedules/1f1b.sched P=4 M=8 --json").out);
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["schedule"], "one_f_one_b");
  EXPECT_EQ(json["parameters"]["P"], 4);
  EXPECT_EQ(json["makespan_us"], 33000);
  EXPECT_EQ(json["span_us"], 33000);
  EXPECT_DOUBLE_EQ(json["bubble"].get<double>(), 9.0 / 33.0);
  EXPECT_DOUBLE_EQ(json["busiest_bubble"].get<double>(), 9.0 / 33.0);
  EXPECT_DOUBLE_EQ(json["idlest_bubble"].get<double>(), 9.0 / 33.0);
  EXPECT_DOUBLE_EQ(json["span_bubble"].get<double>(), 9.0 / 33.0);
  EXPECT_EQ(json["actions"], 64);
  ASSERT_EQ(json["ranks"].size(), 4u);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(json["ranks"][rank]["peak_activations"], 4 - rank);
    EXPECT_EQ(json["ranks"][rank]["busy_us"], 24000);
    EXPECT_EQ(json["ranks"][rank]["idle_us"], 9000);
  }
}

// The last rank has the output layer: it is busy while the others wait.
TEST(CliTest, TheBubbleIsTheMeanOverRanks) {
  const auto json = OneObject(
      RunAtTop("sim schedules/zb_h1.sched P=8 M=16 --costs examples/06_where_the_time_goes/"
               "llama.yaml --json")
          .out);
  double idle_us = 0;
  for (const auto& rank : json["ranks"]) idle_us += rank["idle_us"].get<double>();
  const double makespan_us = json["makespan_us"];
  EXPECT_NEAR(json["bubble"], idle_us / 8 / makespan_us, 1e-9);
  EXPECT_EQ(json["busiest_rank"], 7);
  EXPECT_NEAR(json["busiest_bubble"], json["ranks"][7]["idle_us"].get<double>() / makespan_us,
              1e-9);
  EXPECT_EQ(json["idlest_rank"], 0);
  EXPECT_NEAR(json["idlest_bubble"], json["ranks"][0]["idle_us"].get<double>() / makespan_us, 1e-9);
  EXPECT_GT(json["bubble"], 0.34);
}

// At costs of a rank, or of the model, a schedule with twice the stages does the same work.
TEST(CliTest, SchedulesAreComparedAtEqualWork) {
  const std::string compare = "compare schedules/1f1b.sched schedules/interleaved.sched P=4 M=8 ";
  const std::string sweep = "sim schedules/1f1b.sched schedules/interleaved.sched P=4 --for M=8 ";
  const char* const note =
      "note: one_f_one_b has 4 stages and interleaved 8, and costs are for a stage: the second "
      "trains a larger model. With --work rank or --work model both do the same work.\n";
  for (const std::string& command : {compare, sweep}) {
    EXPECT_NE(RunAtTop(command).out.find(note), std::string::npos) << command;
    for (const char* const work : {"--work rank", "--work model --cost F=4ms,B=8ms"}) {
      EXPECT_EQ(RunAtTop(command + work).out.find("note"), std::string::npos) << work;
      const auto json = OneObject(RunAtTop(compare + work + " --json").out);
      EXPECT_EQ(json["first_makespan_us"], 33000) << work;
      EXPECT_EQ(json["second_makespan_us"], 28500) << work;
      EXPECT_EQ(json["unequal_work"], false);
    }
  }
  EXPECT_EQ(OneObject(RunAtTop(compare + "--json").out)["unequal_work"], true);
}

// The second side inherits the parameters of the first, except parameters that its schedule lacks.
TEST(CliTest, SidesOfAComparisonHaveTheirOwnParameters) {
  const auto makespan = [](const std::string& words) {
    return OneObject(RunAtTop("sim " + words + " --json").out)["makespan_us"];
  };
  const std::string deep = "schedules/interleaved.sched P=4 M=8", flat = "schedules/1f1b.sched";
  const auto compared = [](const std::string& words) {
    return OneObject(RunAtTop("compare " + words + " --json").out);
  };
  auto json = compared(deep + " V=4 --work rank -- schedules/interleaved.sched V=2");
  EXPECT_EQ(json["first_makespan_us"], makespan(deep + " V=4 --work rank"));
  EXPECT_EQ(json["second_makespan_us"], makespan(deep + " V=2 --work rank"));
  json = compared(deep + " V=4 --work rank -- " + flat);
  EXPECT_EQ(json["second_makespan_us"], makespan(flat + " P=4 M=8 --work rank"));
  json = compared(flat + " P=4 M=8 --cost F=10,B=20 -- " + flat + " M=16 --cost F=5,B=10");
  EXPECT_EQ(json["first_makespan_us"], makespan(flat + " P=4 M=8 --cost F=10,B=20"));
  EXPECT_EQ(json["second_makespan_us"], makespan(flat + " P=4 M=16 --cost F=5,B=10"));
  const auto refused = [](const std::string& words) { return RunAtTop("compare " + words); };
  EXPECT_EQ(refused(flat + " P=4 M=8 -- " + flat + " V=2").status, kUsage);
  EXPECT_EQ(refused(flat + " P=4 M=8 --").status, kUsage);
  EXPECT_EQ(refused(flat + " " + flat + " P=4 M=8 -- " + flat).status, kUsage);
}

// Some editors begin a text with a byte order mark.
TEST(CliTest, AByteOrderMarkIsReadOver) {
  WriteText(ScratchFolder() + "/mark.sched", std::string("\xEF\xBB\xBF") + kGood);
  WriteText(ScratchFolder() + "/mark.yaml",
            "\xEF\xBB\xBF"
            "F: 10\nB: 20\n");
  EXPECT_EQ(RunHere("sim mark.sched P=2 M=2 --costs mark.yaml").status, 0);
}

TEST(CliTest, NoFileIsWrittenThatIsRead) {
  WriteBadFiles();
  const std::string folder = ScratchFolder();
  const auto run = [](const std::string& line) { return RunHere(line); };
  ASSERT_EQ(run("sim good.sched P=2 M=2 --timeline t.timeline").status, 0);
  const std::string schedule = ReadText(folder + "/good.sched");
  const std::string timeline = ReadText(folder + "/t.timeline");
  for (const char* const line :
       {"show good.sched P=2 M=2 --svg good.sched", "show good.sched P=2 M=2 --html ./good.sched",
        "sim good.sched P=2 M=2 --timeline good.sched", "show t.timeline --chrome t.timeline",
        "compare t.timeline good.sched P=2 M=2 --perfetto good.sched",
        "calibrate t.timeline --out t.timeline"}) {
    const Answer answer = run(line);
    EXPECT_EQ(answer.status, kUsage) << line;
    EXPECT_NE(answer.err.find("that file is read; write into another one"), std::string::npos)
        << line << answer.err;
  }
  EXPECT_EQ(ReadText(folder + "/good.sched"), schedule);
  EXPECT_EQ(ReadText(folder + "/t.timeline"), timeline);
  EXPECT_EQ(run("show good.sched P=2 M=2 --svg a.x --html a.x").status, kUsage);
}

TEST(CliTest, SchedulesOfTheLibraryHaveNames) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(SourceFolder() + "/schedules")) {
    if (entry.path().extension() == ".sched") files.insert(entry.path().stem());
  }
  std::set<std::string> names;
  for (const LibrarySchedule& schedule : ScheduleLibrary()) names.insert(schedule.name);
  EXPECT_EQ(names, files);
  for (const char* const words : {"show $ P=4 M=8", "check $ --for P=2..3 --for M=P",
                                  "sim $ P=4 --for M=8..9", "compare $ $ P=4 M=8"}) {
    const auto answer = [&](const std::string& file) {
      std::string command = words;
      for (size_t at; (at = command.find('$')) != std::string::npos;) command.replace(at, 1, file);
      return RunAtTop(command + " --json");
    };
    EXPECT_EQ(answer("zb_v").status, kOk) << words << answer("zb_v").err;
  }
  EXPECT_EQ(RunAtTop("show zb_v P=4 M=8").out, RunAtTop("show schedules/zb_v.sched P=4 M=8").out);
  EXPECT_EQ(
      RunAtTop("show zbv P=4 M=8").err,
      "stringline: zbv: no such file, and no schedule of the library; did you mean 'zb_v'?\n");
  EXPECT_EQ(RunAtTop("show zb_v.sched P=4 M=8").status, kUsage);
}

// Hundreds of links fit a screen; --all shows them, and JSON always has them.
TEST(CliTest, LongExplanationsAreFolded) {
  for (const char* const words :
       {"1f1b 0B100 P=64 M=512", "1f1b 0B500 P=64 M=512 --cost F=7,B=16,p2p=2",
        "zb_v 3W100 P=16 M=512 --cost F=7,I=9,W=4,p2p=2"}) {
    const std::string explain = std::string("explain ") + words;
    const auto lines = [](const std::string& text) {
      return std::count(text.begin(), text.end(), '\n');
    };
    const auto links =
        static_cast<int64_t>(OneObject(RunAtTop(explain + " --json").out)["chain"].size());
    EXPECT_GT(links, 100) << words;
    const std::string folded = RunAtTop(explain).out;
    EXPECT_LE(lines(folded), 42) << folded;
    EXPECT_NE(folded.find("(--all shows every one)"), std::string::npos);
    EXPECT_GT(lines(RunAtTop(explain + " --all").out), links) << words;
  }
}

// A step, simulated alone and in a sweep, with every kind of cost.
TEST(CliTest, SimAndSimForAgree) {
  for (const char* const costs : {"F=10,I=9,W=8", "F=10,I=9,W=8,unshard=7,reduce=9",
                                  "F=10,I=9,W=8,p2p=3,message=1MB,bandwidth=1GB/s",
                                  "F=10,I=9,W=8,reduce=5 --work model", "p2p=100"}) {
    const std::string words = std::string("sim schedules/zb_v.sched P=4 --json --cost ") + costs;
    const auto alone = OneObject(RunAtTop(words + " M=8").out);
    const auto swept = OneObject(RunAtTop(words + " --for M=8").out)["points"][0]["schedules"][0];
    for (const char* const key :
         {"makespan_us", "bubble", "busiest_bubble", "idlest_bubble", "span_bubble", "actions"}) {
      EXPECT_EQ(alone[key], swept[key]) << costs << " " << key;
    }
  }
}

TEST(CliTest, PlanAsJson) {
  const auto json = OneObject(RunAtTop("plan schedules/1f1b.sched P=2 M=2 --json").out);
  EXPECT_EQ(json["ranks"][0], nlohmann::json({"0F0", "0F1", "0B0", "0B1"}));
  EXPECT_EQ(json["ranks"][1], nlohmann::json({"1F0", "1B0", "1F1", "1B1"}));
  EXPECT_EQ(json["stages"], nlohmann::json({0, 1}));
  EXPECT_EQ(json["lowered"], false);
  const auto lowered =
      OneObject(RunAtTop("plan schedules/1f1b.sched P=2 M=1 --lowered --json").out);
  EXPECT_EQ(lowered["ranks"][0], nlohmann::json({"0F0", "0SEND_F0", "0RECV_B0", "0B0"}));
}

TEST(CliTest, CheckAndShowAsJson) {
  const auto check = OneObject(RunAtTop("check schedules/zb_v.sched P=4 M=8 --json").out);
  EXPECT_EQ(check["ok"], true);
  EXPECT_EQ(check["actions"], 4 * 2 * 8 * 3);
  EXPECT_TRUE(check["findings"].empty());
  EXPECT_FALSE(check["proven"].empty());
  const auto show = OneObject(RunAtTop("show schedules/gpipe.sched P=2 M=1 --json").out);
  EXPECT_EQ(show["makespan_us"], 6000);
  EXPECT_EQ(show["ranks"][0][0]["action"], "0F0");
  EXPECT_EQ(show["ranks"][0][0]["end_us"], 1000);
}

// `show`, `check` and `sim` read the files that `sim --timeline` and `plan` write.
TEST(CliTest, WrittenFilesAreRead) {
  const std::string folder = ScratchFolder();
  const Answer sim =
      RunAtTop("sim schedules/dualpipe_v.sched P=2 M=4 --timeline " + folder + "/d.timeline");
  ASSERT_EQ(sim.status, 0) << sim.err;
  const Answer direct = RunAtTop("show schedules/dualpipe_v.sched P=2 M=4");
  EXPECT_EQ(RunHere("show d.timeline").out, direct.out);
  for (const char* const option : {"", " --lowered"}) {
    const Answer plan = RunAtTop(std::string("plan schedules/dualpipe_v.sched P=2 M=4") + option);
    WriteText(folder + "/d.plan", plan.out);
    EXPECT_EQ(RunHere(std::string("plan d.plan") + option).out, plan.out);
    EXPECT_EQ(RunHere("sim d.plan").out, sim.out);
    EXPECT_EQ(RunHere("check d.plan").status, 0);
  }
  // Into a folder that does not exist yet.
  const Answer exported = RunAtTop("export schedules/zb_v.sched P=2 M=4 --to torch-comms --out " +
                                   folder + "/a/b/z.csv");
  ASSERT_EQ(exported.status, 0) << exported.err;
  EXPECT_EQ(exported.out, "");
  EXPECT_EQ(RunHere("lint a/b/z.csv").status, 0);
  EXPECT_EQ(RunHere("import a/b/z.csv --out a/z.plan").status, 0);
  EXPECT_EQ(RunHere("export a/z.plan --to torch-comms").out, ReadText(folder + "/a/b/z.csv"));
  // Torch's form has no word for the inside of stages; that is said.
  EXPECT_EQ(exported.err, "");
  const Answer chunked =
      RunAtTop("export examples/07_mixture_of_experts/chunks.sched P=2 M=4 --to torch-compute");
  ASSERT_EQ(chunked.status, 0) << chunked.err;
  EXPECT_NE(chunked.err.find("without what the schedule says of the inside of stages: chunks 2\n"),
            std::string::npos)
      << chunked.err;
  EXPECT_EQ(RunHere("check d.plan P=2").status, 2);
  EXPECT_EQ(RunHere("show d.timeline P=2").status, 2);
  EXPECT_EQ(RunHere("sim d.timeline").status, 2);
}

// A plan with a line `messages` is checked and simulated by it; what issues messages in its own way
// refuses it.
TEST(CliTest, PlansThatSayHowMessagesAreIssued) {
  const std::string folder = ScratchFolder();
  const std::string batched = folder + "/batched.plan";
  const Answer imported = RunAtTop(
      "import tests/golden/import/megatron_batched.yaml num_microbatches=6 --out " + batched);
  ASSERT_EQ(imported.status, 0) << imported.err;
  const auto makespan = [&](const std::string& options) {
    return OneObject(RunHere("sim batched.plan --cost F=1ms,B=2ms,p2p=1ms --json" + options)
                         .out)["makespan_us"]
        .get<double>();
  };
  // A batch holds its rank until all its messages have ended.
  EXPECT_GT(makespan(""), makespan(" --messages early --layout edge"));
  EXPECT_EQ(makespan(""), makespan(" --messages as-written --layout shared"));
  EXPECT_NE(RunHere("check batched.plan").out.find("layout shared"), std::string::npos);
  EXPECT_NE(RunHere("check batched.plan --layout pair").out.find("layout pair"), std::string::npos);
  EXPECT_EQ(RunHere("plan batched.plan").out, ReadText(batched));
  for (const char* const line : {"rehearse batched.plan", "export batched.plan --to torch-comms"}) {
    const Answer answer = RunHere(line);
    EXPECT_EQ(answer.status, 2) << line;
    EXPECT_NE(answer.err.find("its line 'messages' says how another runtime issues messages"),
              std::string::npos)
        << answer.err;
  }
  const Answer explained = RunHere("explain batched.plan 0B0");
  EXPECT_EQ(explained.status, 2);
  EXPECT_NE(explained.err.find("its messages are issued as written"), std::string::npos)
      << explained.err;
}

// Commands take files and parameters in any order.
TEST(ToolTest, AFileMayHaveAnEqualsSignInItsName) {
  const std::string folder = ScratchFolder() + "/P=2";
  std::filesystem::create_directories(folder);
  const std::string csv = "/tests/golden/torch/zbvzerobubble_p2_v2_m4_compute.csv";
  WriteText(folder + "/M=4.csv", ReadText(SourceFolder() + csv));
  WriteText(ScratchFolder() + "/V=2.csv", ReadText(SourceFolder() + csv));
  for (const std::string& path : {folder + "/M=4.csv", std::string("V=2.csv")}) {
    const Answer answer = RunHere("import " + path);
    EXPECT_EQ(answer.status, 0) << answer.err;
  }
}

}  // namespace
}  // namespace stringline
