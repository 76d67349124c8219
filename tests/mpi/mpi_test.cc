// Groups and a world over MPI. Each test starts this program again, under mpirun, with one of the
// disabled tests as what each process does.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "executor/engine/lost_process.h"
#include "executor/mpi/mpi_wires.h"
#include "executor/mpi/mpi_world.h"
#include "executor/processes/group.h"
#include "gtest/gtest.h"
#include "schedlang/base/clock.h"
#include "tests/executor/group_contract.h"
#include "tests/executor/random_calls.h"
#include "tests/nccl/status_text.h"

namespace stringline {
namespace {

constexpr char kRanks[] = "STRINGLINE_TEST_RANKS";
constexpr char kSeed[] = "STRINGLINE_TEST_SEED";
constexpr char kSaid[] = "said by ";

int NumberOf(const char* name) { return std::atoi(std::getenv(name)); }

bool HasMpirun() {
  return mpi::Library::Open().ok() && std::system("mpirun --version >/dev/null 2>&1") == 0;
}

struct Ended {
  int status = 0;
  std::string output;
  // Texts of the processes, by process; empty: nothing was said.
  std::vector<std::string> said;
};

// Runs a command under mpirun.
Ended Mpirun(int processes, const std::string& command) {
  const std::string whole = absl::StrCat(
      "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 100 mpirun "
      "--oversubscribe -n ",
      processes, " ", command, " 2>&1 </dev/null");
  Ended ended;
  ended.said.resize(processes);
  FILE* const out = popen(whole.c_str(), "r");
  char part[4096];
  while (std::fgets(part, sizeof(part), out) != nullptr) ended.output += part;
  ended.status = WEXITSTATUS(pclose(out));
  for (const absl::string_view line : absl::StrSplit(ended.output, '\n')) {
    if (!absl::StartsWith(line, kSaid)) continue;
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(line.substr(sizeof(kSaid) - 1), absl::MaxSplits(": ", 1));
    ended.said.at(std::stoi(parts.first)) = parts.second;
  }
  return ended;
}

// Runs a disabled test of this file in so many processes, which share out `ranks`.
Ended RunBody(int processes, int ranks, const char* body, unsigned seed = 1) {
  char self[4096] = {};
  (void)!readlink("/proc/self/exe", self, sizeof(self) - 1);
  return Mpirun(processes,
                absl::StrCat("env ", kRanks, "=", ranks, " ", kSeed, "=", seed, " ", self,
                             " --gtest_also_run_disabled_tests --gtest_filter="
                             "MpiBody.DISABLED_",
                             body));
}

void Say(World* world, const std::string& text) {
  // A single write, so that the lines of several processes do not mix.
  const std::string line = absl::StrCat("\n", kSaid, world->process(), ": ", text, "\n");
  (void)!write(STDOUT_FILENO, line.data(), line.size());
}

// The world of a process of mpirun, with the identity that mpirun gives it.
absl::StatusOr<std::unique_ptr<MpiWorld>> JoinHere(TcpWorldSettings settings = {}) {
  settings.identity.process = NumberOf("OMPI_COMM_WORLD_RANK");
  settings.identity.processes = NumberOf("OMPI_COMM_WORLD_SIZE");
  settings.identity.source = "mpirun";
  settings.ranks = NumberOf(kRanks);
  settings.join_ms = 30'000;
  settings.fan_out = 1;  // a chain: even few processes hand on what others give
  return MpiWorld::Join(settings);
}

GroupMachine NewMachine(MpiWorld* world, int threads, const WireSettings& settings) {
  GroupMachine machine;
  auto device = *CpuDevice::Make(threads);
  machine.groups = std::make_unique<ProcessGroups>(
      device.get(), std::make_unique<MpiWires>(device.get(), world, settings, world->session()));
  machine.device = std::move(device);
  machine.local.assign(world->local().begin(), world->local().end());
  machine.work_of = WorkOfThreads();
  return machine;
}

TEST(MpiBody, DISABLED_Contract) {
  const auto world = JoinHere();
  ASSERT_TRUE(world.ok()) << world.status();
  const auto seed = static_cast<unsigned>(NumberOf(kSeed));
  for (const int threads : {1, 3}) {
    for (const NamedContract& contract : GroupContracts()) {
      SCOPED_TRACE(absl::StrCat(contract.name, ", seed ", seed));
      contract.check([&] { return NewMachine(world->get(), threads, {}); }, (*world)->ranks(),
                     seed);
    }
    SCOPED_TRACE(absl::StrCat("random calls, seed ", seed));
    RandomCallsEqualTheReference([&] { return NewMachine(world->get(), threads, {}); },
                                 (*world)->ranks(), seed);
  }
  Say(world->get(), testing::Test::HasFailure() ? "failed" : "kept");
}

// Messages from one byte behind another to more than a frame holds, in both directions at once.
TEST(MpiBody, DISABLED_Sizes) {
  const auto world = JoinHere();
  ASSERT_TRUE(world.ok()) << world.status();
  GroupMembers members(NewMachine(world->get(), 1, {}), 2);
  const int own = (*world)->process();
  std::vector<std::pair<const int32_t*, int64_t>> got;
  for (const int64_t count : {0, 1, 767, 768, 769, 100'000, 5'000'000}) {
    const std::vector<int32_t> mine(count + 1, static_cast<int32_t>(count + own));
    for (const int from : {0, 1}) {
      Call call =
          CallOf(own == from ? CallKind::kSend : CallKind::kRecv, count * 4, count, 1 - own);
      auto* const there =
          members.Put(own, own == from ? mine : std::vector<int32_t>(count + 1, -1));
      call.from = call.to = there;
      members.Enqueue(own, call);
      if (own != from) got.emplace_back(members.Fetch(own, there, count + 1), count);
    }
  }
  const absl::Status status = members.Run();
  ASSERT_TRUE(status.ok()) << status;
  for (const auto& [values, count] : got) {
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(values[i], count + 1 - own) << i;
    EXPECT_EQ(values[count], -1) << count;
  }
  Say(world->get(), "kept");
}

TEST(MpiBody, DISABLED_Sleeps) {
  const auto world = JoinHere();
  ASSERT_TRUE(world.ok()) << world.status();
  GroupMembers members(NewMachine(world->get(), 2, {}), 2);
  const int own = (*world)->process();
  Call call = CallOf(own == 0 ? CallKind::kSend : CallKind::kRecv, 4, 7, 1 - own);
  call.from = call.to = members.Memory<float>(1);
  ASSERT_TRUE((*world)->Exchange("").ok());
  if (own == 0) usleep(1'000'000);
  const int64_t begin_ns = ProcessorNs();
  members.Enqueue(own, call);
  const absl::Status status = members.Run();
  const int64_t used_ns = ProcessorNs() - begin_ns;
  if (!status.ok()) return Say(world->get(), StatusText(status));
  Say(world->get(), used_ns < 200'000'000 ? "slept" : absl::StrCat("used ", used_ns, " ns"));
}

TEST(MpiBody, DISABLED_Differ) {
  const auto world = JoinHere();
  ASSERT_TRUE(world.ok()) << world.status();
  GroupMembers members(NewMachine(world->get(), 1, {}), 3);
  const int own = (*world)->process();
  Call call = CallOf(CallKind::kAllReduce, (own == 2 ? 8 : 16) * 4, 7);
  call.from = call.to = members.Memory<float>(16);
  members.Enqueue(own, call);
  Say(world->get(), StatusText(members.Run()));
}

TEST(MpiBody, DISABLED_Exchange) {
  const auto world = JoinHere();
  ASSERT_TRUE(world.ok()) << world.status();
  const int own = (*world)->process();
  const auto text_of = [](int round, int process) {
    return std::string(static_cast<size_t>(round == 3 ? 3'000'000 : round), 'a' + process);
  };
  for (int round = 0; round < 5; ++round) {
    const auto all = (*world)->Exchange(text_of(round, own));
    ASSERT_TRUE(all.ok()) << all.status();
    for (int p = 0; p < 3; ++p) EXPECT_TRUE((*all)[p] == text_of(round, p)) << round;
    const auto given = (*world)->GiveToFirst(text_of(round, own));
    ASSERT_TRUE(given.ok()) << given.status();
    for (int p = 0; p < 3; ++p) EXPECT_TRUE((*given)[p] == (own == 0 ? text_of(round, p) : ""));
  }
  for (uint64_t round = 0; round < 100; ++round) {
    std::vector<uint64_t> numbers(round, uint64_t{1} << (20 * own));
    const absl::Status status = (*world)->Sum(absl::MakeSpan(numbers));
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(numbers, std::vector<uint64_t>(round, 1 + (1 << 20) + (uint64_t{1} << 40)));
  }
  EXPECT_EQ((*world)->state(), absl::OkStatus());
  EXPECT_TRUE((*world)->FirstAnswers(10'000) || own == 0);
  // Process 0 answers in the exchange; all others have asked.
  if (own == 2) (*world)->Fail(absl::ResourceExhaustedError("the disk is full"));
  Say(world->get(), StatusText((*world)->Exchange("").status()));
}

TEST(MpiBody, DISABLED_Settings) {
  TcpWorldSettings settings;
  settings.config = {{"steps", NumberOf("OMPI_COMM_WORLD_RANK") == 1 ? "9" : "8"}};
  const auto world = JoinHere(settings);
  std::printf("%s", absl::StrCat("\n", kSaid, NumberOf("OMPI_COMM_WORLD_RANK"), ": ",
                                 StatusText(world.status()), "\n")
                        .c_str());
}

TEST(MpiBody, DISABLED_Trouble) {
  TcpWorldSettings settings;
  const bool first = NumberOf("OMPI_COMM_WORLD_RANK") == 0;
  if (!first) settings.trouble = absl::NotFoundError("no data");
  const auto world = JoinHere(settings);
  std::printf(
      "%s",
      absl::StrCat("\n", kSaid, first ? 0 : 1, ": ", StatusText(world.status()), "\n").c_str());
}

// Process 1 does something else first, and all others wait for it in a message, or in a sum of so
// many floats.
void WaitForTheSecond(const std::function<void()>& instead, int64_t floats = 0) {
  const auto world = JoinHere();
  ASSERT_TRUE(world.ok()) << world.status();
  WireSettings settings;
  settings.wait_ms = 1500;
  GroupMembers members(NewMachine(world->get(), 1, settings), 3);
  const int own = (*world)->process();
  Call call = CallOf(own == 1 ? CallKind::kSend : CallKind::kRecv, 4, 7, own == 1 ? 0 : 1);
  if (floats > 0) call = CallOf(CallKind::kAllReduce, 4 * floats, 7);
  call.from = call.to = members.Memory<float>(floats + 1);
  ASSERT_TRUE((*world)->Exchange("").ok());
  if (own == 1) instead();
  members.Enqueue(own, call);
  const absl::Status status = members.Run();
  Say(world->get(), absl::StrCat(IsLost(status) ? "lost: " : "", StatusText(status)));
  if (!status.ok()) (*world)->Fail(status);
}

TEST(MpiBody, DISABLED_Stopped) {
  WaitForTheSecond([] { (void)raise(SIGSTOP); });
}
TEST(MpiBody, DISABLED_StoppedInASmallSum) {
  WaitForTheSecond([] { (void)raise(SIGSTOP); }, 1);
}
TEST(MpiBody, DISABLED_StoppedInALargeSum) {
  WaitForTheSecond([] { (void)raise(SIGSTOP); }, 1'000'000);
}
TEST(MpiBody, DISABLED_Killed) {
  WaitForTheSecond([] { (void)raise(SIGKILL); });
}

class Mpi : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasMpirun()) GTEST_SKIP() << "Open MPI is not installed: libopenmpi3, openmpi-bin";
  }
};

TEST_F(Mpi, GroupsKeepTheContract) {
  const unsigned seed = std::random_device{}() % 1'000'000;
  for (const auto& [processes, ranks] : {std::pair(2, 2), {2, 5}, {3, 3}, {4, 4}}) {
    const Ended ended = RunBody(processes, ranks, "Contract", seed);
    EXPECT_EQ(ended.status, 0) << ended.output;
    EXPECT_EQ(ended.said, std::vector<std::string>(processes, "kept"))
        << processes << " processes, seed " << seed << "\n"
        << ended.output;
  }
}

TEST_F(Mpi, MessagesOfEverySizeComeWhole) {
  const Ended ended = RunBody(2, 2, "Sizes");
  EXPECT_EQ(ended.said, std::vector<std::string>(2, "kept")) << ended.output;
}

// A spinning process would use all of its processor's time.
TEST_F(Mpi, WhoWaitsLeavesTheProcessorToOthers) {
  const Ended ended = RunBody(2, 2, "Sleeps");
  EXPECT_EQ(ended.said, std::vector<std::string>(2, "slept")) << ended.output;
}

TEST_F(Mpi, CallsThatDifferAreNamedEverywhere) {
  const Ended ended = RunBody(3, 3, "Differ");
  for (const std::string& text : ended.said) {
    EXPECT_TRUE(absl::StrContains(text, "INVALID_ARGUMENT: an all-reduce of thing 7 (")) << text;
    EXPECT_TRUE(absl::StrContains(text, " of rank 2 here")) << text;
    EXPECT_TRUE(absl::StrContains(text, " met an all-reduce of thing 7 (")) << text;
    EXPECT_EQ(text, ended.said[0]) << ended.output;
  }
}

TEST_F(Mpi, HostsExchangeTextsAndOnesFailureIsAllOfTheirs) {
  const Ended ended = RunBody(3, 3, "Exchange");
  EXPECT_EQ(ended.said, std::vector<std::string>(3, "ABORTED: rank 2 here: the disk is full"))
      << ended.output;
}

TEST_F(Mpi, OtherSettingsAreNamedEverywhere) {
  const Ended ended = RunBody(2, 2, "Settings");
  EXPECT_TRUE(absl::StrContains(ended.said[0], "steps")) << ended.output;
  EXPECT_TRUE(absl::StrContains(ended.said[0], "process 1 here")) << ended.output;
  EXPECT_EQ(ended.said[0], ended.said[1]);
}

TEST_F(Mpi, TroubleOfOneIsToldToAll) {
  const Ended ended = RunBody(2, 2, "Trouble");
  EXPECT_EQ(ended.said,
            std::vector<std::string>({"ABORTED: process 1 here: no data", "NOT_FOUND: no data"}))
      << ended.output;
}

TEST_F(Mpi, WhoStopsIsNamed) {
  for (const char* const body : {"Stopped", "StoppedInASmallSum", "StoppedInALargeSum"}) {
    const Ended ended = RunBody(3, 3, body);
    for (const int p : {0, 2}) {
      EXPECT_TRUE(
          absl::StartsWith(ended.said[p], "lost: DEADLINE_EXCEEDED: rank 1 here does not answer"))
          << body << ended.output;
    }
  }
}

// mpirun ends the others, and says why.
TEST_F(Mpi, WhoDiesEndsTheRun) {
  const Ended ended = RunBody(3, 3, "Killed");
  EXPECT_NE(ended.status, 0);
  EXPECT_NE(ended.status, 124) << "hung";
  EXPECT_TRUE(absl::StrContains(ended.output, "process rank 1 with PID")) << ended.output;
  EXPECT_TRUE(absl::StrContains(ended.output, "on signal 9")) << ended.output;
}

std::string ContentsOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A training in four processes of mpirun, by itself over MPI, beside the same in one process.
class MpiTraining : public Mpi {
 protected:
  std::string File(const std::string& more) const {
    const std::string source = STRINGLINE_SOURCE_DIR;
    const std::string path = folder_ + "/run.yaml";
    std::ofstream(path) << "schedule: {file: " << source
                        << "/schedules/1f1b.sched, P: 2, M: 4}\nmesh: {data: 2}\n"
                           "model: {layers: 2, width: 16, heads: 2, context: 16}\n"
                           "data: {text: "
                        << source
                        << "/schedlang/LANGUAGE.md, microbatch: 1}\n"
                           "train: {steps: 6, learning_rate: 3e-3}\ndevice: cpu\n"
                        << more;
    return path;
  }
  std::string Command(const std::string& file, const std::string& out) const {
    return absl::StrCat(STRINGLINE_TOOL, " run ", file, " --out ", folder_, "/", out);
  }
  const std::string folder_ = testing::TempDir() + "mpi_training_" + std::to_string(getpid());

 private:
  void SetUp() override {
    Mpi::SetUp();
    ASSERT_EQ(std::system(("mkdir -p " + folder_).c_str()), 0);
  }
  void TearDown() override { (void)!std::system(("rm -rf " + folder_).c_str()); }
};

TEST_F(MpiTraining, LossesAreThoseOfOneProcess) {
  const std::string file = File("transport: mpi\n");
  const Ended several = Mpirun(4, Command(file, "several"));
  ASSERT_EQ(several.status, 0) << several.output;
  const Ended one = Mpirun(1, Command(file, "one"));
  ASSERT_EQ(one.status, 0) << one.output;
  const std::string losses = ContentsOf(folder_ + "/one/losses.csv");
  EXPECT_NE(losses, "");
  EXPECT_EQ(ContentsOf(folder_ + "/several/losses.csv"), losses);
}

// Without the key, mpirun's processes take MPI: they need no address.
TEST_F(MpiTraining, MpiIsTakenByItself) {
  const std::string unreachable = "env MASTER_ADDR=256.0.0.1 MASTER_PORT=9 ";
  const Ended taken = Mpirun(2, unreachable + Command(File(""), "taken"));
  EXPECT_EQ(taken.status, 0) << taken.output;
  const Ended tcp = Mpirun(2, unreachable + Command(File("transport: tcp\n"), "tcp"));
  EXPECT_NE(tcp.status, 0) << tcp.output;
  EXPECT_TRUE(absl::StrContains(tcp.output, "256.0.0.1")) << tcp.output;
}

TEST_F(MpiTraining, WhereMpiKnowsNoProcessesItIsRefused) {
  FILE* const out = popen(
      absl::StrCat(Command(File("transport: mpi\n"), "no"), " --processes 2 2>&1").c_str(), "r");
  char text[8192] = {};
  const size_t bytes = fread(text, 1, sizeof(text) - 1, out);
  EXPECT_NE(pclose(out), 0);
  EXPECT_TRUE(absl::StrContains(absl::string_view(text, bytes),
                                "transport: mpi: MPI does not know the processes of"))
      << text;
}

TEST(MpiLibrary, OneThatIsNotThereIsNamed) {
  const absl::Status status = mpi::Library::Open("libmpi_of_nobody.so").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StartsWith(status.message(), "Open MPI cannot be loaded: libmpi_of_nobody.so"))
      << status;
  EXPECT_TRUE(absl::EndsWith(status.message(), "; Debian's package is libopenmpi3")) << status;
  EXPECT_EQ(mpi::Library::Open("libm.so.6").status().message(),
            "libm.so.6 has no MPI_Init_thread: Open MPI 4 or 5 is needed");
}

}  // namespace
}  // namespace stringline
