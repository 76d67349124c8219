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

using Handler = void (*)(int);
struct HandledSignal {
  int number;
  const char* name;
  Handler handler;
};
const HandledSignal kHandled[] = {{SIGINT, "SIGINT", NoteSignal},
                                  {SIGTERM, "SIGTERM", NoteSignal},
                                  {SIGXFSZ, "SIGXFSZ", SIG_IGN}};

}  // namespace

StopSignals::StopSignals() {
  noted_signal = 0;
  for (size_t i = 0; i < before_.size(); ++i) {
    sigaction(kHandled[i].number, nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_handler = kHandled[i].handler;
    action.sa_flags = SA_RESTART;
    sigaction(kHandled[i].number, &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < before_.size(); ++i) {
    sigaction(kHandled[i].number, &before_[i], nullptr);
  }
}

int StopSignals::came() const { return noted_signal; }

const char* NameOfSignal(int signal) {
  for (const HandledSignal& handled : kHandled) {
    if (handled.number == signal) return handled.name;
  }
  return "a signal";
}

}  // namespace stringline
