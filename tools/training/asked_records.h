// Flight records of a run under way, asked for by SIGUSR2 in any of its processes.
//
// The thread that waits for signals writes them, so a process that computes or waits for another
// writes them at once. Over the wires (Groups::AskForRecords) every process hears of the wish, and
// hands it on. A parent that starts the processes gives the signal to all of them itself.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "executor/training/trainer.h"
#include "tools/io/stop_signals.h"

namespace stringline {

class AskedRecords {
 public:
  AskedRecords(std::string folder, int process) : folder_(std::move(folder)), process_(process) {}

  // Records come from this trainer until End; before and after, a wish is answered by a line.
  void Begin(Trainer& trainer, StopSignals* signals);
  void End();
  // On the thread of the signals. A line on standard error tells where the records are, in process
  // 0, or why there are none.
  void Ask(const SignalCall& call);

 private:
  // The number of a new wish; 0 if its records are written already.
  int64_t NumberOf(const SignalCall& call);

  const std::string folder_;
  const int process_;
  std::mutex mutex_;  // guards the members below
  Trainer* trainer_ = nullptr;
  bool ended_ = false;
  int64_t number_ = 0;   // the last wish's
  int64_t told_ns_ = 0;  // the time of the last wish that came from all or from another process
};

}  // namespace stringline
