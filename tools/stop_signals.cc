#include "tools/stop_signals.h"

#include <atomic>

namespace stringline {
namespace {

std::atomic<int> noted_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a handler may touch it");

extern "C" void NoteSignal(int number) {
  if (noted_signal.exchange(number) == 0) return;
  // It is blocked while its handler runs, and takes effect when this returns.
  signal(number, SIG_DFL);
  raise(number);
}

struct StopSignal {
  int number;
  const char* name;
};
constexpr StopSignal kStopSignals[] = {{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}};

// Gives the signal a handler; returns what it had.
struct sigaction Handle(int number, void (*handler)(int)) {
  struct sigaction before = {};
  sigaction(number, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return before;
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, nullptr);
  return before;
}

}  // namespace

IgnoredSignal::IgnoredSignal(int number) : number_(number), before_(Handle(number, SIG_IGN)) {}

IgnoredSignal::~IgnoredSignal() { sigaction(number_, &before_, nullptr); }

StopSignals::StopSignals() {
  noted_signal = 0;
  for (size_t i = 0; i < before_.size(); ++i) {
    before_[i] = Handle(kStopSignals[i].number, NoteSignal);
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < before_.size(); ++i) {
    sigaction(kStopSignals[i].number, &before_[i], nullptr);
  }
}

int StopSignals::came() const { return noted_signal; }

const char* NameOfSignal(int signal) {
  for (const StopSignal& stop : kStopSignals) {
    if (stop.number == signal) return stop.name;
  }
  return "a signal";
}

}  // namespace stringline
