#include "tools/training/asked_records.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/clock.h"
#include "tools/training/flight_records.h"

namespace stringline {
namespace {

// A launcher that passes a signal on to all processes, such as mpirun, is done within that time.
constexpr int64_t kSameWishNs = 1'000'000'000;

void Tell(const std::string& what) {
  std::cerr << absl::StrCat("stringline: SIGUSR2: ", what, "\n") << std::flush;
}

}  // namespace

void AskedRecords::Begin(Trainer& trainer, StopSignals* signals) {
  const std::lock_guard<std::mutex> lock(mutex_);
  trainer_ = &trainer;
  trainer.groups()->OnAskForRecords(
      [signals](int64_t number) { signals->Call(static_cast<int>(number)); });
}

void AskedRecords::End() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (trainer_ != nullptr) trainer_->groups()->OnAskForRecords(nullptr);
  trainer_ = nullptr;
  ended_ = true;
}

// A process that was stopped may have missed some wishes; it goes on with the others' number.
int64_t AskedRecords::NumberOf(const SignalCall& call) {
  const int64_t now_ns = NowNs();
  const bool here = call.from == SignalCall::From::kSignal;
  if (here && told_ns_ != 0 && now_ns < told_ns_ + kSameWishNs) return 0;
  if (!here) told_ns_ = now_ns;
  if (call.from == SignalCall::From::kHere && call.value <= number_) return 0;
  const int64_t next = number_ + 1;
  return call.from == SignalCall::From::kHere ? call.value : std::max<int64_t>(next, call.value);
}

void AskedRecords::Ask(const SignalCall& call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const FlightLog* const flight = trainer_ == nullptr ? nullptr : trainer_->flight();
  if (flight == nullptr || flight->steps() == 0) {
    const char* const when = ended_ ? "the steps are done" : "no step has begun yet";
    if (process_ == 0) Tell(absl::StrCat("no flight records: ", when));
    return;
  }
  const int64_t number = NumberOf(call);
  if (number == 0) return;
  number_ = number;
  // A signal to this process alone is handed on; a parent gives its wish to all.
  if (call.from == SignalCall::From::kSignal) trainer_->groups()->AskForRecords(number);
  const auto files = WriteAskedRecords(folder_, process_, number, *flight);
  if (!files.ok()) {
    Tell(absl::StrCat("no flight record of process ", process_, ": ", files.status().message()));
  } else if (process_ == 0) {
    const std::string all = absl::StrCat("flight-*-asked-", number, "-step-*.timeline");
    Tell(absl::StrCat("what the ranks did last is in ",
                      (std::filesystem::path(folder_) / all).string()));
  }
}

}  // namespace stringline
