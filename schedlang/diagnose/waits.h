// The graph of waits: its nodes are ranks and collectives.
//
// A rank whose launch is at the front of a queue waits for every rank that lacks its part of that
// launch: it has not made the call, or has it behind another launch that is at the front there. The
// ranks of a collective wait through one node for all that it lacks, so the graph has at most as
// many links as there are calls and members.
#pragma once

#include <vector>

#include "schedlang/diagnose/partners.h"
#include "schedlang/diagnose/records.h"
#include "schedlang/diagnose/standings.h"

namespace stringline {

enum class Lack : uint8_t {
  kNotMade,  // its dump does not have the call
  kBehind,   // it has made the call, which stands behind another one
  kNoDump,   // it has no dump, or one that ends early
};

// A rank of the job that lacks its part.
struct Lacking {
  int rank = -1;
  Lack lack = Lack::kNotMade;
  CallAt own;     // its part, where it is made
  CallAt behind;  // what the part stands behind
};

// A call that cannot go on: of a collective by all ranks that wait in it.
struct HeldCall {
  std::vector<CallAt> waiting;
  std::vector<Lacking> lacking;
  int meeting = -1;  // index into Partners::meetings, or:
  int pair = -1;     // index into Partners::pairs
  // The waiting ranks' recorders have given the call up: as ended, though it could not end.
  bool has_failed = false;
};

struct Waits {
  std::vector<HeldCall> held;
  // By rank of the job: the calls in which it waits, and those that it keeps from going on; as
  // indices into `held`.
  std::vector<std::vector<int32_t>> waits_in, holds_up;
};

Waits WaitsOf(const Records& records, const std::vector<Standing>& standings,
              const Partners& partners);

}  // namespace stringline
