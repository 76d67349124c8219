// `stringline run`: a small training run from its files to its files, and bad ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "executor/checkpoint/tensor_header.h"
#include "tests/tools/prepared_run.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

TEST(RunTest, TrainsAndLeavesFilesThatAreRead) {
  const std::string folder = PrepareRun();
  const Answer answer = RunToolIn(folder, Words("run run.yaml --out made/here --json"));
  ASSERT_EQ(answer.status, 0) << answer.out << answer.err;
  EXPECT_EQ(answer.err, "");
  const auto json = nlohmann::json::parse(answer.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << answer.out;
  EXPECT_EQ(json["schedule"], "zb_h1");
  EXPECT_EQ(json["steps"], 6);
  EXPECT_EQ(json["tokens_per_step"], 4 * 2 * 8);
  EXPECT_LT(json["final_loss_nats"], json["first_loss_nats"]);
  EXPECT_GT(json["measured_us"], 0);
  EXPECT_GT(json["simulated_us"], 0);
  EXPECT_EQ(json["losses"].size(), 6u);
  EXPECT_EQ(json["network_us"], 0);
  EXPECT_EQ(json["dropped"], 0);
  ASSERT_EQ(json["peak_bytes"].size(), 2u);
  EXPECT_EQ(json["peak_bytes"][1]["allocated"], json["peak_bytes"][1]["planned"]);
  ASSERT_EQ(json["files"].size(), 4u);
  for (const auto& file : json["files"]) {
    EXPECT_TRUE(std::filesystem::exists(folder + "/" + file.get<std::string>())) << file;
  }
  EXPECT_EQ(RunToolIn(folder, Words("show made/here/measured.timeline")).status, 0);
  const Answer sim =
      RunToolIn(folder, Words("sim s.sched P=2 M=4 --costs made/here/costs.yaml --json"));
  ASSERT_EQ(sim.status, 0) << sim.out;
  EXPECT_EQ(nlohmann::json::parse(sim.out)["makespan_us"], json["simulated_us"]);
  const std::string losses = ReadText(folder + "/made/here/losses.csv");
  EXPECT_EQ(std::count(losses.begin(), losses.end(), '\n'), 7);
  EXPECT_EQ(losses.find("step,loss_nats,grad_norm,learning_rate\n1,"), 0u);
  EXPECT_TRUE(json["stopped"].is_null());
  EXPECT_EQ(json["saved"], nlohmann::json::array());
  EXPECT_FALSE(std::filesystem::exists(folder + "/made/here/losses.csv.part"));
}

// An encoder reads half of each sample's tokens, and only the others have targets.
TEST(RunTest, CountsSamples) {
  constexpr int kSamples = 5, kTokens = 8, kTargets = 4;
  const std::string folder = PrepareRun(
      "model: {layers: 2, width: 16, heads: 2, context: 8}\ndata: {text: words.txt",
      "model: {kind: encoder_decoder, layers: 2, encoder_layers: 1, width: 16, heads: 2, "
      "context: 8, source: 4}\ndata: {samples: samples.safetensors");
  const std::vector<int32_t> numbers(kSamples * (kTokens + kTargets), 7);
  const uint64_t input = kSamples * kTokens * sizeof(int32_t);
  const uint64_t all = numbers.size() * sizeof(int32_t);
  const TensorHeader header = {{{"input", "I32", {kSamples, kTokens}, 0, input},
                                {"target", "I32", {kSamples, kTargets}, input, all}},
                               {}};
  WriteText(
      folder + "/samples.safetensors",
      PrintTensorHeader(header) + std::string(reinterpret_cast<const char*>(numbers.data()), all));
  const Answer answer = RunToolIn(folder, Words("run run.yaml --out made"));
  EXPECT_EQ(answer.status, 0) << answer.err;
  for (const char* const says : {"samples: samples.safetensors, 5 of them\n",
                                 "6 steps of 8 samples in ", " samples/s\n", " nats per target"}) {
    EXPECT_NE(answer.out.find(says), std::string::npos) << says << "\n" << answer.out;
  }
}

// Every line is a document: their lengths say the same as the byte with which they end.
TEST(RunTest, PacksDocuments) {
  const std::string folder = PrepareRun("text: words.txt", "text: words.txt, packed: {end: 10}");
  const std::string ends = ReadText(folder + "/run.yaml");
  const std::string lengths = absl::StrReplaceAll(ends, {{"{end: 10}", "lengths.txt"}});
  std::string lines;
  for (int i = 0; i < 200; ++i) absl::StrAppend(&lines, "19\n");
  WriteText(folder + "/lengths.txt", lines);
  WriteText(folder + "/lengths.yaml", lengths);
  const Answer answer = RunToolIn(folder, Words("run run.yaml --out made --json"));
  ASSERT_EQ(answer.status, 0) << answer.out << answer.err;
  const auto losses = nlohmann::json::parse(answer.out)["losses"];
  const Answer text = RunToolIn(folder, Words("run lengths.yaml --out made"));
  EXPECT_EQ(text.status, 0) << text.err;
  for (const char* const says :
       {"packed: 200 documents; the last token of a document predicts nothing\n",
        "the costs are means over microbatches, whose documents differ: `microbatch.tokens` in "
        "a "}) {
    EXPECT_NE(text.out.find(says), std::string::npos) << text.out;
  }
  const Answer same = RunToolIn(folder, Words("run lengths.yaml --out made --json"));
  EXPECT_EQ(nlohmann::json::parse(same.out)["losses"], losses);
  const Answer program = RunToolIn(folder, Words("program run.yaml"));
  EXPECT_NE(program.out.find("packed_attention"), std::string::npos) << program.err;

  EXPECT_EQ(RunToolIn(folder, Words("run run.yaml --text words.txt --out made")).status, 0);
  const Answer other = RunToolIn(folder, Words("run lengths.yaml --text words.txt"));
  EXPECT_EQ(other.err,
            "stringline: --text: 'packed' of lengths.yaml has the lengths of other documents; "
            "{end: TOKEN} would help\n");
  WriteText(folder + "/lengths.txt", lines + "1\n");
  const Answer wrong = RunToolIn(folder, Words("run lengths.yaml"));
  EXPECT_EQ(wrong.err,
            "stringline: lengths.txt:201: with this document of 1 tokens there are more than the "
            "3800 of the data; 0 were left\n");
  EXPECT_NE(wrong.status, 0);
  std::filesystem::remove(folder + "/lengths.txt");
  EXPECT_NE(RunToolIn(folder, Words("run lengths.yaml")).err.find("lengths.txt"),
            std::string::npos);
}

// The words of another text, so that its losses are others.
std::string PrepareEvaluatedRun(const std::string& evaluate) {
  const std::string folder = PrepareRun("train:", absl::StrCat("evaluate: ", evaluate, "\ntrain:"));
  WriteText(folder + "/valid.txt",
            absl::StrReplaceAll(ReadText(folder + "/words.txt"), {{"the", "one"}, {"e", "o"}}));
  return folder;
}

TEST(RunTest, EvaluatesOnOtherDataBetweenSteps) {
  const std::string folder = PrepareEvaluatedRun("{every: 2, text: valid.txt, sequences: 16}");
  const Answer answer = RunToolIn(folder, Words("run run.yaml --out made --save model --json"));
  ASSERT_EQ(answer.status, 0) << answer.out << answer.err;
  const auto json = nlohmann::json::parse(answer.out);
  ASSERT_EQ(json["validations"].size(), 3u);
  for (size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(json["validations"][k]["step"], 2 * (k + 1));
    EXPECT_EQ(json["validations"][k]["sequences"], 16);
  }
  EXPECT_LT(json["validations"][2]["loss_nats"], json["validations"][0]["loss_nats"]);
  const std::string losses = ReadText(folder + "/made/losses.csv");
  EXPECT_EQ(losses.find("step,loss_nats,grad_norm,learning_rate,validation_nats\n1,"), 0u);
  const std::string last = losses.substr(losses.rfind(',') + 1);
  EXPECT_EQ(std::stod(last), json["validations"][2]["loss_nats"].get<double>()) << losses;
  // The training is the one without evaluations.
  WriteText(folder + "/plain.yaml",
            absl::StrReplaceAll(ReadText(folder + "/run.yaml"),
                                {{"evaluate: {every: 2, text: valid.txt, sequences: 16}\n", ""}}));
  const Answer plain = RunToolIn(folder, Words("run plain.yaml --out plain --json"));
  ASSERT_EQ(plain.status, 0) << plain.out << plain.err;
  EXPECT_EQ(nlohmann::json::parse(plain.out)["losses"], json["losses"]);
  EXPECT_EQ(nlohmann::json::parse(plain.out)["validations"], nlohmann::json::array());
  // The saved parameters have the last evaluation's loss, whatever performs the forwards.
  const auto alone = [&](const std::string& more) {
    const Answer told = RunToolIn(folder, Words("run run.yaml --evaluate --json " + more));
    EXPECT_EQ(told.status, 0) << told.out << told.err;
    return nlohmann::json::parse(told.out)["validations"][0]["loss_nats"];
  };
  EXPECT_EQ(alone("--load model"), json["validations"][2]["loss_nats"]);
  EXPECT_NE(alone(""), json["validations"][2]["loss_nats"]);
  EXPECT_NE(alone("--load model --text words.txt"), json["validations"][2]["loss_nats"]);
  EXPECT_FALSE(std::filesystem::exists(folder + "/out"));
  const Answer text = RunToolIn(folder, Words("run run.yaml --evaluate --load model"));
  EXPECT_NE(text.out.find("nats per byte: 16 sequences of 8 tokens of valid.txt"),
            std::string::npos)
      << text.out;
}

TEST(RunTest, EvaluationsMayHaveAScheduleOfTheirOwn) {
  const std::string inference = SourceFolder() + "/schedules/inference.sched";
  const std::string folder =
      PrepareEvaluatedRun(absl::StrCat("{every: 3, text: valid.txt, schedule: ", inference, "}"));
  const std::string forwards = PrepareEvaluatedRun("{every: 3, text: valid.txt}");
  const auto validations = [](const std::string& of) {
    const Answer answer = RunToolIn(of, Words("run run.yaml --json"));
    EXPECT_EQ(answer.status, 0) << answer.out << answer.err;
    return nlohmann::json::parse(answer.out)["validations"];
  };
  const auto own = validations(folder);
  EXPECT_EQ(own.size(), 2u);
  EXPECT_EQ(own, validations(forwards));
}

TEST(RunTest, BadEvaluationsGiveOneMessage) {
  const struct {
    const char* evaluate;
    const char* says;
  } bad[] = {
      {"{every: 2}", "evaluate: expected one of text, tokens and samples"},
      {"{text: valid.txt}", "evaluate.every"},
      {"{every: 2, text: none.txt}", "none.txt"},
      {"{every: 0, text: valid.txt}", "evaluate.every: 0 is not in 1"},
      {"{every: 2, text: valid.txt, sequence: 8}", "did you mean 'sequences'"},
      {"{every: 2, text: valid.txt, sequences: 9}",
       "`evaluate.sequences` is 9, but a run of the forwards has 8, 4 microbatches of 2"},
      {"{every: 2, text: valid.txt, dtype: uint16}", "only evaluate.tokens has one"},
      {"{every: 2, text: valid.txt, schedule: s.sched}", "the schedule has backwards"},
      {"{every: 2, text: valid.txt, schedule: none.sched}", "none.sched"},
  };
  for (const auto& [evaluate, says] : bad) {
    const std::string folder = PrepareEvaluatedRun(evaluate);
    const Answer answer = RunToolIn(folder, Words("run run.yaml --out never"));
    EXPECT_EQ(answer.status, 2) << evaluate << answer.out << answer.err;
    EXPECT_NE(answer.err.find(says), std::string::npos) << evaluate << "\n" << answer.err;
    EXPECT_EQ(answer.out, "") << evaluate;
  }
  const Answer both = RunToolIn(PrepareRun(), Words("run run.yaml --evaluate --save model"));
  EXPECT_NE(both.status, 0);
  EXPECT_NE(both.err.find("--save excludes --evaluate"), std::string::npos) << both.err;
}

// A finding of `check --layout` refuses the run before anything else is read.
TEST(RunTest, ALayoutInWhichThePlanHangsIsRefused) {
  const std::string folder = PrepareRun("{file: s.sched, P: 2, M: 4}", "{file: p.plan}");
  WriteText(folder + "/p.plan",
            ReadText(SourceFolder() + "/examples/03_find_a_deadlock/both_send_first.plan"));
  for (const char* const layout : {"pair", "shared"}) {
    const Answer answer =
        RunToolIn(folder, Words(absl::StrCat("run run.yaml --out hangs --layout ", layout)));
    const Answer check = RunToolIn(folder, Words(absl::StrCat("check p.plan --layout ", layout)));
    EXPECT_EQ(answer.status, check.status);
    EXPECT_NE(check.status, 0);
    EXPECT_EQ(answer.err, check.out);
    EXPECT_NE(answer.err.find("waits forever at"), std::string::npos) << answer.err;
    EXPECT_FALSE(std::filesystem::exists(folder + "/hangs"));
  }
  for (const char* const layout : {"edge", "updown"}) {
    const Answer answer =
        RunToolIn(folder, Words(absl::StrCat("run run.yaml --out ends --layout ", layout)));
    EXPECT_EQ(answer.status, 0) << answer.err;
  }
}

// The checker is not asked: the order is performed, and hangs by itself.
TEST(RunTest, StrictFindsThePlanThatHangs) {
  const std::string folder = PrepareRun("{file: s.sched, P: 2, M: 4}", "{file: p.plan}");
  WriteText(folder + "/p.plan",
            ReadText(SourceFolder() + "/examples/03_find_a_deadlock/both_send_first.plan"));
  for (const char* const layout : {"pair", "shared"}) {
    const std::string words = absl::StrCat("run run.yaml --out hangs --strict --layout ", layout);
    const Answer answer = RunToolIn(folder, Words(words));
    EXPECT_EQ(answer.status, 1);
    EXPECT_EQ(answer.out, "");
    for (const std::string& part :
         {absl::StrCat("stringline: both_send_first hangs in layout ", layout, ": deadlock: "),
          std::string("rank 0's send stream to rank 1 waits for somebody to receive"),
          std::string("for down[0]SEND_F0 (p.plan:5)"), std::string("for up[0]SEND_F0 (p.plan:6)"),
          std::string("rank 1's computation waits for down[1]RECV_F0 (p.plan:6)"),
          std::string("p.plan:5:19: error: rank 0 waits forever at down[0]SEND_F0")}) {
      EXPECT_NE(answer.err.find(part), std::string::npos) << part << "\nin: " << answer.err;
    }
    const auto json =
        nlohmann::json::parse(RunToolIn(folder, Words(words + " --json")).out, nullptr, false);
    ASSERT_TRUE(json.is_object());
    EXPECT_EQ(json.at("ok"), false);
    EXPECT_NE(json.at("hang").get<std::string>().find("hangs in layout"), std::string::npos);
    EXPECT_EQ(json.at("findings").size(), 1u);
    EXPECT_FALSE(std::filesystem::exists(folder + "/hangs"));
  }
  for (const char* const layout : {"edge", "updown"}) {
    const Answer answer = RunToolIn(
        folder, Words(absl::StrCat("run run.yaml --out ends --strict --layout ", layout)));
    EXPECT_EQ(answer.status, 0) << answer.err;
  }
}

// A cycle of computations, which no layout can help.
TEST(RunTest, StrictFindsTheScheduleThatHangs) {
  const std::string folder = PrepareRun();
  WriteText(folder + "/s.sched",
            ReadText(SourceFolder() + "/examples/03_find_a_deadlock/broken.sched"));
  const Answer answer = RunToolIn(folder, Words("run run.yaml --out hangs --strict"));
  EXPECT_EQ(answer.status, 1);
  EXPECT_NE(answer.err.find("rank 0's computation waits for 3RECV_F0 (s.sched:9)"),
            std::string::npos)
      << answer.err;
  // Any other mistake is a finding, as without --strict.
  WriteText(folder + "/s.sched", "schedule s(P, M) { stages P on line; rank r { F r; } }\n");
  const Answer wrong = RunToolIn(folder, Words("run run.yaml --out hangs --strict"));
  EXPECT_EQ(wrong.status, 1);
  EXPECT_EQ(wrong.err, RunToolIn(folder, Words("run run.yaml --out hangs")).err);
}

TEST(RunTest, StrictTrainsWithTheSameLosses) {
  const std::string folder = PrepareRun();
  const auto losses = [&](const std::string& options) {
    const Answer answer = RunToolIn(folder, Words("run run.yaml --out made --json " + options));
    EXPECT_EQ(answer.status, 0) << answer.out;
    return nlohmann::json::parse(answer.out).at("losses");
  };
  const auto usual = losses("");
  for (const char* const layout : {"edge", "pair", "updown", "shared"}) {
    EXPECT_EQ(losses(absl::StrCat("--strict --layout ", layout)), usual) << layout;
  }
}

TEST(RunTest, ARunFileMaySayTheLayout) {
  const std::string folder = PrepareRun("train:", "nccl: {layout: shared}\ntrain:");
  const Answer shared = RunToolIn(folder, Words("run run.yaml --out made --json"));
  EXPECT_NE(ReadText(folder + "/made/measured.timeline").find("layout shared"), std::string::npos);
  const Answer edge = RunToolIn(folder, Words("run run.yaml --out made --json --layout edge"));
  ASSERT_EQ(shared.status, 0) << shared.out;
  ASSERT_EQ(edge.status, 0) << edge.out;
  const auto losses = [](const Answer& answer) {
    return nlohmann::json::parse(answer.out).at("losses");
  };
  EXPECT_EQ(losses(shared), losses(edge));
  EXPECT_EQ(ReadText(folder + "/made/measured.timeline").find("layout shared"), std::string::npos);
}

// A mixture of experts, shared out over two ranks, whose forwards run beside backwards. Experts
// take no more rows than their even share.
std::string PrepareExperts() {
  const std::string folder = PrepareRun();
  WriteText(folder + "/s.sched", ReadText(SourceFolder() + "/schedules/dualpipe_v.sched"));
  WriteText(folder + "/run.yaml",
            "schedule: {file: s.sched, P: 2, M: 4}\n"
            "model: {kind: moe, layers: 4, width: 16, heads: 2, context: 8, experts: 4, top_k: 2,\n"
            "        expert_hidden: 8, aux_coefficient: 0.01, capacity: 1, exceeded: drop}\n"
            "data: {text: words.txt, microbatch: 2}\n"
            "mesh: {expert: 2}\n"
            "train: {steps: 4, learning_rate: 1e-2}\n");
  return folder;
}

TEST(RunTest, OfExpertsSaysWhatAProgramWantsToKnow) {
  const std::string folder = PrepareExperts();
  const Answer answer = RunToolIn(folder, Words("run run.yaml --out made --json --link 200us"));
  ASSERT_EQ(answer.status, 0) << answer.out << answer.err;
  const auto json = nlohmann::json::parse(answer.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << answer.out;
  ASSERT_EQ(json["losses"].size(), 4u);
  // Steps are not captured on a CPU, which is the host itself.
  EXPECT_EQ(json.at("host_us"), nullptr);
  EXPECT_EQ(json.at("not_captured"), nullptr);
  EXPECT_EQ(json["losses"][0], json["first_loss_nats"]);
  EXPECT_GT(json["tokens_per_second"], 0);
  EXPECT_EQ(json["tokens_per_step"], 2 * 4 * 2 * 8);
  EXPECT_GT(json["step_us"]["mean"], 0);
  EXPECT_EQ(json["step_us"]["last"], json["measured_us"]);
  EXPECT_EQ(json["predicted_us"], json["simulated_us"]);
  // Coordinate 0 performs four exchanges for each of 4 layers and 4 microbatches.
  EXPECT_GE(json["network_us"], 4 * 4 * 4 * 200);
  EXPECT_GE(json["exposed_us"], 0);
  EXPECT_LE(json["exposed_us"], json["network_us"]);
  EXPECT_GT(json["aux_loss"], 0);
  EXPECT_GT(json["dropped"], 0);
  ASSERT_EQ(json["peak_bytes"].size(), 4u);
  for (const auto& rank : json["peak_bytes"]) {
    EXPECT_GT(rank["planned"], 10'000);
    EXPECT_EQ(rank["allocated"], rank["planned"]);
  }
  const std::string costs = ReadText(folder + "/made/costs.yaml");
  for (const char* const key : {"F.attn: [", "F.dispatch: [", "B.post: [", "W.experts: [",
                                "layers: [1, 1, 1, 1]", "reduce: ["}) {
    EXPECT_NE(costs.find(key), std::string::npos) << key << "\n" << costs;
  }
  EXPECT_EQ(costs.find("FB:"), std::string::npos) << costs;
  const Answer sim = RunToolIn(folder, Words("sim s.sched P=2 M=4 --costs made/costs.yaml --json"));
  ASSERT_EQ(sim.status, 0) << sim.out;
  EXPECT_EQ(nlohmann::json::parse(sim.out)["makespan_us"], json["simulated_us"]);
}

TEST(RunTest, OfExpertsSaysWhatIsHiddenAndWhatIsDropped) {
  const std::string folder = PrepareExperts();
  const Answer answer = RunToolIn(folder, Words("run run.yaml --out made --steps 2"));
  ASSERT_EQ(answer.status, 0) << answer.out << answer.err;
  for (const char* const words :
       {"all-to-alls of these steps: on average ", "% of the transfer under computation",
        "slots beyond the capacity of their experts, in 2 steps"}) {
    EXPECT_NE(answer.out.find(words), std::string::npos) << words << "\n" << answer.out;
  }
  EXPECT_EQ(answer.out.find("\nhost: "), std::string::npos) << answer.out;
}

TEST(RunTest, SaysWhatHappens) {
  const std::string folder = PrepareRun();
  const Answer answer = RunToolIn(folder, Words("run run.yaml --out made --steps 2"));
  ASSERT_EQ(answer.status, 0) << answer.out << answer.err;
  for (const char* const words :
       {"one byte back", "step 1/2 ", "step 2/2 ", "tokens/s", "predicted ", "made/costs.yaml"}) {
    EXPECT_NE(answer.out.find(words), std::string::npos) << words << "\n" << answer.out;
  }
}

// Two steps at once: the training of six steps one after the other, told step by step.
TEST(RunTest, SeveralStepsAtOnce) {
  const std::string folder = PrepareRun("steps: 6", "steps: 6, clip_norm: 0");
  const Answer one = RunToolIn(folder, Words("run run.yaml --out one"));
  ASSERT_EQ(one.status, 0) << one.err;
  const std::string text = ReadText(folder + "/run.yaml");
  WriteText(folder + "/run.yaml", absl::StrReplaceAll(text, {{"M: 4}", "M: 4, steps: 2}"}}));
  const Answer two = RunToolIn(folder, Words("run run.yaml --out two"));
  ASSERT_EQ(two.status, 0) << two.err;
  for (const char* const words : {"P=2 M=4 steps=2: ", "The last 2 steps, and what ",
                                  " runs of the schedule that gave the costs", "step 6/6 "}) {
    EXPECT_NE(two.out.find(words), std::string::npos) << words << "\n" << two.out;
  }
  EXPECT_EQ(ReadText(folder + "/two/losses.csv"), ReadText(folder + "/one/losses.csv"));
  const Answer odd = RunToolIn(folder, Words("run run.yaml --out odd --steps 5"));
  EXPECT_EQ(odd.status, 2);
  EXPECT_EQ(odd.err,
            "stringline: `train.steps` is 5, but the schedule performs 2 steps at once: a multiple "
            "of 2 would help\n");
}

// The costs of a run are those of its simulation, also of R, copies and updates.
TEST(RunTest, CostsOfEveryActionAreWritten) {
  const std::pair<const char*, const char*> cases[] = {
      {"mario", "\nR: ["}, {"copies.sched", "\nU: ["}, {"pipedream_2bw", "\nUPDATE: ["}};
  for (const auto& [schedule, key] : cases) {
    const std::string folder = PrepareRun("steps: 6", "steps: 8, clip_norm: 0");
    WriteText(folder + "/copies.sched",
              "use \"1f1b\"; schedule copies(P, M) = one_f_one_b(P, M) then offload by 0;\n");
    const std::string text = ReadText(folder + "/run.yaml");
    WriteText(folder + "/run.yaml", absl::StrReplaceAll(text, {{"s.sched", schedule}}));
    const Answer run = RunToolIn(folder, Words("run run.yaml --out made --json"));
    ASSERT_EQ(run.status, 0) << run.out;
    const Answer sim = RunToolIn(
        folder, Words(absl::StrCat("sim ", schedule, " P=2 M=4 --costs made/costs.yaml --json")));
    ASSERT_EQ(sim.status, 0) << sim.out;
    const std::string costs = ReadText(folder + "/made/costs.yaml");
    EXPECT_NE(costs.find(key), std::string::npos) << schedule << "\n" << costs;
    EXPECT_EQ(nlohmann::json::parse(sim.out)["makespan_us"],
              nlohmann::json::parse(run.out)["simulated_us"])
        << schedule << "\n"
        << costs;
  }
}

// The same words as numbers of two bytes.
TEST(RunTest, SaysWhatWasChosenOnlyIfAsked) {
  const std::string folder = PrepareRun(), chosen = "--verbose: nothing was chosen for the CPU\n";
  EXPECT_NE(RunToolIn(folder, Words("run run.yaml --out made --verbose")).out.find(chosen),
            std::string::npos);
  EXPECT_EQ(RunToolIn(folder, Words("run run.yaml --out made")).out.find(chosen),
            std::string::npos);
  // JSON is still a single object.
  EXPECT_EQ(RunToolIn(folder, Words("run run.yaml --out made --verbose --json")).out[0], '{');
}

TEST(RunTest, TrainsOnAFileOfTokens) {
  const std::string folder = PrepareRun("text: words.txt", "tokens: words.bin");
  std::string tokens;
  for (const char c : ReadText(folder + "/words.txt")) tokens += {c, '\0'};
  WriteText(folder + "/words.bin", tokens);
  const Answer answer = RunToolIn(folder, Words("run run.yaml --out made"));
  ASSERT_EQ(answer.status, 0) << answer.out << answer.err;
  for (const char* const words : {"tokens: words.bin, ", "nats per token\n"}) {
    EXPECT_NE(answer.out.find(words), std::string::npos) << words << "\n" << answer.out;
  }
  EXPECT_EQ(answer.out.find("entropy"), std::string::npos) << answer.out;
  const std::string losses = ReadText(folder + "/made/losses.csv");
  const Answer json = RunToolIn(folder, Words("run run.yaml --out made --text words.txt --json"));
  ASSERT_EQ(json.status, 0) << json.out << json.err;
  EXPECT_EQ(ReadText(folder + "/made/losses.csv"), losses);
}

// Digits enough to tell two runs apart by a bit.
TEST(RunTest, LossesAreWrittenWithAllTheirBits) {
  const std::string folder = PrepareRun("train:", "evaluate: {every: 3, text: words.txt}\ntrain:");
  const Answer answer = RunToolIn(folder, Words("run run.yaml --out made --json"));
  ASSERT_EQ(answer.status, 0) << answer.err;
  const auto json = nlohmann::json::parse(answer.out);
  const std::vector<std::string> lines = Lines(ReadText(folder + "/made/losses.csv"));
  ASSERT_EQ(lines.size(), 7u);
  for (size_t step = 1; step <= 6; ++step) {
    const std::vector<std::string> cells = absl::StrSplit(lines[step], ',');
    ASSERT_EQ(cells.size(), 5u) << lines[step];
    EXPECT_EQ(std::stod(cells[1]), json["losses"][step - 1].get<double>()) << lines[step];
    EXPECT_GT(cells[2].size(), 8u) << lines[step];
  }
  const std::vector<std::string> last = absl::StrSplit(lines[6], ',');
  EXPECT_EQ(std::stod(last[4]), json["validations"][1]["loss_nats"].get<double>());
}

TEST(RunTest, LossesAreTheSameEveryTime) {
  std::string losses[2];
  for (std::string& text : losses) {
    const std::string folder = PrepareRun();
    ASSERT_EQ(RunToolIn(folder, Words("run run.yaml --out made")).status, 0);
    text = ReadText(folder + "/made/losses.csv");
  }
  EXPECT_EQ(losses[0], losses[1]);
}

// Pairs run part by part in the orders of the library's overlap blocks; losses equal 1F1B's, where
// every part has its rank for itself. (DualPipe adds its two pipes up in another order.)
TEST(RunTest, LossesOfExpertsDoNotDependOnTheSchedule) {
  std::string losses;
  for (const char* const schedule : {"1f1b", "dualpipe_v", "megatron_combined", "kimi_k2"}) {
    const std::string folder = PrepareRun("layers: 2, width: 16, heads: 2, context: 8}",
                                          "kind: moe, layers: 4, width: 16, heads: 2, context: 8, "
                                          "experts: 4, top_k: 2, expert_hidden: 8, "
                                          "shared_hidden: 8, scores: sigmoid, "
                                          "balance_rate: 1e-3, aux_coefficient: 1e-2}\n"
                                          "mesh: {expert: 2}");
    WriteText(folder + "/s.sched",
              ReadText(absl::StrCat(SourceFolder(), "/schedules/", schedule, ".sched")));
    const Answer answer = RunToolIn(folder, Words("run run.yaml --out made"));
    ASSERT_EQ(answer.status, 0) << schedule << answer.out << answer.err;
    const std::string found = ReadText(folder + "/made/losses.csv");
    if (losses.empty()) losses = found;
    EXPECT_EQ(found, losses) << schedule;
  }
}

struct BadRun {
  const char* from;  // in the run file
  const char* to;
  int status;
  const char* says;
};

const BadRun kBadRuns[] = {
    {"steps: 6", "steps: six", 2, "run.yaml:4: "},
    {"steps: 6", "steps: [6]", 2, "train.steps"},
    {"steps: 6", "steps: -1", 2, "train.steps"},
    {"steps: 6", "steps: 0", 2, "train.steps: 0 is not in 1 .. 1000000000"},
    {"steps: 6", "steps: 6e9", 2, "expected a whole number, got '6e9'"},
    {"steps: 6", "steps: 2000000000", 2, "train.steps: 2000000000 is not in 1 .. 1000000000"},
    {"train:", "---\ntrain:", 2, "run.yaml:4: a second document begins here"},
    {"steps: 6", "steps: &n 6", 2, "run.yaml:4: an anchor"},
    {"steps: 6", "steps: !!int 6", 2, "run.yaml:4: a tag"},
    {"P: 2", "<<: 2", 2, "run.yaml:1: a merge key"},
    {"layers: 2, width: 16", "layers: 1000000, width: 1048576", 2, "this run needs "},
    {"train:", "mesh: {pipeline: 3}\ntrain:", 2,
     "run.yaml: mesh.pipeline is 3, but the schedule has 2 ranks"},
    {"steps: 6", "stebs: 6", 2, "did you mean 'steps'"},
    {"steps: 6, ", "", 2, "steps"},
    {"train:", "trains:", 2, "did you mean 'train'"},
    {"width: 16", "width: 17", 2, "heads"},
    {"layers: 2", "layers: 1", 2, "layers"},
    {"context: 8", "context: 99999999999999999999", 2, "context"},
    {"context: 8", "context: 10000", 2, "words.txt: the text has "},
    {"words.txt", "missing.txt", 2, "missing.txt"},
    {"words.txt", ".", 2, "directory"},
    {"s.sched", "missing.sched", 2, "missing.sched"},
    {"{file: s.sched, P: 2, M: 4}",
     "{file: " STRINGLINE_SOURCE_DIR "/schedules/seq1f1b.sched, P: 2, M: 4, K: 3}", 2,
     "the schedule cuts a sequence into 3 slices, and model.context is 8 tokens"},
    {"s.sched", STRINGLINE_SOURCE_DIR "/schedules/inference.sched", 2,
     "the schedule is forward only, and 'run' trains"},
    {"P: 2", "P: two", 2, "schedule.P"},
    {"P: 2, ", "", 2, "s.sched: schedule 'zb_h1' needs 'P'"},
    {"M: 4", "M: 4, V: 2", 2, "has no parameter 'V'; it has P, M"},
    {"}\n", "\n", 2, "run.yaml"},
};

TEST(RunTest, BadRunFilesGiveOneMessage) {
  for (const BadRun& bad : kBadRuns) {
    const std::string folder = PrepareRun(bad.from, bad.to);
    for (const char* const json : {"", " --json"}) {
      const Answer answer =
          RunToolIn(folder, Words(absl::StrCat("run run.yaml --out never", json)));
      EXPECT_EQ(answer.status, bad.status) << bad.to << "\n" << answer.out << answer.err;
      const std::string text = answer.out + answer.err;
      EXPECT_NE(text.find(bad.says), std::string::npos) << bad.to << "\n" << text;
      if (*json != '\0') {
        EXPECT_EQ(nlohmann::json::parse(answer.out, nullptr, false)["ok"], false) << bad.to;
      }
    }
    EXPECT_FALSE(std::filesystem::exists(folder + "/never/measured.timeline")) << bad.to;
  }
}

// Copies are compared in the run of a single process as well.
TEST(RunTest, CopiesAreComparedWhereThereAreSome) {
  const std::string folder =
      PrepareRun("train: {steps: 6", "mesh: {data: 2}\ntrain: {check_copies: 2, steps: 6");
  const Answer answer = RunToolIn(folder, Words("run run.yaml --out made"));
  EXPECT_EQ(answer.status, 0) << answer.err;
  PrepareRun("train: {steps: 6", "train: {check_copies: 2, steps: 6");
  const Answer one = RunToolIn(folder, Words("run run.yaml --out made"));
  EXPECT_EQ(one.status, 2);
  EXPECT_EQ(one.err,
            "stringline: `train.check_copies` is 2, but every parameter is in one place only: "
            "mesh.data would make copies, unless its state is shared out over all of them\n");
}

TEST(RunTest, StepsThatMakeNoSenseAreSaid) {
  const std::string folder = PrepareRun();
  for (const char* const steps : {"0", "-3", "2000000000", "x"}) {
    const Answer answer = RunToolIn(folder, Words(absl::StrCat("run run.yaml --steps ", steps)));
    EXPECT_EQ(answer.status, 2) << steps;
    EXPECT_NE(answer.err.find("--steps"), std::string::npos) << answer.err;
  }
}

TEST(RunTest, AFolderThatCannotBeIsSaidBeforeTraining) {
  const std::string folder = PrepareRun();
  // Even the superuser writes nothing into /proc/self.
  for (const char* const option : {"--out words.txt/inside", "--save words.txt/inside",
                                   "--out /proc/self", "--save /proc/self"}) {
    const Answer answer = RunToolIn(folder, Words(absl::StrCat("run run.yaml ", option)));
    EXPECT_EQ(answer.status, 2) << option;
    EXPECT_NE(answer.err.find(std::string(option).substr(7)), std::string::npos) << answer.err;
    EXPECT_EQ(answer.out, "");
  }
}

}  // namespace
}  // namespace stringline
