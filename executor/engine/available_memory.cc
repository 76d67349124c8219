#include "executor/engine/available_memory.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedlang/base/source.h"

namespace stringline {
namespace {

// The number behind `key` in lines like "MemAvailable:   123 kB" or "inactive_file 123".
std::optional<int64_t> NumberOf(absl::string_view text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, key)) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t:"), absl::SkipEmpty());
    // Another key may begin with the same letters.
    if (words.empty() || (line[0] != ' ' && line[0] != ':' && line[0] != '\t')) continue;
    int64_t value = 0;
    if (!absl::SimpleAtoi(words[0], &value) || value < 0) return std::nullopt;
    const bool kilobytes = words.size() > 1 && words[1] == "kB";
    if (kilobytes && value > std::numeric_limits<int64_t>::max() / 1024) return std::nullopt;
    return kilobytes ? value * 1024 : value;
  }
  return std::nullopt;
}

std::optional<int64_t> OnlyNumber(absl::string_view text) {
  int64_t value = 0;
  if (absl::SimpleAtoi(text, &value) && value >= 0) return value;
  return std::nullopt;  // "max", or no file
}

// The names of the files of one version of cgroups.
struct CgroupFiles {
  const char* mount;
  const char* limit;
  const char* usage;
  const char* files[2];  // keys of memory.stat: bytes that the system reclaims at need
};
constexpr CgroupFiles kVersion2 = {
    "/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file", "active_file"}};
constexpr CgroupFiles kVersion1 = {"/sys/fs/cgroup/memory",
                                   "memory.limit_in_bytes",
                                   "memory.usage_in_bytes",
                                   {"total_inactive_file", "total_active_file"}};

class Finder {
 public:
  explicit Finder(const SystemFiles& files) : files_(files) {}

  AvailableMemory Find() && {
    const auto machine = NumberOf(files_("/proc/meminfo"), "MemAvailable");
    if (machine) AtMost(*machine, "MemAvailable of /proc/meminfo");
    FindCgroups();
    FindAddressSpace();
    return std::move(least_);
  }

 private:
  void AtMost(int64_t bytes, std::string limit) {
    if (bytes < least_.bytes) least_ = {std::max<int64_t>(0, bytes), std::move(limit)};
  }

  // Lines "0::/a/b" (version 2) or "4:cpu,memory:/a/b" (version 1).
  void FindCgroups() {
    const std::string groups = files_("/proc/self/cgroup");
    for (const absl::string_view line : absl::StrSplit(groups, '\n')) {
      const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
      if (parts.size() != 3) continue;
      const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
      const bool version1 =
          std::find(controllers.begin(), controllers.end(), "memory") != controllers.end();
      if (version1 || parts[1].empty()) WalkUp(version1 ? kVersion1 : kVersion2, parts[2]);
    }
  }

  // A container may see its own group as the root while /proc names the host's path; a group whose
  // files are absent sets no limit.
  void WalkUp(const CgroupFiles& names, absl::string_view path) {
    std::string group(absl::StrContains(path, "..") ? "" : path);
    for (;;) {
      while (!group.empty() && group.back() == '/') group.pop_back();
      FindGroup(names, group);
      if (group.empty()) return;
      group.erase(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
    }
  }

  void FindGroup(const CgroupFiles& names, const std::string& group) {
    const std::string folder = absl::StrCat(names.mount, group, "/");
    const auto limit = OnlyNumber(files_(folder + names.limit));
    const auto usage = OnlyNumber(files_(folder + names.usage));
    if (!limit || !usage) return;
    int64_t used = *usage;
    const std::string stat = files_(folder + "memory.stat");
    for (const char* const key : names.files) used -= NumberOf(stat, key).value_or(0);
    AtMost(*limit - std::max<int64_t>(0, used),
           absl::StrCat(names.limit, " of the cgroup ", group.empty() ? "/" : group));
  }

  // "Max address space         8589934592           unlimited            bytes"
  void FindAddressSpace() {
    const auto limit = NumberOf(files_("/proc/self/limits"), "Max address space");
    const auto size = NumberOf(files_("/proc/self/status"), "VmSize");
    if (limit && size) AtMost(*limit - *size, "the address space that ulimit -v leaves");
  }

  const SystemFiles& files_;
  AvailableMemory least_;
};

std::string InGigabytes(double bytes) {
  const double gigabytes = bytes * 1e-9;
  return gigabytes >= 100 && gigabytes < 1e7 ? absl::StrFormat("%.0f", gigabytes)
                                             : absl::StrFormat("%.3g", gigabytes);
}

}  // namespace

AvailableMemory FindAvailableMemory(const SystemFiles& files) { return Finder(files).Find(); }

AvailableMemory FindAvailableMemory() {
  return FindAvailableMemory(
      [](const std::string& path) { return ReadBytes(path, 1 << 20).value_or(""); });
}

int64_t PeakResidentBytes() {
  const std::string status = ReadBytes("/proc/self/status", 1 << 20).value_or("");
  return NumberOf(status, "VmHWM").value_or(0);
}

absl::Status CheckMemory(const NeededMemory& needed, const AvailableMemory& available) {
  if (needed.all() <= static_cast<double>(available.bytes)) return absl::OkStatus();
  const std::string there =
      available.limit.empty()
          ? "which no machine has"
          : absl::StrCat("but ", InGigabytes(static_cast<double>(available.bytes)),
                         " GB are available (", available.limit, ")");
  const bool params = needed.params >= needed.activations;
  const char* const less =
      params ? "fewer model.layers or a smaller model.width"
             : "a smaller data.microbatch or model.context, fewer microbatches, or a schedule that "
               "holds fewer activations";
  return absl::ResourceExhaustedError(absl::StrCat(
      "this run needs ", InGigabytes(needed.all()),
      " GB of memory (parameters, their gradients and moments ", InGigabytes(needed.params),
      ", activations and buffers ", InGigabytes(needed.activations), ", graphs ",
      InGigabytes(needed.graphs), "), ", there, "; ", less, " would help"));
}

}  // namespace stringline
