// The available memory, from the texts of real systems; and the message if it is too small.
#include "executor/engine/available_memory.h"

#include <map>

#include "gtest/gtest.h"

namespace stringline {
namespace {

using Files = std::map<std::string, std::string>;

AvailableMemory Find(const Files& files) {
  return FindAvailableMemory([&](const std::string& path) {
    const auto file = files.find(path);
    return file == files.end() ? "" : file->second;
  });
}

const Files kMachine = {
    {"/proc/meminfo",
     "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\n"
     "SwapFree:        9000000 kB\n"},
    {"/proc/self/cgroup", "0::/user.slice/run.scope\n"},
    {"/proc/self/limits",
     "Limit                     Soft Limit           Hard Limit           Units     \n"
     "Max address space         unlimited            unlimited            bytes     \n"},
    {"/proc/self/status", "Name:\tstringline\nVmPeak:\t  400000 kB\nVmSize:\t  300000 kB\n"},
};

struct Case {
  const char* what;
  Files more;
  int64_t bytes;
  const char* limit;
};

const std::string kGroup = "/sys/fs/cgroup/user.slice/run.scope/";

const Case kCases[] = {
    {"the machine alone", {}, 8'192'000'000, "MemAvailable of /proc/meminfo"},
    {"a group without a limit",
     {{kGroup + "memory.max", "max\n"}, {kGroup + "memory.current", "5\n"}},
     8'192'000'000,
     "MemAvailable of /proc/meminfo"},
    {"a group's limit, its files counted as free",
     {{kGroup + "memory.max", "3000000000\n"},
      {kGroup + "memory.current", "2500000000\n"},
      {kGroup + "memory.stat",
       "anon 1500000000\nfile 1000000000\ninactive_file 600000000\nactive_file 300000000\n"
       "inactive_file_more 7\n"}},
     1'400'000'000,
     "memory.max of the cgroup /user.slice/run.scope"},
    {"the group above",
     {{kGroup + "memory.max", "3000000000\n"},
      {kGroup + "memory.current", "1000000000\n"},
      {"/sys/fs/cgroup/user.slice/memory.max", "2000000000\n"},
      {"/sys/fs/cgroup/user.slice/memory.current", "1500000000\n"}},
     500'000'000,
     "memory.max of the cgroup /user.slice"},
    {"a group that is over its limit",
     {{kGroup + "memory.max", "1000\n"}, {kGroup + "memory.current", "2000\n"}},
     0,
     "memory.max of the cgroup /user.slice/run.scope"},
    {"a container that sees its group as the root",
     {{"/proc/self/cgroup", "0::/\n"},
      {"/sys/fs/cgroup/memory.max", "4000000000\n"},
      {"/sys/fs/cgroup/memory.current", "1000000000\n"}},
     3'000'000'000,
     "memory.max of the cgroup /"},
    {"a group outside of what the container sees",
     {{"/proc/self/cgroup", "0::/../../other\n"},
      {"/sys/fs/cgroup/memory.max", "4000000000\n"},
      {"/sys/fs/cgroup/memory.current", "1000000000\n"}},
     3'000'000'000,
     "memory.max of the cgroup /"},
    {"version 1, with the host's path, mounted as the root",
     {{"/proc/self/cgroup", "11:cpu,cpuacct:/docker/ab\n4:hugetlb,memory:/docker/ab\n"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000000\n"},
      {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "1500000000\n"},
      {"/sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 400000000\n"}},
     900'000'000,
     "memory.limit_in_bytes of the cgroup /"},
    {"version 1 without a limit",
     {{"/proc/self/cgroup", "4:memory:/\n"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
      {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "1500000000\n"}},
     8'192'000'000,
     "MemAvailable of /proc/meminfo"},
    {"ulimit -v",
     {{"/proc/self/limits", "Max address space         1307200000           unlimited    bytes\n"}},
     1'000'000'000,
     "the address space that ulimit -v leaves"},
    {"texts that make no sense",
     {{"/proc/meminfo", "MemAvailable: a lot\n"},
      {"/proc/self/cgroup", "no:thing\n:::\n0::\n"},
      {"/sys/fs/cgroup/memory.max", "99999999999999999999999\n"}},
     std::numeric_limits<int64_t>::max(),
     ""},
};

TEST(AvailableMemory, IsTheLeastThatAnybodyLeaves) {
  for (const Case& one : kCases) {
    Files files = kMachine;
    for (const auto& [path, text] : one.more) files[path] = text;
    const AvailableMemory available = Find(files);
    EXPECT_EQ(available.bytes, one.bytes) << one.what;
    EXPECT_EQ(available.limit, one.limit) << one.what;
  }
  EXPECT_EQ(Find({}).bytes, std::numeric_limits<int64_t>::max());
}

TEST(AvailableMemory, OfThisProcessIsKnown) {
  const AvailableMemory available = FindAvailableMemory();
  EXPECT_GT(available.bytes, 0);
  EXPECT_LT(available.bytes, int64_t{1} << 60);
  EXPECT_NE(available.limit, "");
}

TEST(AvailableMemory, TheMessageHasBothNumbersAndWhatHelps) {
  const AvailableMemory two = {2'000'000'000, "memory.max of the cgroup /a"};
  EXPECT_TRUE(CheckMemory({1e9, 1e9, 0}, two).ok());
  const absl::Status params = CheckMemory({3e9, 1e9, 5e8}, two);
  EXPECT_EQ(params.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(params.message(),
            "this run needs 4.5 GB of memory (parameters, their gradients and moments 3, "
            "activations and buffers 1, graphs 0.5), but 2 GB are available (memory.max of the "
            "cgroup /a); fewer model.layers or a smaller model.width would help");
  EXPECT_EQ(CheckMemory({1e9, 1e22, 0}, {}).message(),
            "this run needs 1e+13 GB of memory (parameters, their gradients and moments 1, "
            "activations and buffers 1e+13, graphs 0), which no machine has; a smaller "
            "data.microbatch or model.context, fewer microbatches, or a schedule that holds fewer "
            "activations would help");
}

}  // namespace
}  // namespace stringline
