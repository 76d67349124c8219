// Actions of traces without PP: ranges, as torch's Schedule1F1B and ScheduleGPipe leave them: found
// in the records of calls, of autograd and of messages.
//
// A rank has one stage, and performs the forwards, and the backwards, of the microbatches 0, 1, 2 …
// in turn; stages are numbered as the ranks of the traces are.
//
// Python's calls, if the trace has them (with_stack=True), are exact: a forward is a call of
// forward_one_chunk, up to the end of the call for the loss behind it, and a backward is a call of
// backward_one_chunk.
//
// Without them autograd tells. It numbers the nodes of its graph, evaluates the highest first, and
// records the number with the evaluation and with the operator that makes the node. So a backward
// is a row of evaluations, and the next begins where a number exceeds all before it in the row. Its
// forward lasts from the operator that made its lowest node to the one that made its highest.
// Operators at the beginning or the end of a forward that make no node are not counted.
//
// A c10d::recv_ before a computation is for it, a c10d::send behind one is its result; several in a
// row are the tensors of one message.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "schedlang/torch/rank_trace.h"

namespace stringline {

// Gives actions to the traces, sorted by rank, if none holds a PP: range. Steps are the ranges
// ProfilerStep#N; without any, a step ends when the first stage has done a backward for every
// forward. A step whose records do not fit has no actions. Errors, all InvalidArgument that name a
// file and what to record: a trace without PP: ranges beside one with; a trace without backwards or
// without forwards; a rank of which no step fits.
absl::Status FindActions(std::vector<RankTrace>* traces);

}  // namespace stringline
