#include "tests/schedlang/written_trace.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stringline {
namespace {

constexpr int64_t kBase = 1'790'857'026'000'000'000;
constexpr int64_t kStart = 4'563'746'251'331'000;  // of the first step, on the true clock
constexpr int kProcess = 4711, kMainThread = 4711, kAutogradThread = 4790;

class Writer {
 public:
  Writer(const Plan& plan, RankId rank, const WrittenClock& clock)
      : plan_(plan), rank_(rank), clock_(clock) {
    absl::StrAppend(&text_, "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [],\n",
                    "  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": ", rank.value,
                    ", \"world_size\": ", plan.ranks(), ", \"pg_count\": 1},\n  \"host_name\": \"",
                    clock.host, "\",\n  \"displayTimeUnit\": \"ms\",\n",
                    "  \"baseTimeNanoseconds\": ", kBase, ",\n  \"traceEvents\": [\n",
                    R"({"ph": "M", "name": "process_name", "ts": 0.000, "pid": 0, "tid": 0, )",
                    R"("args": {"name": "python"}})");
  }

  // Returns when the next step may begin.
  int64_t Step(int number, const Timeline& truth, int64_t at_ns) {
    const int64_t run_ns = at_ns + 40'000;  // when the GPU begins, behind the first launches
    int64_t host_ns = at_ns, end_ns = run_ns;
    uint32_t last = 0;
    for (uint32_t i = plan_.first[rank_.value]; i < plan_.first[rank_.value + 1]; ++i) {
      if (IsCompute(plan_.actions[i].kind) && !plan_.actions[i].joined) last = i;
    }
    for (const Event& event : truth.events) end_ns = std::max(end_ns, run_ns + event.end_ns);
    for (uint32_t i = plan_.first[rank_.value]; i < plan_.first[rank_.value + 1]; ++i) {
      if (plan_.actions[i].joined) continue;
      host_ns += 20'000;
      if (i == last) host_ns = std::max(host_ns, run_ns + truth.events[i].start_ns - 30'000);
      const std::string name = absl::StrCat("PP:", RangeName(plan_, i));
      Host(host_ns, 18'000, "user_annotation", name, kMainThread, "");
      Run(i, truth, run_ns, host_ns + 2'000);
      const Event& event = truth.events[i];
      // Kineto's own range on the GPU, which no reader needs.
      Device(run_ns + event.start_ns, event.end_ns - event.start_ns, "gpu_user_annotation", name,
             -1, 7);
    }
    // A reduction that all ranks end together.
    int64_t own_end_ns = run_ns;
    for (uint32_t i = plan_.first[rank_.value]; i < plan_.first[rank_.value + 1]; ++i) {
      own_end_ns = std::max(own_end_ns, run_ns + truth.events[i].end_ns);
    }
    end_ns += 400'000;
    Kernel(host_ns + 19'000, own_end_ns, end_ns - own_end_ns, "kernel",
           "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", kMainThread,
           60);
    end_ns = std::max(end_ns, host_ns) + 50'000;
    ++correlation_;
    const std::string linked = absl::StrCat("\"correlation\": ", correlation_);
    Host(host_ns + 23'000, end_ns - host_ns - 25'000, "cuda_runtime", "cudaStreamSynchronize",
         kMainThread, linked);
    Append(end_ns - 40'000, 30'000, "cuda_sync", "Stream Synchronize", 0, 7,
           absl::StrCat("\"device\": 0, \"stream\": 7, ", linked));
    Host(at_ns, end_ns - at_ns, "user_annotation", absl::StrCat("ProfilerStep#", number),
         kMainThread, "");
    return end_ns;
  }

  std::string Text() const { return text_ + "\n  ],\n  \"traceName\": \"rank.json\"\n}\n"; }

 private:
  // The kernels that the action's range launches from `launch_ns` on.
  void Run(uint32_t i, const Timeline& truth, int64_t at_ns, int64_t launch_ns) {
    const Event& event = truth.events[i];
    const int64_t start_ns = at_ns + event.start_ns, length_ns = event.end_ns - event.start_ns;
    if (IsMessage(event.kind)) {
      int64_t& free_ns = streams_[{event.kind, event.stage.value}];
      const int64_t ready_ns = std::max({free_ns, at_ns, launch_ns + 4'000});
      const int64_t waits_ns = IsRecv(event.kind) ? std::min(ready_ns, start_ns) : start_ns;
      Kernel(launch_ns, waits_ns, start_ns + length_ns - waits_ns, "kernel",
             "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", kMainThread,
             20 + 4 * event.stage.value + static_cast<int>(event.kind) % 4);
      free_ns = start_ns + length_ns;
      return;
    }
    if (!IsCompute(event.kind)) return;
    const bool is_forward = event.kind == ActionKind::kForward;
    const int thread = is_forward ? kMainThread : kAutogradThread;
    const int64_t third_ns = length_ns / 3000 * 1000, gap_ns = std::min<int64_t>(third_ns, 1'000);
    const int64_t copy_ns = (third_ns - gap_ns) / 2000 * 1000;
    Host(launch_ns - 1'000, 16'000, "cpu_op",
         is_forward ? "aten::linear" : "autograd::engine::evaluate_function: AddmmBackward0",
         thread, "\"External id\": 1");
    Kernel(launch_ns, start_ns, third_ns, "kernel", "ampere_sgemm_128x64_tn", thread, 7);
    Kernel(launch_ns + 4'000, start_ns + third_ns, copy_ns, "gpu_memcpy",
           is_forward ? "Memcpy DtoD (Device -> Device)" : "Memcpy HtoD (Pinned -> Device)", thread,
           7);
    Kernel(launch_ns + 8'000, start_ns + third_ns + copy_ns, third_ns - gap_ns - copy_ns,
           "gpu_memset", "Memset (Device)", thread, 7);
    Kernel(launch_ns + 12'000, start_ns + 2 * third_ns, length_ns - 2 * third_ns, "kernel",
           "void at::native::vectorized_elementwise_kernel<4>(int, float)", thread, 7);
    Memory(launch_ns + 14'000, is_forward ? 1'000'000 : -1'000'000, thread);
  }

  void Kernel(int64_t launch_ns, int64_t start_ns, int64_t length_ns, const std::string& category,
              const char* name, int thread, int stream) {
    ++correlation_;
    const char* const call = category == "gpu_memcpy"   ? "cudaMemcpyAsync"
                             : category == "gpu_memset" ? "cudaMemsetAsync"
                                                        : "cudaLaunchKernel";
    Host(launch_ns, 3'000, "cuda_runtime", call, thread,
         absl::StrCat("\"External id\": ", correlation_ + 90, ", \"correlation\": ", correlation_));
    absl::StrAppend(&text_, ",\n", R"({"ph": "s", "id": )", correlation_, R"(, "pid": )", kProcess,
                    R"(, "tid": )", thread, R"(, "ts": )", Micro(launch_ns),
                    R"(, "cat": "ac2g", "name": "ac2g"})");
    Device(start_ns, length_ns, category, name, correlation_, stream);
  }

  // A change of the GPU's memory.
  void Memory(int64_t at_ns, int64_t bytes, int thread) {
    allocated_ += bytes;
    absl::StrAppend(&text_, ",\n", R"({"ph": "i", "cat": "cpu_instant_event", "s": "t", )",
                    R"("name": "[memory]", "pid": )", kProcess, R"(, "tid": )", thread,
                    R"(, "ts": )", Micro(at_ns), R"(, "args": {"Total Reserved": 20971520, )",
                    R"("Total Allocated": )", allocated_, R"(, "Bytes": )", bytes,
                    R"(, "Addr": 140000000, "Device Id": 0, "Device Type": 1}})");
  }

  void Host(int64_t start_ns, int64_t length_ns, const char* category, const std::string& name,
            int thread, const std::string& args) {
    Append(start_ns, length_ns, category, name, kProcess, thread, args);
  }

  void Device(int64_t start_ns, int64_t length_ns, const std::string& category,
              const std::string& name, int correlation, int stream) {
    std::string args = "\"External id\": 1";
    if (correlation >= 0) {
      args =
          absl::StrCat("\"device\": 0, \"stream\": ", stream, ", \"correlation\": ", correlation);
    }
    if (category == "gpu_memcpy" || category == "gpu_memset") {
      absl::StrAppend(&args, ", \"bytes\": 65536, \"memory bandwidth (GB/s)\": ",
                      absl::StrFormat("%.9g", 65536.0 / static_cast<double>(length_ns)));
    }
    Append(start_ns, length_ns, category, name, 0, stream, args);
  }

  void Append(int64_t start_ns, int64_t length_ns, const std::string& category,
              const std::string& name, int process, int thread, const std::string& args) {
    absl::StrAppend(&text_, ",\n", R"({"ph": "X", "cat": ")", category, R"(", "name": ")", name,
                    R"(", "pid": )", process, R"(, "tid": )", thread, R"(, "ts": )",
                    Micro(start_ns), R"(, "dur": )",
                    absl::StrFormat("%d.%03d", length_ns / 1000, length_ns % 1000),
                    R"(, "args": {)", args, "}}");
  }

  std::string Micro(int64_t true_ns) const {
    const int64_t ns = true_ns + clock_.ahead_ns;
    return absl::StrFormat("%d.%03d", ns / 1000, ns % 1000);
  }

  const Plan& plan_;
  const RankId rank_;
  const WrittenClock& clock_;
  std::map<std::pair<ActionKind, int>, int64_t> streams_;  // when each was free
  int correlation_ = 70'000;
  int64_t allocated_ = 10'000'000;  // bytes
  std::string text_;
};

}  // namespace

std::string RangeName(const Plan& plan, uint32_t index) {
  const auto group = GroupAt(absl::MakeConstSpan(plan.actions), index);
  if (group.size() == 1) return Print(plan, group[0]);
  return absl::StrCat("(", Print(plan, group[0]), ";", Print(plan, group[1]), ")OVERLAP_F_B");
}

std::string WrittenTrace(const Plan& plan, const std::vector<Timeline>& steps, RankId rank,
                         const WrittenClock& clock) {
  Writer writer(plan, rank, clock);
  int64_t at_ns = kStart;
  for (size_t s = 0; s < steps.size(); ++s) {
    at_ns = writer.Step(static_cast<int>(s) + 1, steps[s], at_ns);
  }
  return writer.Text();
}

}  // namespace stringline
