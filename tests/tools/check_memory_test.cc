// `check` counts bytes: with a model the bytes that a run allocates, exactly; with costs the bytes
// of the costs. `sim` and `report` name a rank with too little memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/tools/tool_run.h"
#include "tools/io/json.h"

namespace stringline {
namespace {

struct MemoryCase {
  const char* schedule;    // of the library, with its parameters
  const char* parameters;  // the same in a run file
  const char* model;
  const char* rest = "";  // other sections
};

constexpr char kGpt[] = "{layers: 8, width: 16, heads: 2, context: 8}";
constexpr char kTied[] = "{layers: 9, width: 24, heads: 2, context: 8, tied: true}";
constexpr char kLlama[] =
    "{kind: llama, layers: 8, width: 16, heads: 4, kv_heads: 2, hidden: 40, context: 12}";
constexpr char kMoe[] =
    "{kind: moe, layers: 8, width: 16, heads: 2, context: 8, experts: 4, top_k: 2, "
    "expert_hidden: 24, shared_hidden: 8}";

const MemoryCase kCases[] = {
    {"gpipe P=2 M=3", "P: 2, M: 3", kGpt},
    {"1f1b P=4 M=6", "P: 4, M: 6", kGpt},
    {"1f1b P=3 M=5", "P: 3, M: 5", kTied},
    {"1f1b P=4 M=4", "P: 4, M: 4", kLlama, "train_more: recompute: all"},
    {"interleaved P=2 M=4 V=4", "P: 2, M: 4, V: 4", kLlama},
    {"zb_h1 P=4 M=7", "P: 4, M: 7", kLlama, "precision: bf16"},
    {"zb_v P=2 M=5", "P: 2, M: 5", kMoe},
    {"dualpipe_v P=2 M=6", "P: 2, M: 6", kMoe, "precision: bf16"},
    {"dualpipe_v P=4 M=8", "P: 4, M: 8", kMoe, "mesh: {data: 1, expert: 2}"},
    {"zb_h2 P=2 M=4", "P: 2, M: 4", kGpt, "mesh: {data: 2}"},
    {"chimera P=4 M=4", "P: 4, M: 4", kGpt},
    {"dualpipe P=4 M=8", "P: 4, M: 8", kLlama},
    {"1f1b P=2 M=3", "P: 2, M: 3", kGpt, "sharding: optimizer\nmesh: {data: 3}"},
    {"dualpipe_v P=2 M=6", "P: 2, M: 6", kMoe,
     "sharding: gradients\nprecision: bf16\nmesh: {data: 2, expert: 2}"},
    {"interleaved P=2 M=4 V=4", "P: 2, M: 4, V: 4", kLlama,
     "sharding: parameters\nmesh: {data: 4, shard: 2}\nbucket: 4KiB"},
    {"1f1b P=3 M=5", "P: 3, M: 5", kTied, "sharding: parameters\nmesh: {data: 2}"},
    {"zb_v P=2 M=5", "P: 2, M: 5", kMoe,
     "sharding: parameters\nprecision: bf16\nmesh: {data: 2, expert: 2}"},
    {"dualpipe P=4 M=8", "P: 4, M: 8", kLlama, "sharding: parameters\nmesh: {data: 2}"},
    {"gpipe P=2 M=3", "P: 2, M: 3", kGpt, "sharding: parameters"},
};

// A run file of two steps; `train_more: K: V` puts a key into `train`.
std::string RunFileOf(const MemoryCase& test) {
  const std::string name = Words(test.schedule).front();
  std::string rest = test.rest, train = "steps: 2, learning_rate: 1e-3";
  constexpr char kTrain[] = "train_more: ";
  if (rest.rfind(kTrain, 0) == 0) {
    absl::StrAppend(&train, ", ", rest.substr(sizeof(kTrain) - 1));
    rest.clear();
  }
  return absl::StrCat("schedule: {file: ", SourceFolder(), "/schedules/", name, ".sched, ",
                      test.parameters, "}\nmodel: ", test.model,
                      "\ndata: {text: words.txt, microbatch: 2}\ntrain: {", train,
                      "}\ndevice: cpu\n", rest, "\n");
}

Json Parsed(const Answer& answer) { return Json::parse(answer.out, nullptr, false); }

TEST(CheckMemory, CountsWhatARunAllocatesToTheByte) {
  const std::string folder = ScratchFolder();
  std::string text;
  for (int line = 0; line < 400; ++line) absl::StrAppend(&text, "line ", line, " of a text\n");
  WriteText(folder + "/words.txt", text);
  for (const MemoryCase& test : kCases) {
    SCOPED_TRACE(absl::StrCat(test.schedule, " ", test.model, " ", test.rest));
    WriteText(folder + "/run.yaml", RunFileOf(test));
    const Answer ran = RunToolIn(folder, Words("run run.yaml --out made --json"));
    ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
    const Json ranks = Parsed(ran)["peak_bytes"];
    const std::string check = absl::StrCat("check ", test.schedule, " --model run.yaml --json");
    const Json proof = Parsed(RunToolIn(folder, Words(check)));
    ASSERT_TRUE(proof["ok"].get<bool>()) << proof;
    const Json bytes = proof["bytes"];
    ASSERT_GT(bytes.size(), 0u);
    ASSERT_EQ(ranks.size() % bytes.size(), 0u);
    int64_t most = 0;
    for (size_t r = 0; r < ranks.size(); ++r) {
      EXPECT_EQ(bytes[r % bytes.size()], ranks[r]["allocated"]) << "rank " << r;
      most = std::max(most, ranks[r]["allocated"].get<int64_t>());
    }
    const auto fits = [&](int64_t limit) {
      return RunToolIn(folder, Words(absl::StrCat(check, " --memory ", limit, "B"))).status;
    };
    EXPECT_EQ(fits(most), 0);
    EXPECT_EQ(fits(most - 1), 1);
  }
}

constexpr char kLlama8B[] = " --costs examples/06_where_the_time_goes/llama.yaml";

Answer AtTop(const std::string& line) { return RunToolIn(SourceFolder(), Words(line)); }

TEST(CheckMemory, CountsTheBytesOfCosts) {
  const std::string check = absl::StrCat("check zb_h1 P=8 M=16", kLlama8B);
  // 80 GB are 74.51 GiB, also as the hardware file's default.
  for (const char* const memory : {"", " --memory 80GB"}) {
    const Answer fits = AtTop(check + memory);
    EXPECT_EQ(fits.status, 0) << fits.out;
    EXPECT_NE(fits.out.find("of at most 74.51 GiB"), std::string::npos) << fits.out;
    EXPECT_NE(fits.out.find("collectives, memory"), std::string::npos) << fits.out;
  }
  const Answer full = AtTop(check + " --memory 40GB");
  EXPECT_EQ(full.status, 1);
  EXPECT_NE(full.out.find("more than 37.25 GiB"), std::string::npos) << full.out;
  // GPipe keeps every microbatch.
  EXPECT_EQ(AtTop(absl::StrCat("check gpipe P=8 M=32", kLlama8B)).status, 1);
}

// By hand: two stages, 100 bytes always and 10 a microbatch; GPipe holds three of them.
TEST(CheckMemory, CountsTheMemoryKeysByHand) {
  const std::string check =
      "check gpipe P=2 M=3 --cost F=1,B=2,memory.weights=60,memory.gradients=40,"
      "memory.saved_for_I=1KiB";
  const Json proof = Parsed(AtTop(check + " --json"));
  ASSERT_TRUE(proof["ok"].get<bool>()) << proof;
  for (const Json& bytes : proof["bytes"]) EXPECT_EQ(bytes, 100 + 3 * 1024);
  EXPECT_FALSE(proof.contains("memory"));
  EXPECT_EQ(AtTop(check + " --memory 3172B").status, 0);
  EXPECT_EQ(AtTop(check + " --memory 3171B").status, 1);
  EXPECT_EQ(AtTop(check + ",memory.capacity=3171").status, 1);
  EXPECT_EQ(AtTop(check + ",memory.capacity=3172").status, 0);
  // The option overrides the costs.
  EXPECT_EQ(AtTop(check + ",memory.capacity=9 --memory 3172B").status, 0);
}

TEST(CheckMemory, SaysWhatIsMissing) {
  for (const char* const line :
       {"check 1f1b P=2 M=2 --memory 80GB", "check 1f1b P=2 M=2 --cost F=1,B=2 --memory 80GB"}) {
    const Answer answer = AtTop(line);
    EXPECT_EQ(answer.status, 2) << line;
    EXPECT_NE(answer.err.find("nothing says how many bytes"), std::string::npos) << answer.err;
  }
}

// Rank 0 of two holds both microbatches' 400 bytes from 10 us on: more than its capacity of 600.
TEST(CheckMemory, SimAndReportNameTheRankThatHoldsTooMuch) {
  const std::string costs =
      " gpipe P=2 M=2 --cost F=10,B=20,p2p=1,memory.saved_for_I=[400,200],memory.capacity=600";
  for (const std::string command : {"sim", "report"}) {
    const Answer answer = AtTop(command + costs);
    EXPECT_EQ(answer.status, 0) << answer.err;
    EXPECT_NE(answer.out.find("rank 0 holds 800 B at 10 us, more than it can from 10 us on"),
              std::string::npos)
        << answer.out;
    EXPECT_EQ(answer.out.find("rank 1 holds"), std::string::npos) << answer.out;
    const Json json = Parsed(AtTop(command + costs + " --json"));
    EXPECT_EQ(json["memory_capacity"], 600);
    EXPECT_EQ(json["overfull"], Json::parse(R"([{"rank":0,"peak":800,"at_us":10,"from_us":10}])"));
    EXPECT_EQ(
        Parsed(AtTop(command + absl::StrCat(" zb_h1 P=8 M=16", kLlama8B, " --json")))["overfull"],
        Json::array());
    EXPECT_FALSE(Parsed(AtTop(command + " 1f1b P=2 M=2 --json")).contains("overfull"));
  }
}

}  // namespace
}  // namespace stringline
