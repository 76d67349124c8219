#include "executor/processes/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

// Files that a run opens beside its connections: data, checkpoints, listeners, newcomers.
constexpr int64_t kOthers = 32;

int64_t OpenNow() {
  std::error_code error;
  std::filesystem::directory_iterator open("/proc/self/fd", error);
  return error ? 0 : std::distance(open, std::filesystem::directory_iterator());
}

}  // namespace

absl::Status RaiseOpenFiles(int64_t more, const std::string& what_for) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::UnavailableError(
        absl::StrCat("the limit of open files is not known: ", std::strerror(errno)));
  }
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  const int64_t needed = OpenNow() + more + kOthers;
  if (limit.rlim_cur == RLIM_INFINITY || static_cast<int64_t>(limit.rlim_cur) >= needed) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "a process may open ", limit.rlim_cur, " files here, and ", needed, " are needed: ", more,
      " for ", what_for, "; a higher limit (ulimit -Hn, LimitNOFILE of systemd) would help"));
}

}  // namespace stringline
