// A section writes its rows to a pipe, a row as a result, its figures and two texts, each text with
// its length before it. The parent reads until the pipe is closed or the deadline has come, and
// then examines the process's exit status.
#include "tools/gpu/run_sections.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

using Clock = std::chrono::steady_clock;

bool WriteAll(int pipe, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t written = write(pipe, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    data += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

static_assert(std::is_trivially_copyable_v<CheckFigures>);  // they go through the pipe as they are

class RowsToPipe final : public CheckRows {
 public:
  explicit RowsToPipe(int pipe) : pipe_(pipe) {}
  void Say(CheckRow row) override {
    std::string bytes(1, static_cast<char>(row.result));
    bytes.append(reinterpret_cast<const char*>(&row.figures), sizeof(row.figures));
    for (const std::string& text : {row.name, row.said}) {
      const auto size = static_cast<uint32_t>(text.size());
      bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
      bytes += text;
    }
    WriteAll(pipe_, bytes.data(), bytes.size());
  }

 private:
  const int pipe_;
};

// Takes the first whole row out of the bytes received so far.
bool TakeRow(std::string* come, CheckRow* row) {
  size_t at = 1 + sizeof(row->figures);
  if (come->size() < at) return false;
  std::memcpy(static_cast<void*>(&row->figures), come->data() + 1, sizeof(row->figures));
  std::string* const texts[] = {&row->name, &row->said};
  for (std::string* const text : texts) {
    uint32_t size = 0;
    if (come->size() < at + sizeof(size)) return false;
    std::memcpy(&size, come->data() + at, sizeof(size));
    at += sizeof(size);
    if (come->size() < at + size) return false;
    *text = come->substr(at, size);
    at += size;
  }
  row->result = static_cast<CheckResult>((*come)[0]);
  come->erase(0, at);
  return true;
}

// The abnormal end of a process; "" after a normal one.
std::string Ending(int status) {
  if (WIFSIGNALED(status)) {
    return absl::StrCat("ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)),
                        ")");
  }
  if (WEXITSTATUS(status) != 0) return absl::StrCat("ended with ", WEXITSTATUS(status));
  return "";
}

// Starts the process of a section, in a process group of its own with all its descendants. It does
// not outlive this process. -1: the fork failed.
pid_t Start(const CheckSection& section, const int (&ends)[2]) {
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) {
    if (child > 0) (void)setpgid(child, child);  // by the first of the two to come here
    return child;
  }
  (void)setpgid(0, 0);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  close(ends[0]);
  RowsToPipe to(ends[1]);
  section.run(&to);
  std::fflush(nullptr);
  _exit(0);
}

// Forwards rows until the section ends; false if the deadline came first.
template <class Add>
bool ReadRows(int pipe, Clock::time_point due, const Add& add) {
  std::string come;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(due - Clock::now()).count();
    pollfd waiting = {pipe, POLLIN, 0};
    const int ready = left <= 0 ? 0 : poll(&waiting, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return false;
    char buffer[4096];
    const ssize_t got = read(pipe, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    come.append(buffer, static_cast<size_t>(got));
    for (CheckRow row; TakeRow(&come, &row);) add(row);
  }
}

}  // namespace

std::vector<CheckRow> RunSections(const std::vector<CheckSection>& sections,
                                  const std::function<void(const CheckRow&)>& follow, int most_s) {
  std::vector<CheckRow> rows;
  const auto all_due = Clock::now() + std::chrono::seconds(most_s);
  for (const CheckSection& section : sections) {
    const size_t before = rows.size();
    const auto add = [&](CheckRow row) {
      row.section = section.name;
      rows.push_back(std::move(row));
      follow(rows.back());
    };
    const auto start = Clock::now();
    const auto due = std::min(all_due, start + std::chrono::seconds(section.deadline_s));
    if (start >= all_due) {
      add({"", "all of it", CheckResult::kSkip, absl::StrCat("the ", most_s, " s are over")});
      continue;
    }
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      add({"", "", CheckResult::kFail, absl::StrCat("no pipe: ", std::strerror(errno))});
      continue;
    }
    const pid_t child = Start(section, ends);
    close(ends[1]);
    if (child < 0) {
      add({"", "", CheckResult::kFail, absl::StrCat("no process: ", std::strerror(errno))});
      close(ends[0]);
      continue;
    }
    const bool in_time = ReadRows(ends[0], due, add);
    close(ends[0]);
    (void)kill(-child, SIGKILL);  // and its descendants; without effect on an ended process
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    const auto took = std::chrono::round<std::chrono::seconds>(Clock::now() - start);
    const std::string ending =
        in_time ? Ending(status) : absl::StrCat("not over after ", took.count(), " s, killed");
    if (!ending.empty()) {
      add({"", "all of it", CheckResult::kFail, ending});
    } else if (rows.size() == before) {
      add({"", "all of it", CheckResult::kFail, "said nothing"});
    }
  }
  return rows;
}

}  // namespace stringline
