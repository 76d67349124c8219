// A program with a known time, beside each measurement: a thread on every processor needs the
// processor for a fixed time and counts rounds of a loop meanwhile.
//
// `late` tells of other programs: the delay of the threads' end, as a share of their processor
// time. `speed` tells of the machine: the rounds of the loop, which reads no memory, per unit of
// processor time. Both are reported beside every repetition.
#pragma once

namespace stringline {

struct ControlReading {
  double late = 0;   // (time by the clock - time of the processor) / time of the processor
  double speed = 0;  // rounds a microsecond
};

// Takes 25 ms on an undisturbed machine.
ControlReading ReadControl();

// A control later than this share means a disturbed machine.
inline constexpr double kMostLate = 0.05;

}  // namespace stringline
