// Figures of what GPUs did in traces, against figures found by hand. tests/torch/hta_test.py holds
// the same figures against Holistic Trace Analysis.
#include <gtest/gtest.h>

#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/kernels/idle_causes.h"
#include "schedlang/kernels/kernel_sequences.h"
#include "schedlang/kernels/kernel_times.h"
#include "schedlang/kernels/launches.h"
#include "schedlang/kernels/memory_use.h"
#include "schedlang/kernels/name_differences.h"
#include "schedlang/kernels/stragglers.h"
#include "schedlang/kernels/trace_counters.h"
#include "schedlang/kernels/write_counters.h"

namespace stringline {
namespace {

std::string Span(const std::string& category, const std::string& name, int at_us, int length_us,
                 const std::string& args = "") {
  return absl::StrCat(R"({"ph":"X","cat":")", category, R"(","name":")", name,
                      R"(","pid":1,"tid":1,"ts":)", at_us, R"(,"dur":)", length_us, R"(,"args":{)",
                      args, "}}");
}

std::string Kernel(const std::string& name, int number, int stream, int at_us, int length_us) {
  const bool is_copy = name.substr(0, 3) == "Mem";
  return Span(is_copy ? "gpu_memcpy" : "kernel", name, at_us, length_us,
              absl::StrCat(R"("correlation":)", number, R"(,"stream":)", stream,
                           is_copy ? R"x(,"memory bandwidth (GB/s)":2.5)x" : ""));
}

std::string Launched(int number, int at_us, int length_us) {
  return Span("cuda_runtime", "cudaLaunchKernel", at_us, length_us,
              absl::StrCat(R"("correlation":)", number));
}

std::string Text(const std::vector<std::string>& events, int rank = 0) {
  return absl::StrCat(R"({"distributedInfo":{"rank":)", rank,
                      R"(,"world_size":2},"baseTimeNanoseconds":5000,"traceEvents":[)",
                      absl::StrJoin(events, ","), R"(],"traceName":"x"})");
}

KernelTrace Trace(const std::vector<std::string>& events, int rank = 0) {
  std::istringstream json(Text(events, rank));
  absl::StatusOr<KernelTrace> trace = ReadKernelTrace(json, absl::StrCat("r", rank, ".json"));
  SL_CHECK(trace.ok()) << trace.status();
  return *std::move(trace);
}

// An operator launches a kernel at 10, which runs from 20 to 50, and a copy that runs from 60 to
// 70. A kernel launched at 100 runs from 110 to 120, one launched at 115 from 200 to 210.
std::vector<std::string> Step() {
  return {Span("cpu_op", "aten::mm", 5, 20),
          Launched(1, 10, 4),
          Launched(2, 15, 4),
          Launched(3, 100, 4),
          Launched(4, 115, 4),
          Kernel("gemm", 1, 7, 20, 30),
          Kernel("Memcpy HtoD (Pinned -> Device)", 2, 7, 60, 10),
          Kernel("gemm", 3, 7, 110, 10),
          Kernel("add", 4, 7, 200, 10)};
}

TEST(Kernels, IdleTimeHasACause) {
  const std::vector<IdleCauses> causes = IdleCausesOf(Trace(Step()));
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0].kernel_ns, 10'000);  // 50 to 60
  EXPECT_EQ(causes[0].host_ns, 40'000);    // 70 to 110, launched at 100
  EXPECT_EQ(causes[0].other_ns, 80'000);   // 120 to 200, launched at 115
}

TEST(Kernels, TimesAreSummedByNameAndKind) {
  const KernelTrace trace = Trace(Step());
  const std::vector<KernelTime> times = KernelTimesOf(trace);
  ASSERT_EQ(times.size(), 3U);
  EXPECT_EQ(trace.names[times[0].name], "gemm");
  EXPECT_EQ(times[0].sum_ns, 40'000);
  EXPECT_EQ(times[0].least_ns, 10'000);
  EXPECT_EQ(times[0].mean_ns, 20'000);
  EXPECT_NEAR(times[0].deviation_ns, 14'142.1, 0.1);
  EXPECT_EQ(trace.names[times[2].name], "add");
  const std::vector<KindTime> kinds = KindTimesOf(
      {trace, Trace({Kernel("ncclDevKernel_X", 1, 8, 0, 30), Kernel("gemm", 2, 7, 20, 30)}, 1)});
  ASSERT_EQ(kinds.size(), 4U);
  EXPECT_EQ(kinds[0].name(), "computation");
  EXPECT_EQ(kinds[0].time_ns, 70'000);
  EXPECT_EQ(kinds[1].name(), "communication");
  EXPECT_EQ(kinds[1].time_ns, 20'000);
  EXPECT_EQ(kinds[3].time_ns, 10'000);
  EXPECT_EQ(kinds[3].share, 10.0 / 110);
}

TEST(Kernels, LaunchesAreBesideTheirWork) {
  const std::vector<KernelLaunch> launches = LaunchesOf(Trace(Step()));
  ASSERT_EQ(launches.size(), 4U);
  EXPECT_EQ(launches[1].correlation, 2);
  EXPECT_EQ(launches[1].host_ns, 4'000);
  EXPECT_EQ(launches[1].device_ns, 10'000);
  EXPECT_EQ(launches[1].delay_ns, 41'000);
  EXPECT_EQ(FiguresOf(launches).delay_us.most, 81);
  EXPECT_EQ(FiguresOf(launches).long_delays, 0);
}

TEST(Kernels, CurvesKeepTheirValue) {
  const KernelTrace trace = Trace(Step());
  const std::vector<TraceCurve> queues = QueueLengthsOf(trace);
  ASSERT_EQ(queues.size(), 1U);
  std::string queue;
  for (const CurveSample& sample : queues[0].samples) {
    absl::StrAppend(&queue, sample.at_ns / 1000 - 5, ":", sample.value, " ");
  }
  EXPECT_EQ(queue, "10:1 15:2 20:1 60:0 100:1 110:0 115:1 200:0 ");
  const std::vector<TraceCurve> rates = CopyRatesOf(trace);
  ASSERT_EQ(rates.size(), 1U);
  EXPECT_EQ(rates[0].name, "Memcpy HtoD");
  EXPECT_EQ(DistributionOfRate(rates[0]).mean, 2.5);
}

TEST(Kernels, SequencesAreOfTheShallowestOperators) {
  std::vector<std::string> events = Step();
  events.push_back(Span("cpu_op", "aten::mm", 8, 14));  // inside the first
  const KernelTrace trace = Trace(events);
  EXPECT_TRUE(KernelSequencesOf(trace, "aten::mm").empty());  // two kernels, three are asked for
  const std::vector<KernelSequence> found = KernelSequencesOf(trace, "mm", 2);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].count, 1);
  EXPECT_EQ(found[0].kernels.size(), 2U);
  EXPECT_EQ(found[0].device_ns, 40'000);
  EXPECT_EQ(found[0].host_ns, 20'000);
}

TEST(Kernels, DifferencesAreByName) {
  const auto differences =
      NameDifferencesOf({Trace(Step())}, {Trace({Kernel("gemm", 1, 7, 0, 5)})});
  EXPECT_EQ(differences[0].name, "gemm");
  EXPECT_EQ(differences[0].counts[0], 2);
  EXPECT_EQ(differences[0].times_ns[1], 5'000);
}

TEST(Kernels, TheLastOfSeveralStepsIsLeftOut) {
  std::vector<std::string> events = Step();
  events.push_back(Span("user_annotation", "ProfilerStep#4", 0, 99));
  events.push_back(Span("user_annotation", "ProfilerStep#5", 99, 300));
  EXPECT_EQ(PartOf(Trace(events), std::nullopt)->runs.size(), 2U);
  EXPECT_EQ(PartOf(Trace(events), 5)->runs.size(), 2U);
  EXPECT_EQ(PartOf(Trace(Step()), std::nullopt)->runs.size(), 4U);
  EXPECT_EQ(PartOf(Trace(events), 6).status().message(),
            "r0.json: step 6 is not in it; its steps are: 4, 5");
}

TEST(Kernels, WhoBeginsACollectiveLastIsNamed) {
  std::vector<KernelTrace> traces;
  for (const int rank : {0, 1, 2}) {
    const int late_us = rank == 1 ? 60 : 10 * rank;
    traces.push_back(Trace({Launched(1, 0, 2), Launched(2, 3, 2),
                            Kernel("ncclDevKernel_AllReduce", 2, 9, 10 + late_us, 90 - late_us),
                            Kernel("gemm", 1, 7, 3, 5)},
                           rank));
  }
  const Stragglers found = StragglersOf(traces);
  EXPECT_EQ(found.kernel, "ncclDevKernel_AllReduce");
  EXPECT_EQ(found.steps, 1);
  ASSERT_EQ(found.ranks.size(), 3U);
  EXPECT_EQ(found.ranks[0].rank, 1);
  EXPECT_EQ(found.ranks[0].late, 1);
  EXPECT_EQ(found.ranks[0].start_share, 0.7);
  EXPECT_EQ(found.ranks[2].rank, 0);
  EXPECT_EQ(found.ranks[2].late, 0);
  EXPECT_EQ(StragglersOf({traces[0]}).kernel, "");
}

TEST(Kernels, CountersStandBehindTheEvents) {
  const std::string text = Text({Launched(1, 10, 4), Kernel("a \\\" ] b", 1, 7, 20, 30)});
  std::istringstream json(text), again(text);
  const KernelTrace trace = *ReadKernelTrace(json, "r0.json");
  const auto with = WithCounters(again, trace);
  ASSERT_TRUE(with.ok()) << with.status();
  const std::string counters =
      ",\n{\"ph\": \"C\", \"name\": \"Queue Length\", \"pid\": 1, \"ts\": 10.000, \"id\": 7, "
      "\"args\": {\"Queue Length\": 1}}"
      ",\n{\"ph\": \"C\", \"name\": \"Queue Length\", \"pid\": 1, \"ts\": 20.000, \"id\": 7, "
      "\"args\": {\"Queue Length\": 0}}\n";
  const size_t end = text.find("],\"traceName\"");
  EXPECT_EQ(*with, text.substr(0, end) + counters + text.substr(end));
  std::istringstream none("{\"a\": [1]}");
  EXPECT_EQ(WithCounters(none, trace).status().message(), "r0.json: has no list traceEvents");
}

TEST(Kernels, MemoryIsACurve) {
  const auto sample = [](int at_us, int64_t bytes) {
    return absl::StrCat(R"({"ph":"i","cat":"cpu_instant_event","name":"[memory]","ts":)", at_us,
                        R"(,"args":{"Device Type":1,"Device Id":2,"Total Reserved":900,)",
                        R"("Total Allocated":)", bytes, "}}");
  };
  const auto memory = TracedMemoryOf(Trace({sample(3, 500), sample(1, 700)}));
  ASSERT_EQ(memory.size(), 1U);
  EXPECT_EQ(memory[0].device, 2);
  EXPECT_EQ(memory[0].most_allocated_bytes, 700);
  EXPECT_EQ(memory[0].samples[1].allocated_bytes, 500);
}

TEST(Kernels, AMemoryTimelineIsSummedByCategory) {
  const auto read = [](const std::string& text) {
    std::istringstream json(text);
    return ReadMemoryTimeline(json, "m.raw.json");
  };
  const auto samples = read("[[-1,0,100,0],[2000,1,30,4],[2000,1,5,5],[3000,2,-30,4]]");
  ASSERT_TRUE(samples.ok());
  ASSERT_EQ(samples->size(), 3U);
  EXPECT_EQ((*samples)[0].at_ns, 2000);  // from before the recording
  EXPECT_EQ((*samples)[1].bytes[4], 30);
  EXPECT_EQ((*samples)[2].bytes[4], 0);
  EXPECT_EQ((*samples)[2].bytes[0], 100);
  for (const char* const wrong : {"{}", "[1]", "[[1,2,3,8]]", "[[1,2,3]]", "[["}) {
    EXPECT_EQ(read(wrong).status().message().substr(0, 40),
              "m.raw.json: is no memory timeline of tor")
        << wrong;
  }
}

}  // namespace
}  // namespace stringline
