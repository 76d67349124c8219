// A program whose time is known, beside what is measured: on every processor at once a thread that
// needs it for a fixed time and counts how often it gets round a loop meanwhile.
//
// `late` tells of other programs: the threads end so much later than the processor's time says.
// `speed` tells of the machine: how many rounds of the loop, which reads no memory, fit into the
// processor's time. Both are told beside every repetition.
#pragma once

namespace stringline {

struct ControlReading {
  double late = 0;   // (time by the clock - time of the processor) / time of the processor
  double speed = 0;  // rounds a microsecond
};

// Takes 25 ms where nobody disturbs it.
ControlReading ReadControl();

// A control that is later than this is one of a disturbed machine.
inline constexpr double kMostLate = 0.05;

}  // namespace stringline
