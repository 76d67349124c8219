// How far the streams of a step came that does not end: for the message of a deadline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "executor/cuda/issue.h"

namespace stringline {

// All ops of a step, by stream.
using StepOps = std::vector<std::vector<IssueOp>>;

// An op of a step.
struct OpPlace {
  StreamId stream;
  uint32_t op = 0;
};

// By event of the issuer, its last record in the step; an invalid stream where there is none.
std::vector<OpPlace> RecordsOf(const StepOps& ops, int events);

// "rank 0's computation came as far as 0F1; rank 1's computation waits for 1RECV_F1": of every
// stream of which less has ended than it has. `ended` says how many of a stream's first ops are
// known to have ended; those of which that follows are added here. The streams that wait for no
// other come first.
std::string DescribeProgress(const Issuer& issuer, const StepOps& ops, std::vector<uint32_t> ended);

}  // namespace stringline
