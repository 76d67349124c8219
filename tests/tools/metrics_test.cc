// The figures of a running training: what it notes is held against its losses and its timeline,
// events against a reader of their own, and slow ranks against times that are made up.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedlang/ask/session.h"
#include "tests/tools/prepared_run.h"
#include "tests/tools/tool_run.h"
#include "tools/gpu/processes.h"
#include "tools/io/json.h"
#include "tools/metrics/event_file.h"
#include "tools/metrics/scrape_endpoint.h"
#include "tools/metrics/slow_actions.h"
#include "tools/metrics/step_metrics.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

// Adds a section to the prepared run file.
std::string PrepareWatchedRun(const std::string& metrics, const std::string& more = "") {
  const std::string folder = PrepareRun();
  WriteText(folder + "/run.yaml",
            absl::StrCat(ReadText(folder + "/run.yaml"), "metrics: {", metrics, "}\n", more));
  return folder;
}

std::vector<Json> LinesOf(const std::string& file) {
  std::vector<Json> lines;
  for (const std::string& line : Lines(ReadText(file))) lines.push_back(Json::parse(line));
  return lines;
}

TEST(Metrics, LinesHaveTheStepsLossesAndTimes) {
  const std::string folder = PrepareWatchedRun("every: 2");
  const Answer run = RunToolIn(folder, Words("run run.yaml --out out --steps 7"));
  ASSERT_EQ(run.status, 0) << run.err;
  const std::vector<Json> lines = LinesOf(folder + "/out/metrics.jsonl");
  const std::vector<std::string> losses = Lines(ReadText(folder + "/out/losses.csv"));
  std::vector<int> steps;
  for (const Json& line : lines) {
    const int step = line["step"];
    steps.push_back(step);
    const std::vector<std::string> columns = absl::StrSplit(losses[static_cast<size_t>(step)], ',');
    EXPECT_NEAR(line["loss_nats"].get<double>(), std::stod(columns[1]), 1e-5);
    EXPECT_EQ(line["steps"], 7);
    ASSERT_EQ(line["ranks"].size(), 2u);
    const double makespan = line["makespan_us"];
    double idle = 0, causes = 0;
    for (int r = 0; r < 2; ++r) {
      const Json& rank = line["ranks"][static_cast<size_t>(r)];
      EXPECT_EQ(rank["name"], absl::StrCat("rank ", r));
      const double busy_us = rank["busy"].get<double>() * makespan;
      EXPECT_NEAR(busy_us + rank["waits_us"].get<double>(), makespan, 1e-3 * makespan);
      EXPECT_LE(rank["step_us"], makespan);
      EXPECT_GT(rank["bytes"], 0);
      EXPECT_TRUE(rank["waits_for"].is_null() || rank["waits_for"] == 1 - r);
      idle += rank["waits_us"].get<double>() / makespan / 2;
    }
    EXPECT_NEAR(line["bubble"].get<double>(), idle, 1e-3);
    for (const auto& [name, share] : line["causes"].items()) causes += share.get<double>();
    EXPECT_NEAR(causes, idle, 1e-3);
  }
  EXPECT_EQ(steps, (std::vector<int>{2, 4, 6, 7}));
  EXPECT_GT(lines.back()["tokens_per_second"], 0);
  // The table of the last line, for people.
  const Answer watched = RunToolIn(folder, Words("watch out"));
  ASSERT_EQ(watched.status, 0) << watched.err;
  EXPECT_TRUE(absl::StartsWith(watched.out, "step 7 of 7   loss ")) << watched.out;
  for (const char* const text : {"bubble ", "computes", "rank 0", "rank 1"}) {
    EXPECT_TRUE(absl::StrContains(watched.out, text)) << text << "\n" << watched.out;
  }
  const Answer json = RunToolIn(folder, Words("watch out/metrics.jsonl --json"));
  ASSERT_EQ(json.status, 0) << json.err;
  Json last = Json::parse(json.out);
  last.erase("ok");
  EXPECT_EQ(last, lines.back());
}

TEST(Metrics, ARunThatGoesOnKeepsTheLinesBefore) {
  const std::string folder =
      PrepareWatchedRun("every: 1, file: notes/m.jsonl", "checkpoint: {every: 2, folder: ck}\n");
  ASSERT_EQ(RunToolIn(folder, Words("run run.yaml --out out --steps 4")).status, 0);
  const std::string file = folder + "/notes/m.jsonl";
  ASSERT_EQ(LinesOf(file).size(), 4u);
  // A process that was killed may leave a part of a line, and steps behind its checkpoint.
  std::string text = ReadText(file);
  WriteText(file, absl::StrCat(text, R"({"step": 5})", "\n{\"step\": 6, \"st"));
  const Answer more = RunToolIn(folder, Words("run run.yaml --out out --steps 6 --resume auto"));
  ASSERT_EQ(more.status, 0) << more.err;
  const std::vector<Json> lines = LinesOf(file);
  ASSERT_EQ(lines.size(), 6u);
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i]["step"], i + 1);
  EXPECT_EQ(absl::StrContains(ReadText(file), text), true);
  EXPECT_FALSE(lines.back()["checkpoint_age_seconds"].is_null());
  // Another run begins anew.
  fs::remove_all(folder + "/ck");
  ASSERT_EQ(RunToolIn(folder, Words("run run.yaml --out out --steps 2")).status, 0);
  EXPECT_EQ(LinesOf(file).size(), 2u);
}

TEST(Metrics, SaysWhatIsWrong) {
  const struct {
    const char *metrics, *says;
  } cases[] = {
      {"file: a", "metrics.every is missing"},
      {"every: 0", "metrics.every"},
      {"every: 1, prometheus: here", "`metrics.prometheus`: expected a port, as 9400"},
      {"every: 1, prometheus: 99999", "`metrics.prometheus`: expected a port"},
      {"every: 1, promtheus: 9400", "did you mean 'prometheus'?"},
      {"every: 1, file: run.yaml/m", "run.yaml/m: cannot be written: "},
      {"every: 1, tensorboard: words.txt", "words.txt/events.out.tfevents."},
  };
  for (const auto& wrong : cases) {
    SCOPED_TRACE(wrong.metrics);
    const std::string folder = PrepareWatchedRun(wrong.metrics);
    const Answer run = RunToolIn(folder, Words("run run.yaml --out out"));
    EXPECT_EQ(run.status, 2);
    EXPECT_TRUE(absl::StrContains(run.err, wrong.says)) << run.err;
    EXPECT_EQ(Lines(run.err).size(), 1u) << run.err;
  }
  const std::string folder = ScratchFolder();
  fs::create_directories(folder + "/empty");
  WriteText(folder + "/text", "no metrics\n");
  WriteText(folder + "/other", "{\"step\": 1}\n");
  WriteText(folder + "/begun", "{\"step\": 1");
  const std::pair<const char*, const char*> watched[] = {
      {"watch empty",
       "empty: the run has no metrics.jsonl; 'metrics: {every: 10}' in its run file"},
      {"watch none", "none: cannot be opened"},
      {"watch text", "text: the last line is no step of a run"},
      {"watch other", "the last line has no metrics of a step"},
      {"watch begun", "begun: no step has been noted yet"}};
  for (const auto& [words, says] : watched) {
    const Answer answer = RunToolIn(folder, Words(words));
    EXPECT_EQ(answer.status, 2) << answer.out;
    EXPECT_TRUE(absl::StrContains(answer.err, says)) << answer.err;
  }
}

// A message of protocol buffers as its fields: a number of eight, of four bytes, or of a varint as
// it is, and texts.
std::multimap<int, std::string> FieldsOf(absl::string_view bytes) {
  std::multimap<int, std::string> fields;
  const auto varint = [&bytes] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (!bytes.empty()) {
    const uint64_t key = varint();
    size_t size = 0;
    switch (key & 7) {
      case 0:
        fields.emplace(key >> 3, absl::StrCat(varint()));
        continue;
      case 1:
        size = 8;
        break;
      case 2:
        size = varint();
        break;
      default:
        size = 4;
    }
    fields.emplace(key >> 3, bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return fields;
}

template <typename Number>
Number As(absl::string_view bytes) {
  Number number;
  std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}

TEST(Metrics, EventsAreThoseOfTensorBoard) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);  // the check value of CRC-32C
  const std::string folder = ScratchFolder() + "/board";
  {
    auto events = EventFile::Create(folder, 1234.5);
    ASSERT_TRUE(events.ok()) << events.status();
    ASSERT_TRUE(events->Add(300, 1235.5, {{"loss", 2.5}, {"busy/rank_0", 0.75}}).ok());
  }
  const std::string file = ReadText(folder + "/events.out.tfevents.1234.stringline");
  absl::string_view rest = file;
  std::vector<std::multimap<int, std::string>> records;
  const auto unmasked = [](uint32_t masked) {
    const uint32_t rotated = masked - 0xA282EAD8u;
    return (rotated << 15) | (rotated >> 17);
  };
  while (!rest.empty()) {
    const auto size = As<uint64_t>(rest);
    EXPECT_EQ(unmasked(As<uint32_t>(rest.substr(8))), Crc32c(rest.substr(0, 8)));
    const absl::string_view event = rest.substr(12, size);
    EXPECT_EQ(unmasked(As<uint32_t>(rest.substr(12 + size))), Crc32c(event));
    records.push_back(FieldsOf(event));
    rest.remove_prefix(16 + size);
  }
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].find(3)->second, "brain.Event:2");
  EXPECT_EQ(As<double>(records[0].find(1)->second), 1234.5);
  EXPECT_EQ(records[1].find(2)->second, "300");
  const auto summary = FieldsOf(records[1].find(5)->second);
  std::map<std::string, float> values;
  for (const auto& [field, bytes] : summary) {
    EXPECT_EQ(field, 1);
    const auto value = FieldsOf(bytes);
    values[value.find(1)->second] = As<float>(value.find(2)->second);
  }
  EXPECT_EQ(values, (std::map<std::string, float>{{"loss", 2.5f}, {"busy/rank_0", 0.75f}}));
}

// A port that is free at the moment.
std::string Fetched(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string text(1 << 20, '\0');
  size_t got = 0;
  for (ssize_t n = 1; n > 0; got += static_cast<size_t>(n)) {
    n = read(fd, text.data() + got, text.size() - got);
    if (n < 0) break;
  }
  close(fd);
  return text.substr(0, got);
}

TEST(Metrics, PrometheusFindsTheLastStep) {
  const int port = FreePort();
  auto endpoint = ScrapeEndpoint::Open(absl::StrCat(port));
  if (absl::IsUnimplemented(endpoint.status())) GTEST_SKIP() << endpoint.status();
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  StepMetrics metrics;
  metrics.step.step = 7;
  metrics.step.loss_nats = 2.5;
  metrics.ranks = {{.name = "rank 0", .busy = 0.5}, {.name = "rank 1 on b", .busy = 0.25}};
  (*endpoint)->Set(metrics);
  metrics.step.step = 8;
  (*endpoint)->Set(metrics);
  const std::string text = Fetched(port);
  for (const char* const line : {"\nstringline_step 8", "\nstringline_loss_nats 2.5",
                                 "\nstringline_rank_busy{name=\"rank 1 on b\",rank=\"1\"} 0.25"}) {
    EXPECT_TRUE(absl::StrContains(text, line)) << line << "\n" << text;
  }
  EXPECT_FALSE(absl::StrContains(text, "stringline_step 7"));
  const auto taken = ScrapeEndpoint::Open(absl::StrCat("127.0.0.1:", port));
  ASSERT_FALSE(taken.ok());
  EXPECT_TRUE(absl::StrContains(taken.status().message(), "nothing can listen at 127.0.0.1:"))
      << taken.status();
}

// Simulated steps of 1F1B in which an action of one rank may be slower.
class SlowActionsTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto session = OpenSimulated({.file = "1f1b", .parameters = {{"P", 4}, {"M", 8}}},
                                       {.text = "F=1ms,B=2ms"}, {});
    ASSERT_TRUE(session.ok()) << session.status();
    plan_ = *session->plan;
    even_ = *session->timeline;
  }

  // The step with B of stage `slow` longer by this factor.
  Timeline Step(int slow, double factor) {
    Timeline step = even_;
    for (Event& event : step.events) {
      const double noise = std::uniform_real_distribution<double>(0.95, 1.05)(random_);
      const bool is_slow = event.kind == ActionKind::kBackward && event.stage.value == slow;
      const auto length = static_cast<double>(event.end_ns - event.start_ns);
      event.end_ns = event.start_ns + std::llround(length * noise * (is_slow ? factor : 1));
    }
    return step;
  }

  Plan plan_;
  Timeline even_;
  std::mt19937 random_{17};
};

TEST_F(SlowActionsTest, AreFoundBesideTheirPast) {
  SlowActions slow;
  for (int step = 1; step <= 60; ++step) {
    const bool is_slow = step >= 30 && step < 45;
    slow.Add(step, plan_, {Step(2, is_slow ? 1.5 : 1)});
    EXPECT_EQ(slow.found().size(), step == 34 ? 1u : 0u) << step;
    EXPECT_EQ(slow.now().size(), step >= 34 && step < 49 ? 1u : 0u) << step;
    for (const SlowAction& found : slow.found()) {
      EXPECT_EQ(found.rank, 2);
      EXPECT_EQ(found.stage, 2);
      EXPECT_EQ(found.action, "B");
      EXPECT_EQ(found.since, 30);
      EXPECT_NEAR(found.ratio, 1.5, 0.1);
    }
  }
}

TEST_F(SlowActionsTest, AreFoundBesideTheirCopies) {
  // Slow from the first step on: only the other copies show it.
  SlowActions slow;
  for (int step = 1; step <= 12; ++step) {
    slow.Add(step, plan_, {Step(1, 1), Step(1, 1.4), Step(1, 1)});
  }
  ASSERT_EQ(slow.now().size(), 1u);
  EXPECT_EQ(slow.now()[0].rank, 4 + 1);
  EXPECT_EQ(slow.now()[0].since, 1);
}

}  // namespace
}  // namespace stringline
