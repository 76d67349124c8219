#include "tools/io/progress.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/threads.h"

namespace stringline {
namespace {

constexpr int64_t kTickNs = 200'000'000;
constexpr char kEraseLine[] = "\r\x1b[K";

// True while a line of progress stands on the terminal (standard error).
std::atomic<bool> is_shown = false;
static_assert(std::atomic<bool>::is_always_lock_free);

// The handler is gone (SA_RESETHAND), so the raised signal has its usual effect once this returns.
void EraseAndEnd(int number) {
  if (is_shown) (void)!write(STDERR_FILENO, kEraseLine, sizeof(kEraseLine) - 1);
  (void)raise(number);
}

std::ostream* TerminalOf(const Output& output) {
  const char* const term = std::getenv("TERM");
  const bool is_dumb = term == nullptr || std::string(term) == "dumb";
  const bool is_terminal = &output.err == &std::cerr && isatty(STDERR_FILENO) != 0;
  return is_terminal && !is_dumb ? &output.err : nullptr;
}

}  // namespace

Progress::Progress(const Output& output, std::string doing, size_t total)
    : Progress(TerminalOf(output), kPatienceNs, std::move(doing), total) {
  if (terminal_ == nullptr) return;
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction usual = {}, ours = {};
    if (sigaction(number, nullptr, &usual) != 0 || usual.sa_handler != SIG_DFL) continue;
    ours.sa_handler = EraseAndEnd;
    ours.sa_flags = static_cast<int>(SA_RESETHAND);
    if (sigaction(number, &ours, nullptr) == 0) signals_.push_back(number);
  }
}

Progress::Progress(std::ostream* terminal, int64_t patience_ns, std::string doing, size_t total)
    : terminal_(terminal), patience_ns_(patience_ns), doing_(std::move(doing)), total_(total) {
  if (terminal_ == nullptr) return;
  // Without a thread nobody sees the line; the work is done all the same.
  StartThreads(
      1, [this] { Tick(); }, &ticker_)
      .IgnoreError();
}

Progress::~Progress() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  end_.notify_one();
  for (std::thread& ticker : ticker_) ticker.join();
  for (const int number : signals_) (void)signal(number, SIG_DFL);
}

void Progress::Say(std::string how_far) {
  const std::lock_guard<std::mutex> lock(mutex_);
  how_far_ = std::move(how_far);
}

void Progress::Tick() {
  const int64_t start_ns = NowNs();
  bool is_there = false;
  std::unique_lock<std::mutex> lock(mutex_);
  int64_t next_ns = start_ns + patience_ns_;
  while (!end_.wait_until(lock, TimeAt(next_ns), [this] { return ended_; })) {
    is_shown = terminal_ == &std::cerr;
    *terminal_ << kEraseLine << Line(NowNs() - start_ns) << std::flush;
    is_there = true;
    next_ns = NowNs() + kTickNs;
  }
  if (is_there) *terminal_ << kEraseLine << std::flush;
  is_shown = false;
}

// "checking plans: 1200 of 9000, 3 s"
std::string Progress::Line(int64_t elapsed_ns) const {
  std::string line = doing_;
  if (total_ > 0) absl::StrAppend(&line, ": ", done_.load(), " of ", total_);
  if (!how_far_.empty()) absl::StrAppend(&line, ": ", how_far_);
  return absl::StrCat(line, ", ", elapsed_ns / 1'000'000'000, " s");
}

}  // namespace stringline
