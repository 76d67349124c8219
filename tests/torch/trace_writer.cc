// trace_writer SCHEDULE P M STEPS SEED FOLDER: traces as torch's profiler writes them on GPUs, of
// simulated steps, for hta_test.py.
//
// Durations of actions are drawn anew for every step, in whole microseconds. Every rank has its own
// clock; with FOLDER ending in "same", all have one.
#include <iostream>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schedlang/ask/session.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/write_file.h"
#include "schedlang/report/variations.h"
#include "schedlang/sim/simulate.h"
#include "tests/schedlang/written_trace.h"

namespace stringline {
namespace {

int NumberOf(const char* text) {
  int number = 0;
  SL_CHECK(absl::SimpleAtoi(text, &number)) << text;
  return number;
}

void Write(char** args) {
  const int ranks = NumberOf(args[2]), steps = NumberOf(args[4]);
  std::mt19937_64 random(static_cast<uint64_t>(NumberOf(args[5])));
  const auto session =
      OpenSimulated({.file = args[1], .parameters = {{"P", ranks}, {"M", NumberOf(args[3])}}},
                    {.text = "F=2ms,I=2.1ms,W=1.7ms,p2p=300us,jitter=8%"}, {});
  SL_CHECK(session.ok()) << session.status();
  SL_CHECK(session->timeline.has_value());
  std::vector<Timeline> truths;
  for (int step = 0; step < steps; ++step) {
    const auto truth =
        Simulate(*session->plan, WithNoise(*session->plan, *session->costs, random()));
    SL_CHECK(truth.ok()) << truth.status();
    truths.push_back(*truth);
    for (Event& event : truths.back().events) {
      event.start_ns = (event.start_ns + 999) / 1000 * 1000;
      event.end_ns = (event.end_ns + 999) / 1000 * 1000;
    }
  }
  const bool is_same = absl::EndsWith(args[6], "same");
  for (int rank = 0; rank < ranks; ++rank) {
    const auto ahead_us = is_same ? 0 : static_cast<int64_t>(random() % 8'000'000);
    const WrittenClock clock = {absl::StrCat("host", rank), ahead_us * 1'000};
    const absl::Status written =
        WriteFileAtomically(absl::StrCat(args[6], "/rank", rank, ".json"),
                            WrittenTrace(*session->plan, truths, RankId(rank), clock));
    SL_CHECK(written.ok()) << written;
  }
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) {
  if (argc != 7) {
    std::cerr << "usage: trace_writer SCHEDULE P M STEPS SEED FOLDER\n";
    return 2;
  }
  stringline::Write(argv);
  return 0;
}
