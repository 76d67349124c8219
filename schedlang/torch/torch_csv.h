// The notation of torch.distributed.pipelining: a CSV file, one rank a row, one action a cell.
//
//   0F0,0F1,,(0F2;3B0)OVERLAP_F_B,3I1,3W1           compute form: a rank's computations
//   0UNSHARD,0F0,0SEND_F0,…,0REDUCE_GRAD,0RESHARD    comms form: all actions of torch's runtime
//
// A file has no further information: ranks are its rows; stages, microbatches and the stages' ranks
// follow from its cells. Empty cells of the compute form are bubbles; a plan has no idle time, so
// they are dropped, and none are written. (In the comms form torch rejects them.)
//
// Since torch 2.15 the comms form also holds waits, one for every send and every REDUCE_GRAD:
// 0WAIT_SEND_F0, 3WAIT_SEND_B0, 0WAIT_REDUCE_GRAD. They are kept beside the plan.
//
// Files of torch before 2.6 write a whole backward as BW, and an input gradient as B. They are
// recognised by a BW, or by a W in a file without I.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/plan/plan_file.h"

namespace stringline {

struct TorchFile {
  Plan plan;                       // lowered: the file is of the comms form
  bool legacy = false;             // written in the letters of torch before 2.6
  std::vector<MessageWait> waits;  // for sends and reductions; rank by rank, in the file's order
};

// Strict where torch is lax: every cell is a whole action, every stage is on a single rank, stages
// and microbatches have no gaps. The spans of the plan lie in `source`; the plan is named after the
// file. Findings have the code kTorchCsv.
std::optional<TorchFile> ReadTorchCsv(const Source& source, Diagnostics* diagnostics);

enum class TorchForm : uint8_t {
  kCompute,
  kComms,         // for torch 2.15 and later: with waits
  kCommsNoWaits,  // for torch 2.6 to 2.14
};

// `given`, and a wait for every other send and REDUCE_GRAD of the lowered plan, at torch's places:
// for a SEND_F behind the backward that proves its arrival, for other sends at the end of the rank,
// for a REDUCE_GRAD right behind it. Rank by rank, in order.
std::vector<MessageWait> AllTorchWaits(const Plan& lowered, const std::vector<MessageWait>& given);

// The bytes that torch's own CSV writer would write. The compute form leaves out messages and
// collectives; the comms form wants a lowered plan. kCommsNoWaits leaves out `waits`. Findings have
// the code kTorchExport: actions that the notation cannot express, at their places in the plan.
std::optional<std::string> PrintTorchCsv(const Plan& plan, const std::vector<MessageWait>& waits,
                                         TorchForm form, Diagnostics* diagnostics);

}  // namespace stringline
