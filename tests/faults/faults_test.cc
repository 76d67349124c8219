// Faults at every action of small schedules, and in the update behind them: a process is killed,
// stopped, late or slow, a message has another size, a rank another configuration. No process
// hangs, none has a wrong result, and all survivors name the faulty rank.
//
// 100 cases by default, 1,000 with STRINGLINE_LONG=1 in the environment. Only faults that are
// noticed by a deadline have a short one; then the faulty process stays away until the others have
// ended.
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "executor/checkpoint/model_folder.h"
#include "executor/cpu/backend.h"
#include "executor/processes/backend.h"
#include "executor/processes/sockets.h"
#include "executor/run/train.h"
#include "executor/training/trainer.h"
#include "gtest/gtest.h"
#include "schedlang/base/write_file.h"
#include "tests/executor/plans.h"
#include "tests/executor/small_run.h"
#include "tests/faults/faulty_backend.h"
#include "tests/nccl/strangers.h"
#include "tools/gpu/processes.h"
#include "tools/training/flight_records.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 3;
constexpr int64_t kLongMs = 120'000;  // never reached
constexpr int64_t kShortMs = 1'000;
constexpr int64_t kDelayUs = 30'000;

// A run for faults.
struct FaultyRun {
  const char* schedule;
  int p, m;
  Mesh mesh;
  int processes;
};
const FaultyRun kRuns[] = {
    {"1f1b", 2, 2, {}, 2},           {"zb_h1", 3, 3, {}, 3},      {"interleaved", 2, 4, {}, 2},
    {"zb_v", 4, 4, {}, 2},           {"dualpipe_v", 2, 4, {}, 2}, {"1f1b", 2, 2, {.data = 2}, 4},
    {"gpipe", 2, 2, {.data = 2}, 2},
};

enum class Kind : uint8_t { kKill, kStop, kHang, kDelay, kSize, kConfig };
const char* NameOf(Kind kind) {
  constexpr const char* kNames[] = {"kill", "stop", "hang", "delay", "size", "config"};
  return kNames[static_cast<int>(kind)];
}

struct Case {
  const FaultyRun* run;
  Kind kind;
  FaultPlace place = FaultPlace::kAction;
  int rank = 0;
  int step = 1;
  uint32_t action = 0;
};

Plan PlanOf(const FaultyRun& run) {
  Plan plan = WithSums(LibraryPlan(run.schedule, run.p, run.m).value(), run.mesh);
  plan.source = std::make_shared<const Source>(
      *ReadSource(absl::StrCat(STRINGLINE_SOURCE_DIR "/schedules/", run.schedule, ".sched")));
  return plan;
}
int RanksOf(const FaultyRun& run) { return run.p * run.mesh.coordinates(); }
int ProcessOf(const FaultyRun& run, int rank) {
  int process = 0;
  while ((process + 1) * RanksOf(run) / run.processes <= rank) ++process;
  return process;
}

std::string Describe(const Case& of) {
  const Plan plan = PlanOf(*of.run);
  const std::string where = of.place == FaultPlace::kAction ? Print(plan, plan.actions[of.action])
                            : of.place == FaultPlace::kSquares
                                ? "its squares"
                                : absl::StrCat("its update ", of.action);
  return absl::StrCat(NameOf(of.kind), " before ", where, " of step ", of.step, " on rank ",
                      of.rank, " of ", of.run->schedule, " P=", of.run->p,
                      " data=", of.run->mesh.data, " in ", of.run->processes, " processes");
}

RunConfig ConfigOf(const FaultyRun& run) {
  RunConfig config = SmallRun(kSteps);
  GptOf(config).width = 8;
  GptOf(config).context = 8;
  config.mesh = run.mesh;
  return config;
}

std::string BitsOf(const std::vector<double>& losses) {
  std::string text = "ok";
  for (const double loss : losses) {
    absl::StrAppend(&text, " ", absl::Hex(absl::bit_cast<uint64_t>(loss)));
  }
  return text;
}

// All cases, in random order.
std::vector<Case> AllCases(std::mt19937* random) {
  std::vector<Case> cases;
  const auto step = [&] { return static_cast<int>((*random)() % kSteps) + 1; };
  for (const FaultyRun& run : kRuns) {
    const Plan plan = PlanOf(run);
    for (int rank = 0; rank < RanksOf(run); ++rank) {
      const int local = rank % run.p;
      for (uint32_t i = plan.first[local]; i < plan.first[local + 1]; ++i) {
        const ActionKind action = plan.actions[i].kind;
        const auto add = [&](Kind kind) {
          cases.push_back({&run, kind, FaultPlace::kAction, rank, step(), i});
        };
        add(Kind::kKill);
        add(Kind::kStop);
        add(Kind::kDelay);
        if (IsCompute(action)) add(Kind::kHang);
        if (!IsCompute(action)) add(Kind::kSize);
      }
      for (const Kind kind : {Kind::kKill, Kind::kStop, Kind::kHang, Kind::kDelay}) {
        cases.push_back({&run, kind, FaultPlace::kSquares, rank, step()});
        for (size_t s = 0; s < plan.stages.size() / run.p; ++s) {
          // The last step's, too: then the end of the run has to notice.
          for (const int of : {step(), kSteps}) {
            cases.push_back({&run, kind, FaultPlace::kUpdate, rank, of, static_cast<uint32_t>(s)});
          }
        }
      }
    }
    for (int p = 0; p < run.processes; ++p) {
      cases.push_back({&run, Kind::kConfig, FaultPlace::kAction, p * RanksOf(run) / run.processes});
    }
  }
  std::shuffle(cases.begin(), cases.end(), *random);
  return cases;
}

// A port outside the system's range for automatic ports, which no other test takes meanwhile: its
// socket is bound alone, and is then ready to share the port with the one that listens.
class HeldPort {
 public:
  HeldPort() {
    static int next = 10'000 + getpid() % 2'000 * 10;
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    do {
      next = next >= 32'000 ? 10'000 : next + 1;
      address.sin_port = htons(static_cast<uint16_t>(next));
    } while (bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0);
    number_ = next;
    const int on = 1;
    (void)setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  ~HeldPort() { (void)close(fd_); }
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;

  int number() const { return number_; }

 private:
  const int fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int number_ = 0;
};

// The processes of one run, with its fault.
class FaultyProcesses {
 public:
  // With strangers, process 0 is alone with them for a while.
  explicit FaultyProcesses(const Case& of, int strangers = 0)
      : case_(of),
        folder_(absl::StrCat(testing::TempDir(), "/stringline-faults-", getpid(), "-",
                             port_.number())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    EXPECT_EQ(pipe2(ended_, O_CLOEXEC), 0);
    if (strangers > 0) strangers_ = std::make_unique<Strangers>(strangers, port_.number());
    processes_ = std::make_unique<Processes>(of.run->processes, [this](int p) { return Run(p); });
    for (const int end : ended_) (void)close(end);
  }
  ~FaultyProcesses() { fs::remove_all(folder_); }

  const Case& of() const { return case_; }
  const std::string& folder() const { return folder_; }
  std::vector<std::string> Wait() { return processes_->Wait(100'000); }

 private:
  // Called in the forked processes.

  std::string Run(int p) {
    const std::string said = Train(p);
    if (write(ended_[1], "", 1) != 1) return "cannot say that it has ended";
    return said;
  }

  bool IsFaulty(int p) const { return p == ProcessOf(*case_.run, case_.rank); }

  std::string Train(int p) {
    const FaultyRun& run = *case_.run;
    const bool waits = case_.kind == Kind::kStop || case_.kind == Kind::kHang;
    TcpWorldSettings world;
    world.identity.process = p;
    world.identity.processes = run.processes;
    world.identity.host = "127.0.0.1";
    world.identity.port = port_.number();
    world.identity.nonce = folder_;
    world.identity.secret = Secret("the secret of all these runs", "this test");
    world.ranks = RanksOf(run);
    world.config = {{"learning_rate", case_.kind == Kind::kConfig && IsFaulty(p) ? "2" : "1"}};
    world.exchange_ms = waits ? kShortMs : kLongMs;
    world.fan_out = 1 + (static_cast<int>(case_.action) + case_.rank) % 3;  // chains, and trees
    WireSettings wires;
    wires.wait_ms = world.exchange_ms;
    wires.ask_ms = 700;
    wires.decide_ms = 1'500;
    if (strangers_ != nullptr && p > 0) strangers_->Await(strangers_->had() + 20);
    auto backend = ProcessesBackend::Make(world, wires, 2);
    if (!backend.ok()) return Said(backend.status());
    const Plan performed = PlanOf(run);
    if (IsFaulty(p) && case_.kind != Kind::kConfig) {
      backend = std::make_unique<FaultyBackend>(*std::move(backend), performed, FaultOf());
    }
    TrainHooks hooks;
    const RunConfig config = ConfigOf(run);
    hooks.end = [&](int64_t step, Trainer& trainer) {
      return SaveModelFolder(folder_ + "/model", config.shape, step, PlacesOf(trainer).all(),
                             trainer.world());
    };
    hooks.failed = [&](const absl::Status& error, Trainer& trainer) {
      const auto files = WriteFlightRecords(folder_, p, error, *trainer.flight());
      return files.ok() ? error : files.status();
    };
    const auto result =
        stringline::Train(config, PlanOf(run), Corpus(), hooks, *std::move(backend));
    return result.ok() ? BitsOf(result->losses_nats) : Said(result.status());
  }

  static std::string Said(const absl::Status& status) {
    return absl::StrReplaceAll(status.ToString(), {{absl::StrCat(" on ", HostName()), " here"}});
  }

  Fault FaultOf() const {
    Fault fault{case_.place, case_.rank, case_.step, case_.action};
    switch (case_.kind) {
      case Kind::kKill:
        fault.run = [] { (void)raise(SIGKILL); };
        break;
      case Kind::kStop:
        fault.run = [this] { StandStill(); };
        break;
      case Kind::kHang:
        fault.run = [this] { WaitForOthers(); };
        break;
      case Kind::kDelay:
        fault.run = [] { (void)usleep(kDelayUs); };
        break;
      case Kind::kSize:
        fault.sizes = true;
        break;
      case Kind::kConfig:
        break;
    }
    return fault;
  }

  void WaitForOthers() const {
    char byte = 0;
    for (int left = case_.run->processes - 1; left > 0 && read(ended_[0], &byte, 1) == 1;) --left;
  }
  // Stops until another process, without any of its connections, resumes this process.
  void StandStill() const {
    const pid_t own = getpid();
    if (fork() == 0) {
      const int kept = dup2(ended_[0], 3);
      (void)close_range(4, ~0U, 0);
      char byte = 0;
      for (int left = case_.run->processes - 1; left > 0 && read(kept, &byte, 1) == 1;) --left;
      (void)kill(own, SIGCONT);
      _exit(0);
    }
    (void)raise(SIGSTOP);
  }

  const Case case_;
  const HeldPort port_;
  const std::string folder_;
  std::unique_ptr<Strangers> strangers_;
  int ended_[2] = {-1, -1};  // a pipe with a byte of each ended process
  std::unique_ptr<Processes> processes_;
};

// The beginning of a message of the run that names the right process.
std::string BeginningOf(const Case& of) {
  const FaultyRun& run = *of.run;
  const int process = ProcessOf(run, of.rank);
  const int first = process * RanksOf(run) / run.processes;
  const bool alone = RanksOf(run) == run.processes;
  const std::string whole =
      alone ? absl::StrCat("rank ", of.rank, " here")
            : absl::StrCat("process ", process, " with ranks ", first, ", ", first + 1, " here");
  switch (of.kind) {
    case Kind::kKill:
      return absl::StrCat("UNAVAILABLE: ", whole, " died, or ended without a word: ");
    case Kind::kStop:
      return "DEADLINE_EXCEEDED: rank ";
    case Kind::kHang:
      if (of.place != FaultPlace::kAction) return "DEADLINE_EXCEEDED: rank ";
      return absl::StrCat("DEADLINE_EXCEEDED: rank ", of.rank, " here computes ");
    case Kind::kSize:
      return "INVALID_ARGUMENT: ";
    default:
      return "";
  }
}

// True if the text names a rank of the faulty process, as not answering or at work.
bool NamesLate(const Case& of, const std::string& text) {
  const FaultyRun& run = *of.run;
  for (int rank = 0; rank < RanksOf(run); ++rank) {
    const std::string name = absl::StrCat("DEADLINE_EXCEEDED: rank ", rank, " here ");
    if (!absl::StartsWith(text, name)) continue;
    return ProcessOf(run, rank) == ProcessOf(run, of.rank) &&
           (of.kind == Kind::kHang || absl::StartsWith(text, name + "does not answer: "));
  }
  return false;
}

void CheckMessage(const Case& of, const std::string& text) {
  const Plan plan = PlanOf(*of.run);
  EXPECT_TRUE(absl::StartsWith(text, BeginningOf(of))) << text << "\nand not " << BeginningOf(of);
  if (of.kind == Kind::kStop || of.kind == Kind::kHang) {
    EXPECT_TRUE(NamesLate(of, text)) << text;
  }
  if (of.kind == Kind::kHang && of.place == FaultPlace::kAction) {
    // The parts of a group run in an order of their own.
    uint32_t first = of.action, named = 0;
    while (plan.actions[first].joined) --first;
    for (const Action& action : GroupAt(plan.actions, first)) {
      named += absl::StrContains(text, absl::StrCat(" here computes ", PrintWithLine(plan, action),
                                                    " of step ", of.step, ", for "));
    }
    EXPECT_EQ(named, 1u) << text;
  }
  if (of.kind == Kind::kSize) {
    EXPECT_TRUE(absl::StrContains(text, absl::StrCat(" of rank ", of.rank, " here"))) << text;
    const std::string action = PrintWithLine(plan, plan.actions[of.action]);
    EXPECT_TRUE(absl::StrContains(text, " for " + action)) << text << "\n" << action;
  }
  if (of.kind == Kind::kConfig) {
    EXPECT_TRUE(absl::StrContains(text, " do not run the same: they differ in learning_rate"))
        << text;
  }
}

// Every survivor has written its record, each record is whole, and no other file exists.
void CheckFiles(const FaultyProcesses& run) {
  const Case& of = run.of();
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(run.folder())) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(absl::StartsWith(name, "flight-") && absl::EndsWith(name, ".timeline")) << name;
    const absl::StatusOr<Source> source = ReadSource(entry.path().string());
    ASSERT_TRUE(source.ok()) << source.status();
    Diagnostics diagnostics;
    const auto record = ReadTimeline(*source, &diagnostics);
    EXPECT_TRUE(record.has_value()) << Render(diagnostics, *source);
    names.push_back(name);
  }
  for (int p = 0; p < of.run->processes; ++p) {
    const bool lost = of.kind == Kind::kKill && p == ProcessOf(*of.run, of.rank);
    if (lost || of.kind == Kind::kConfig) continue;
    EXPECT_TRUE(std::find(names.begin(), names.end(), absl::StrCat("flight-", p, ".timeline")) !=
                names.end())
        << p;
  }
}

void Check(FaultyProcesses* run, const std::string& losses) {
  const Case& of = run->of();
  SCOPED_TRACE(Describe(of));
  const std::vector<std::string> said = run->Wait();
  if (of.kind == Kind::kDelay) {
    for (const std::string& one : said) EXPECT_EQ(one, losses);
    EXPECT_TRUE(fs::exists(run->folder() + "/model/model.safetensors"));
    return;
  }
  const int faulty = ProcessOf(*of.run, of.rank);
  const std::string& first = said[faulty == 0 ? 1 : 0];
  CheckMessage(of, first);
  for (int p = 0; p < of.run->processes; ++p) {
    if (p == faulty && of.kind == Kind::kKill) {
      EXPECT_EQ(said[p], "killed by signal 9");
    } else if (p != faulty || of.kind == Kind::kSize || of.kind == Kind::kConfig) {
      EXPECT_EQ(said[p], first) << p;
    } else {
      // The process returns, and finds that the others have gone.
      EXPECT_FALSE(absl::StartsWith(said[p], "ok")) << said[p];
      EXPECT_NE(said[p], "hung");
    }
  }
  CheckFiles(*run);
}

std::string LossesOf(const FaultyRun& run) {
  const auto result = Train(ConfigOf(run), PlanOf(run), Corpus(), {});
  return result.ok() ? BitsOf(result->losses_nats) : result.status().ToString();
}

TEST(Faults, NobodyHangsNobodyIsWrongAndTheRightOneIsNamed) {
  const size_t count = std::getenv("STRINGLINE_LONG") == nullptr ? 100 : 1000;
  constexpr size_t kAtOnce = 10;
  const char* const wish = std::getenv("STRINGLINE_SEED");
  const unsigned seed = wish == nullptr ? std::random_device{}() : std::atoi(wish);
  SCOPED_TRACE(absl::StrCat("seed ", seed, " (STRINGLINE_SEED)"));
  std::mt19937 random(seed);
  const std::vector<Case> cases = AllCases(&random);
  std::vector<std::string> losses;
  for (const FaultyRun& run : kRuns) losses.push_back(LossesOf(run));
  std::deque<std::unique_ptr<FaultyProcesses>> running;
  const auto finish = [&] {
    Check(running.front().get(), losses[running.front()->of().run - kRuns]);
    running.pop_front();
  };
  for (size_t i = 0; i < count && !HasFailure(); ++i) {
    if (running.size() == kAtOnce) finish();
    running.push_back(std::make_unique<FaultyProcesses>(cases[i % cases.size()]));
  }
  while (!running.empty()) finish();
}

TEST(Faults, StrangersWhoKnockAllTheTimeChangeNothing) {
  for (const FaultyRun& run : kRuns) {
    FaultyProcesses processes({&run, Kind::kDelay}, 10);
    Check(&processes, LossesOf(run));
  }
}

// All ranks on threads of one process.
TEST(Faults, InOneProcessTheRecordShowsWhoWaited) {
  const FaultyRun run = {"zb_h1", 3, 3, {}, 1};
  const Plan plan = PlanOf(run);
  const Action* const begin = plan.actions.data();
  const Action* const send = std::find_if(begin + plan.first[1], begin + plan.first[2],
                                          [](const Action& a) { return IsSend(a.kind); });
  Fault fault;
  fault.rank = 1;
  fault.step = 2;
  fault.action = static_cast<uint32_t>(send - begin);
  fault.sizes = true;
  auto backend = std::make_unique<FaultyBackend>(*CpuBackend::Make(2, {}), plan, std::move(fault));
  Timeline record;
  TrainHooks hooks;
  hooks.failed = [&](const absl::Status& error, Trainer& trainer) {
    record = trainer.flight()->Record(0);
    return error;
  };
  const auto result = Train(ConfigOf(run), plan, Corpus(), hooks, std::move(backend));
  EXPECT_TRUE(absl::IsInvalidArgument(result.status())) << result.status();
  EXPECT_TRUE(absl::StrContains(result.status().message(), PrintWithLine(plan, *send)))
      << result.status();
  // The first rank to come to the message waited in it.
  EXPECT_TRUE(std::any_of(record.events.begin(), record.events.end(), [&](const Event& event) {
    return event.unfinished && IsMessage(event.kind) && event.microbatch == send->microbatch;
  }));
  EXPECT_GT(record.events.size(), plan.actions.size());  // the first step's, too
}

}  // namespace
}  // namespace stringline
