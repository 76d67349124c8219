// Threads that the library starts leave the signals that stop a process to the thread that waits
// for them. Work shared by cores is done once, and with the results of a single thread.
#include "schedlang/base/threads.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "schedlang/base/kept_memory.h"
#include "schedlang/check/check.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/lower/lower.h"
#include "schedlang/plan/links.h"
#include "schedlang/text/parse.h"
#include "tests/schedlang/elaborated.h"

namespace stringline {
namespace {

bool Blocks(int signal) {
  sigset_t mask;
  sigemptyset(&mask);
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

TEST(Threads, LeaveStopSignalsToOthers) {
  bool blocked[3] = {};
  std::vector<std::thread> threads;
  ASSERT_TRUE(StartThreads(
                  1,
                  [&blocked] {
                    blocked[0] = Blocks(SIGINT);
                    blocked[1] = Blocks(SIGTERM);
                    blocked[2] = Blocks(SIGUSR1);
                  },
                  &threads)
                  .ok());
  threads[0].join();
  EXPECT_TRUE(blocked[0] && blocked[1]);
  EXPECT_FALSE(blocked[2]);
  EXPECT_FALSE(Blocks(SIGINT) || Blocks(SIGTERM)) << "the starting thread is as before";
}

TEST(Threads, ShareWorkAndDoAllOfItOnce) {
  for (const size_t actions : {size_t{0}, size_t{1} << 20}) {
    for (const int count : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(count));
      ForEachOnCores(count, actions, [&done](int i) {
        // A thread that shares the cores has none to give away.
        ForEachOnCores(3, size_t{1} << 20, [&](int) { ++done[static_cast<size_t>(i)]; });
      });
      for (const std::atomic<int>& times : done) EXPECT_EQ(times, 3);
    }
  }
  EXPECT_EQ(ThreadsFor(1000), 1);
  WorkOnThreads(2, [] { EXPECT_EQ(ThreadsFor(size_t{1} << 30), 1); });
}

TEST(Threads, MakePagesBehindTheValuesOfAnArray) {
  constexpr size_t kMany = 5'000'000;  // 40 MB: more than one thread makes
  std::vector<int64_t> values;
  for (size_t times = 1; times <= 3; ++times) {
    ReserveOnCores(kMany, &values);
    ASSERT_GE(values.capacity(), times * kMany);
    ASSERT_EQ(values.size(), (times - 1) * kMany);
    while (values.size() < times * kMany) values.push_back(static_cast<int64_t>(values.size()));
  }
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<int64_t>(i));
}

// Performs `work` where no further threads are started.
template <typename Work>
void OnOneThread(Work work) {
  std::atomic<bool> done = false;
  WorkOnThreads(2, [&] {
    if (!done.exchange(true)) work();
  });
}

// All that ranks do at once, as text: the plan with its places and passes, or the findings; then
// the wires, and what each rank holds.
std::string WorkedOut(const ast::File& file, const Source& source,
                      const std::vector<Parameter>& parameters, const ElaborateLimits& limits) {
  Diagnostics findings;
  std::optional<Plan> plan = Elaborate(file, "", parameters, &findings, limits);
  if (!plan) return Render(findings, source);
  std::string out;
  for (const Iteration& pass : plan->iterations)
    absl::StrAppend(&out, pass.outer, ":", pass.i, " ");
  const Plan lowered = Lower(AddCollectives(*std::move(plan), {.reduces = true}));
  for (const Action& action : lowered.actions) absl::StrAppend(&out, action.iteration, " ");
  absl::StrAppend(&out, Print(lowered), Check(lowered, &findings), Render(findings, source));
  const Wiring wiring = WiringOf(lowered, CommLayout::kEdge);
  EXPECT_TRUE(wiring.whole && wiring.straight);
  for (const Wire& wire : wiring.wires) {
    absl::StrAppend(&out, wire.before, " ", wire.input, " ", wire.gradient, " ", wire.gathered,
                    "\n");
  }
  for (const int buffers : ReceiveBuffersOf(lowered)) absl::StrAppend(&out, buffers, " ");
  return absl::StrCat(out, MostActivationsOf(lowered));
}

TEST(Threads, ChangeNoResultAndNoFinding) {
  const char kFaulty[] = R"(schedule x(P, M) {
  stages P on line;
  rank r {
    repeat M as m { require r < P - 3 or m < M - 2 "too far"; F r; B r }
  }
})";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {ReadTestFile("schedules/1f1b.sched"), "P=24 M=3000"},
      {ReadTestFile("schedules/zb_v.sched"), "P=16 M=2000"},
      {ReadTestFile("schedules/interleaved.sched"), "P=16 M=2048"},
      {ReadTestFile("schedules/dualpipe_v.sched"), "P=16 M=2000"},
      {kFaulty, "P=24 M=3000"}};
  ElaborateLimits all, few_actions, few_steps;
  few_actions.actions = 129'000;
  few_steps.steps = 20'000;
  few_steps.steps_per_action = 1;
  for (const auto& [text, parameters] : cases) {
    Diagnostics findings;
    const Source source("x.sched", text);
    const std::optional<ast::File> file = Parse(source, &findings);
    ASSERT_TRUE(file) << Render(findings, source);
    for (const ElaborateLimits* const limits : {&all, &few_actions, &few_steps}) {
      std::string alone;
      OnOneThread([&] { alone = WorkedOut(*file, source, ParametersOf(parameters), *limits); });
      // Only whether they are equal: both are long.
      EXPECT_TRUE(WorkedOut(*file, source, ParametersOf(parameters), *limits) == alone)
          << alone.substr(0, 300);
    }
  }
}

}  // namespace
}  // namespace stringline
