// `stringline run` with checkpoints, in processes that are stopped, killed and started again.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "executor/processes/sockets.h"
#include "tests/tools/prepared_run.h"
#include "tests/tools/tool_process.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

bool IsLong() { return std::getenv("STRINGLINE_LONG") != nullptr; }

class RunCheckpoint : public testing::Test {
 protected:
  RunCheckpoint() {
    for (const char* const name : {"made", "straight", "ckpt", "kept", "kept_straight"}) {
      fs::remove_all(folder_ + "/" + name);
    }
  }
  // So many steps, and a checkpoint every `every`; `more` are lines of the run file.
  void Prepare(int steps, int every, const std::string& more = "") {
    PrepareRun(
        "train: {steps: 6,",
        absl::StrCat("device: cpu\n", more, "checkpoint: {every: ", every,
                     ", folder: ckpt, keep: 2}\ntrain: {log_every: 1000000, steps: ", steps, ","));
  }
  Answer Run(const std::string& options) const {
    return ToolProcess(folder_, Words("run run.yaml " + options)).Wait();
  }
  // Makes the undisturbed run that the other runs are held against.
  void RunStraight() {
    const Answer answer = Run("--out straight --save kept_straight");
    ASSERT_EQ(answer.status, 0) << answer.err;
    fs::remove_all(folder_ + "/ckpt");
  }
  void ExpectAsStraight() const {
    EXPECT_EQ(ReadText(folder_ + "/made/losses.csv"), ReadText(folder_ + "/straight/losses.csv"));
    EXPECT_TRUE(ReadText(folder_ + "/kept/model.safetensors") ==
                ReadText(folder_ + "/kept_straight/model.safetensors"));
  }
  // A run has ended with the results of the undisturbed run; the next run begins anew.
  void EndAnew() const {
    ExpectAsStraight();
    const Names left = NamesIn("ckpt");
    EXPECT_EQ(left.size(), 2u);
    for (const std::string& name : left) EXPECT_FALSE(absl::StrContains(name, "tmp")) << name;
    for (const char* const name : {"made", "kept", "ckpt"}) fs::remove_all(folder_ + "/" + name);
  }
  // Stops the second of a run's two processes, behind the first checkpoint.
  void StopSecond(ToolProcess* run, pid_t* stopped) {
    ASSERT_TRUE(run->WaitUntil([&] { return HasCheckpoint(); }));
    const std::vector<pid_t> children = ChildrenOf(run->id());
    ASSERT_EQ(children.size(), 2u);
    *stopped = children[1];
    ASSERT_EQ(::kill(*stopped, SIGSTOP), 0);
  }
  size_t SizeOf(const std::string& name) const {
    std::error_code error;
    const uintmax_t size = fs::file_size(folder_ + "/" + name, error);
    return error ? 0 : size;
  }
  Names NamesIn(const std::string& name) const {
    Names names;
    if (!fs::exists(folder_ + "/" + name)) return names;
    for (const auto& entry : fs::directory_iterator(folder_ + "/" + name)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  bool HasCheckpoint() const {
    const Names names = NamesIn("ckpt");
    return std::any_of(names.begin(), names.end(),
                       [](const std::string& name) { return !absl::StrContains(name, ".tmp"); });
  }
  // Waits until the writer of checkpoints is dead.
  void WaitUntilUnlocked() const {
    const int file = open((folder_ + "/ckpt").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) return;
    EXPECT_EQ(flock(file, LOCK_EX), 0);
    close(file);
  }
  const std::string folder_ = PrepareRun();
};

TEST_F(RunCheckpoint, ASignalTakesOneAndAnotherScheduleGoesOn) {
  Prepare(3000, 1000000);
  RunStraight();
  {
    ToolProcess run(folder_, Words("run run.yaml --out made --processes 2"));
    ASSERT_TRUE(run.WaitUntil([&] {
      const std::string part = folder_ + "/made/losses.csv.part";
      return fs::exists(part) && fs::file_size(part) > 200;
    }));
    run.Signal(SIGTERM);
    const Answer answer = run.Wait();
    EXPECT_EQ(answer.status, 128 + SIGTERM) << answer.err;
    ASSERT_EQ(NamesIn("ckpt").size(), 1u) << answer.out << answer.err;
    EXPECT_TRUE(absl::StrContains(
        answer.out, absl::StrCat("\ncheckpoint: ckpt/", NamesIn("ckpt")[0],
                                 "\nnext:    the same with --resume ckpt goes on after this step")))
        << answer.out;
  }
  // With another schedule, in a single process.
  WriteText(folder_ + "/s.sched", ReadText(SourceFolder() + "/schedules/1f1b.sched"));
  const Answer answer = Run("--out made --resume ckpt --save kept --json");
  ASSERT_EQ(answer.status, 0) << answer.err << answer.out;
  const auto json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(
      absl::StrCat("ckpt/step-", absl::Dec(json["resumed"]["step"].get<int>(), absl::kZeroPad6)),
      json["resumed"]["folder"].get<std::string>());
  EXPECT_EQ(json["resumed"]["skipped"], nlohmann::json::array());
  EXPECT_EQ(json["checkpoint"], nullptr);
  EXPECT_EQ(json["losses"].size(), 3000u);
  ExpectAsStraight();
}

// A run killed at any moment resumes from a whole checkpoint, and ends with the same results.
TEST_F(RunCheckpoint, KilledAtAnyMomentItGoesOn) {
  const int kills = IsLong() ? 100 : 10;
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::cout << "seed " << seed << std::endl;
  std::mt19937_64 random(seed);
  Prepare(1500, 7);
  RunStraight();
  const std::string line = "run run.yaml --out made --save kept --resume auto --processes 2";
  for (int kill = 0; kill < kills; ++kill) {
    ToolProcess run(folder_, Words(line));
    // From the start on, or during training.
    if (random() % 2 == 0) {
      const size_t before = SizeOf("made/losses.csv.part");
      (void)run.WaitUntil([&] { return SizeOf("made/losses.csv.part") > before + 100; });
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 200'000));
    std::vector<pid_t> all = ChildrenOf(run.id());
    all.push_back(run.id());
    (void)::kill(all[random() % all.size()], SIGKILL);
    const Answer answer = run.Wait();
    WaitUntilUnlocked();
    EXPECT_FALSE(absl::StrContains(answer.err, "not whole")) << kill << ": " << answer.err;
    if (answer.status == 0) EndAnew();  // the run was faster
  }
  const bool has_one = HasCheckpoint();
  const Answer answer = Run("--out made --save kept --resume auto --processes 2 --json");
  ASSERT_EQ(answer.status, 0) << answer.err;
  EXPECT_EQ(answer.err, "");
  EXPECT_EQ(!nlohmann::json::parse(answer.out)["resumed"].is_null(), has_one);
  EndAnew();
}

TEST_F(RunCheckpoint, ALostProcessIsStartedAgain) {
  Prepare(2000, 50);
  RunStraight();
  ToolProcess run(folder_,
                  Words("run run.yaml --out made --save kept --processes 2 --restarts 2 --json"));
  ASSERT_TRUE(run.WaitUntil([&] { return HasCheckpoint(); }));
  const std::vector<pid_t> children = ChildrenOf(run.id());
  ASSERT_EQ(children.size(), 2u);
  ASSERT_EQ(::kill(children[1], SIGKILL), 0);
  const Answer answer = run.Wait();
  ASSERT_EQ(answer.status, 0) << answer.err;
  EXPECT_TRUE(absl::StrContains(answer.err,
                                "stringline: process 1 was lost (SIGKILL); starting again from "
                                "ckpt/step-"))
      << answer.err;
  EXPECT_TRUE(absl::EndsWith(answer.err, ", restart 1 of 2\n")) << answer.err;
  // A single object, of the run that ended.
  const auto json = nlohmann::json::parse(answer.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << answer.out;
  EXPECT_EQ(json["ok"], true);
  EXPECT_GT(json["resumed"]["step"], 0);
  ExpectAsStraight();
}

TEST_F(RunCheckpoint, WithoutRestartsLeftItEnds) {
  Prepare(1000000, 1000000);
  ToolProcess run(folder_, Words("run run.yaml --out made --restarts 1"));
  std::vector<pid_t> killed;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(run.WaitUntil([&] {
      const std::vector<pid_t> children = ChildrenOf(run.id());
      return !children.empty() && (killed.empty() || children[0] != killed[0]);
    }));
    killed.push_back(ChildrenOf(run.id())[0]);
    ASSERT_EQ(::kill(killed.back(), SIGKILL), 0);
  }
  const Answer answer = run.Wait();
  EXPECT_EQ(answer.status, 128 + SIGKILL);
  EXPECT_EQ(answer.err,
            "stringline: process 0 was lost (SIGKILL); starting again from the start, restart 1 of "
            "1\nstringline: process 0 was lost (SIGKILL)\n");
}

// The end of a connection: address and port.
using SocketEnd = absl::StatusOr<std::string>;
SocketEnd EndOf(int file, int (*name)(int, sockaddr*, socklen_t*)) {
  sockaddr_in address = {};
  socklen_t size = sizeof(address);
  if (name(file, reinterpret_cast<sockaddr*>(&address), &size) != 0) return absl::NotFoundError("");
  if (address.sin_family != AF_INET) return absl::NotFoundError("");
  return absl::StrCat(address.sin_addr.s_addr, ":", address.sin_port);
}

// Calls `visit` with a copy of each descriptor of a process that the system lends.
void ForEachFile(pid_t process, const std::function<void(int)>& visit) {
  const auto of = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  for (const auto& entry : fs::directory_iterator(absl::StrCat("/proc/", process, "/fd"))) {
    const int number = std::atoi(entry.path().filename().c_str());
    const auto file = static_cast<int>(syscall(SYS_pidfd_getfd, of, number, 0));
    if (file < 0) continue;
    visit(file);
    close(file);
  }
  if (of >= 0) close(of);
}

// Shuts down every connection of a process, as a network that fails does.
int Sever(pid_t process) {
  int severed = 0;
  ForEachFile(process, [&](int file) {
    if (EndOf(file, getpeername).ok()) severed += shutdown(file, SHUT_RDWR) == 0 ? 1 : 0;
  });
  return severed;
}

// No process dies, and none has done wrong.
TEST_F(RunCheckpoint, ARunWhoseConnectionsAreSeveredIsStartedAgain) {
  Prepare(2000, 50);
  RunStraight();
  ToolProcess run(folder_, Words("run run.yaml --out made --save kept --processes 2 --restarts 2"));
  ASSERT_TRUE(run.WaitUntil([&] { return HasCheckpoint(); }));
  const std::vector<pid_t> children = ChildrenOf(run.id());
  ASSERT_EQ(children.size(), 2u);
  if (Sever(children[1]) == 0) {
    run.Signal(SIGTERM);
    GTEST_SKIP() << "this system lends no descriptors";
  }
  const Answer answer = run.Wait();
  ASSERT_EQ(answer.status, 0) << answer.err;
  EXPECT_TRUE(absl::StrContains(answer.err,
                                "stringline: the processes have lost each other; "
                                "starting again from ckpt/step-"))
      << answer.err;
  ExpectAsStraight();
}

// Shuts down the connections between two processes.
int SeverBetween(pid_t a, pid_t b) {
  Names ends;
  ForEachFile(b, [&](int file) {
    if (const SocketEnd end = EndOf(file, getsockname); end.ok()) ends.push_back(*end);
  });
  int severed = 0;
  ForEachFile(a, [&](int file) {
    const SocketEnd end = EndOf(file, getpeername);
    if (!end.ok() || std::find(ends.begin(), ends.end(), *end) == ends.end()) return;
    severed += shutdown(file, SHUT_RDWR) == 0 ? 1 : 0;
  });
  return severed;
}

// Neither is taken for dead where a third process can tell; of two each names the other and the
// connection.
TEST_F(RunCheckpoint, AConnectionThatBreaksIsNamedWithBothItsProcesses) {
  struct Pair {
    int processes, a, b;
  };
  for (const Pair pair : {Pair{4, 1, 3}, {4, 0, 2}, {4, 3, 2}, {4, 0, 1}, {2, 0, 1}}) {
    SCOPED_TRACE(absl::StrCat(pair.a, " and ", pair.b, " of ", pair.processes));
    Prepare(1000000, 1000000, pair.processes == 4 ? "mesh: {data: 2}\n" : "");
    ToolProcess run(folder_,
                    Words(absl::StrCat("run run.yaml --out made --processes ", pair.processes)));
    const auto trains = [&] { return SizeOf("made/losses.csv.part") > 300; };
    ASSERT_TRUE(run.WaitUntil(trains));
    const std::vector<pid_t> children = ChildrenOf(run.id());
    ASSERT_EQ(children.size(), static_cast<size_t>(pair.processes));
    if (SeverBetween(children[pair.a], children[pair.b]) == 0) {
      run.Signal(SIGKILL);
      GTEST_SKIP() << "this system lends no descriptors";
    }
    const Answer answer = run.Wait();
    EXPECT_EQ(answer.status, 3);
    const std::string here = absl::StrCat(" on ", HostName());
    const std::string between =
        absl::StrCat("the connection between rank ", std::min(pair.a, pair.b), here, " and rank ",
                     std::max(pair.a, pair.b), here, " broke, ");
    const std::string expected =
        pair.processes == 2 ? absl::StrCat("; or only ", between, "which no third process can tell")
                            : absl::StrCat("stringline: ", between, "and both still run; ");
    EXPECT_TRUE(absl::StrContains(answer.err, expected)) << answer.err << expected;
    fs::remove_all(folder_ + "/made");
    fs::remove_all(folder_ + "/ckpt");
  }
}

TEST_F(RunCheckpoint, LossesOfEvaluationsStayWhenARunGoesOn) {
  Prepare(1500, 50, "evaluate: {every: 20, text: words.txt, sequences: 8}\n");
  RunStraight();
  {
    ToolProcess run(folder_, Words("run run.yaml --out made"));
    ASSERT_TRUE(run.WaitUntil([&] { return HasCheckpoint(); }));
    run.Signal(SIGKILL);
    (void)run.Wait();
  }
  WaitUntilUnlocked();
  const Answer answer = Run("--out made --save kept --resume auto");
  ASSERT_EQ(answer.status, 0) << answer.err;
  ExpectAsStraight();
}

// A process pauses for longer than the timeout, and goes on before anything kills it.
TEST_F(RunCheckpoint, ARunInWhichAProcessPausedIsStartedAgain) {
  Prepare(1500, 50, "timeout: 2s\n");
  RunStraight();
  ToolProcess run(folder_, Words("run run.yaml --out made --save kept --processes 2 --restarts 1"));
  pid_t stopped = 0;
  ASSERT_NO_FATAL_FAILURE(StopSecond(&run, &stopped));
  ASSERT_TRUE(run.WaitUntil([&] { return fs::exists(folder_ + "/made/flight-0.timeline"); }));
  ASSERT_EQ(::kill(stopped, SIGCONT), 0);
  const Answer answer = run.Wait();
  ASSERT_EQ(answer.status, 0) << answer.err;
  EXPECT_TRUE(absl::StrContains(answer.err, "does not answer: its process was stopped"))
      << answer.err;
  EXPECT_TRUE(absl::StrContains(answer.err, "; starting again from ckpt/step-")) << answer.err;
  ExpectAsStraight();
}

// Process 0 waits for a process that will never come.
TEST_F(RunCheckpoint, AProcessKilledBeforeItJoinedIsNamed) {
  Prepare(1500, 50);
  for (const char* const json : {"", " --json"}) {
    ToolProcess run(folder_, Words(absl::StrCat("run run.yaml --out made --processes 2", json)));
    std::vector<pid_t> children;
    ASSERT_TRUE(run.WaitUntil([&] { return (children = ChildrenOf(run.id())).size() == 2; }));
    ASSERT_EQ(::kill(children[1], SIGKILL), 0);
    const Answer answer = run.Wait();
    EXPECT_NE(answer.status, 0);
    if (*json == '\0') {
      EXPECT_TRUE(absl::StrContains(answer.err, "process 1 was lost (SIGKILL)") ||
                  absl::StrContains(answer.err, "rank 1 on "))
          << answer.err;
      continue;
    }
    const auto said = nlohmann::json::parse(answer.out, nullptr, false);
    ASSERT_TRUE(said.is_object()) << answer.out << answer.err;
    EXPECT_TRUE(absl::StrContains(said.value("error", ""), "1 ")) << answer.out;
  }
}

// SIGUSR1 takes a checkpoint in the middle, SIGHUP also ends the run.
TEST_F(RunCheckpoint, SignalsAskForACheckpoint) {
  Prepare(1000000, 1000000);
  ToolProcess run(folder_, Words("run run.yaml --out made --processes 2"));
  const auto trains = [&](size_t more) {
    const size_t before = SizeOf("made/losses.csv.part");
    return run.WaitUntil([&] { return SizeOf("made/losses.csv.part") > before + more; });
  };
  ASSERT_TRUE(trains(300));
  for (size_t count = 1; count <= 2; ++count) {
    run.Signal(SIGUSR1);
    ASSERT_TRUE(run.WaitUntil([&] {
      const Names names = NamesIn("ckpt");
      return names.size() == count && !absl::StrContains(names.back(), "tmp");
    }));
    ASSERT_TRUE(trains(300));
  }
  run.Signal(SIGHUP);
  const Answer answer = run.Wait();
  EXPECT_EQ(answer.status, 128 + SIGHUP) << answer.err;
  EXPECT_TRUE(absl::StrContains(answer.out, "stopped by SIGHUP after step ")) << answer.out;
  EXPECT_TRUE(absl::StrContains(answer.out, "\ncheckpoint: ckpt/step-")) << answer.out;
  EXPECT_EQ(NamesIn("ckpt").size(), 2u);  // keep: 2
}

// A run that was told to ignore SIGHUP, as by nohup, goes on.
TEST_F(RunCheckpoint, AnIgnoredHangUpStaysIgnored) {
  Prepare(1000000, 1000000);
  ToolProcess run(folder_, Words("run run.yaml --out made --processes 2"), {SIGHUP});
  const auto trains = [&] {
    const size_t before = SizeOf("made/losses.csv.part");
    return run.WaitUntil([&] { return SizeOf("made/losses.csv.part") > before + 300; });
  };
  ASSERT_TRUE(trains());
  run.Signal(SIGHUP);
  ASSERT_TRUE(trains());
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait().status, 128 + SIGTERM);
}

// A run that was killed in its last save: the checkpoint of its last step is whole.
TEST_F(RunCheckpoint, ARunKilledInItsLastSaveIsFinished) {
  Prepare(60, 20);
  RunStraight();
  ASSERT_EQ(Run("--out made --processes 2").status, 0);
  for (const char* const json : {" --json", ""}) {
    fs::remove_all(folder_ + "/made");
    fs::remove_all(folder_ + "/kept");
    const Answer answer =
        Run(absl::StrCat("--out made --save kept --resume auto --processes 2", json));
    ASSERT_EQ(answer.status, 0) << answer.err;
    ExpectAsStraight();
    EXPECT_EQ(NamesIn("made"), Names{"losses.csv"});
    if (*json == '\0') {
      EXPECT_TRUE(absl::StrContains(answer.out,
                                    "nothing is left to train: all 60 steps are in the checkpoint\n"
                                    "written: made/losses.csv\nsaved:   kept/model.safetensors\n"))
          << answer.out;
      continue;
    }
    const auto said = nlohmann::json::parse(answer.out);
    EXPECT_EQ(said["ok"], true);
    EXPECT_EQ(said["losses"].size(), 60u);
    EXPECT_EQ(said["files"], nlohmann::json({"made/losses.csv"}));
    EXPECT_FALSE(said.contains("measured_us"));
  }
  // The other results of a run that ended stay.
  fs::remove_all(folder_ + "/ckpt");
  ASSERT_EQ(Run("--out made").status, 0);
  const Names all = NamesIn("made");
  EXPECT_EQ(all.size(), 4u);
  ASSERT_EQ(Run("--out made --save kept --resume auto").status, 0);
  EXPECT_EQ(NamesIn("made"), all);
  // A checkpoint that is named is to be trained on.
  const Answer named = Run("--out made --resume ckpt");
  EXPECT_EQ(named.status, 2);
  EXPECT_TRUE(absl::StrContains(named.err, "but the run has 60 steps; more of them would help"))
      << named.err;
}

// A step has the same microbatches, on half of the copies.
TEST_F(RunCheckpoint, AnElasticRunGoesOnWithFewerCopies) {
  Prepare(2000, 50, "mesh: {data: 2}\nelastic: true\n");
  ToolProcess run(folder_, Words("run run.yaml --out made --processes 2 --restarts 1"));
  ASSERT_TRUE(run.WaitUntil([&] { return HasCheckpoint(); }));
  const std::vector<pid_t> children = ChildrenOf(run.id());
  ASSERT_EQ(children.size(), 2u);
  ASSERT_EQ(::kill(children[1], SIGKILL), 0);
  const Answer answer = run.Wait();
  ASSERT_EQ(answer.status, 0) << answer.err;
  EXPECT_TRUE(absl::StrContains(answer.err, " on mesh.data 1 in 1 process, restart 1 of 1\n"))
      << answer.err;
  const std::vector<std::string> losses = Lines(ReadText(folder_ + "/made/losses.csv"));
  ASSERT_EQ(losses.size(), 2001u);
  fs::remove_all(folder_ + "/ckpt");
  RunStraight();
  // A sum over two copies adds up in another order.
  const std::vector<std::string> straight = Lines(ReadText(folder_ + "/straight/losses.csv"));
  for (const size_t row : {size_t{50}, losses.size() - 1}) {
    const auto loss = [&](const std::vector<std::string>& rows) {
      return std::stod(std::vector<std::string>(absl::StrSplit(rows[row], ','))[1]);
    };
    EXPECT_NEAR(loss(losses), loss(straight), 0.05) << row;
  }
}

TEST_F(RunCheckpoint, AProcessThatHangsIsKilledAndStartedAgain) {
  Prepare(1500, 50, "timeout: 5s\n");
  RunStraight();
  ToolProcess run(folder_, Words("run run.yaml --out made --save kept --processes 2 --restarts 1"));
  pid_t stopped = 0;
  ASSERT_NO_FATAL_FAILURE(StopSecond(&run, &stopped));
  const Answer answer = run.Wait();
  ASSERT_EQ(answer.status, 0) << answer.err;
  EXPECT_TRUE(absl::StrContains(answer.err, "process 1 was lost (SIGKILL); starting again"))
      << answer.err;
  ExpectAsStraight();
}

// The limit on file sizes is smaller than any shard.
TEST_F(RunCheckpoint, AFullDiskIsSaidAndTheLastWholeOneStays) {
  Prepare(8, 2);
  ASSERT_EQ(Run("--out made --steps 4").status, 0);
  EXPECT_EQ(NamesIn("ckpt"), (Names{"step-000002", "step-000004"}));
  const std::string line =
      absl::StrCat("cd '", folder_, "' && ulimit -f 16 && '", STRINGLINE_TOOL,
                   "' run run.yaml --out made --resume ckpt --processes 2 2>&1 > /dev/null");
  FILE* const said = popen(line.c_str(), "r");
  std::string err;
  char piece[256];
  while (fgets(piece, sizeof(piece), said) != nullptr) err += piece;
  const int status = pclose(said);
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_TRUE(absl::StrContains(err, "stringline: the checkpoint of step 6: rank ")) << err;
  EXPECT_TRUE(absl::StrContains(err, absl::StrCat(" on ", HostName(), ": ckpt/step-000006.tmp-")))
      << err;
  EXPECT_TRUE(absl::StrContains(err, ": cannot be written: File too large; ")) << err;
  EXPECT_TRUE(absl::EndsWith(err, "; ckpt/step-000004 is the newest checkpoint\n")) << err;
  EXPECT_EQ(NamesIn("ckpt"), (Names{"step-000002", "step-000004"}));
  const Answer answer = Run("--out made --resume ckpt");
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_EQ(NamesIn("ckpt"), (Names{"step-000006", "step-000008"}));
}

TEST_F(RunCheckpoint, AnotherRunInTheSameFolderIsRefused) {
  Prepare(1000000, 1000000);
  ToolProcess run(folder_, Words("run run.yaml --out made"));
  ASSERT_TRUE(run.WaitUntil([&] { return fs::exists(folder_ + "/made/losses.csv.part"); }));
  const Answer answer = Run("--out other --processes 2");
  EXPECT_EQ(answer.status, 2);
  EXPECT_EQ(answer.err,
            "stringline: checkpoint.folder: ckpt: another run writes its checkpoints there; it has "
            "to end first, or another folder\n");
  run.Signal(SIGKILL);
  EXPECT_EQ(run.Wait().status, -SIGKILL);
}

TEST_F(RunCheckpoint, WhatIsAskedForHasToMakeSense) {
  const Answer none = Run("--resume auto");
  EXPECT_EQ(none.err, "stringline: --resume auto: run.yaml says no checkpoint.folder\n");
  const Answer both = Run("--resume a --load b");
  EXPECT_TRUE(absl::StrContains(both.err, "--load excludes --resume")) << both.err;
  Prepare(4, 2, "mesh: {data: 2}\n");
  const Answer divisor = Run("--mesh-data 3");
  EXPECT_EQ(divisor.err,
            "stringline: --mesh-data 3: the run file's mesh.data is 2, of which that is no "
            "divisor\n");
  PrepareRun("train:", "checkpoint: {folder: ckpt}\ntrain:");
  EXPECT_EQ(Run("").err, "stringline: run.yaml:4: checkpoint.every is missing\n");
}

}  // namespace
}  // namespace stringline
