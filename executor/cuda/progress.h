// The progress of the streams of an unfinished step, for the message of a deadline.
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

// By event of the issuer, its last record in the step; an invalid stream without a record.
std::vector<OpPlace> RecordsOf(const StepOps& ops, int events);

// "rank 0's computation came as far as 0F1; rank 1's computation waits for 1RECV_F1": every stream
// with unfinished ops. `ended` counts each stream's first ops that are known to have ended; ops
// whose end follows from these are added here. Streams that wait for no other come first.
std::string DescribeProgress(const Issuer& issuer, const StepOps& ops, std::vector<uint32_t> ended);

}  // namespace stringline
