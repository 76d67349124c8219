// From the records of all ranks to what is wrong: a function of values alone.
//
// The cost is linear in calls and members, times a logarithm. The dumps have to be of one moment,
// as those of a timeout are: between dumps of a job that went on, ranks seem to be behind.
#pragma once

#include <optional>
#include <vector>

#include "schedlang/diagnose/mismatches.h"
#include "schedlang/diagnose/partners.h"
#include "schedlang/diagnose/records.h"
#include "schedlang/diagnose/waits.h"
#include "schedlang/plan/communicators.h"

namespace stringline {

// A rank waits in `call`, one of Waits::held[held], for the rank that lacks its part.
struct WaitStep {
  int32_t held = -1;
  CallAt call;
  Lacking lacking;
};

enum class BehindWhy : uint8_t {
  kLate,      // all its calls have ended, and others wait for the next
  kStuck,     // it is in a call that all partners have made, and that does not end
  kNoDump,    // there is no dump of it
  kCutShort,  // its dump ends early
};

// Calls of one group that a late rank makes at another place in the code than the others.
struct Divergence {
  CallAt late, other;
};

// Ranks at which chains of waits end: they have nobody to wait for.
struct Behind {
  BehindWhy why = BehindWhy::kLate;
  std::vector<int> ranks;
  int32_t held = -1;            // index into Waits::held: what waits for them; -1: nothing
  std::vector<WaitStep> chain;  // of the longest chain of waits: its last is for one of `ranks`
  int waiting = 0;              // ranks that wait for them, over others, too
  std::optional<CallAt> last;   // the last call of the first of them
  std::optional<Divergence> divergence;
};

struct Diagnosis {
  Partners partners;
  Waits waits;
  std::vector<Mismatch> mismatches;
  std::vector<Behind> behind;
  std::vector<std::vector<WaitStep>> circles;  // each step's rank waits for that of the next
  std::vector<std::vector<CallAt>> given_up;   // calls with all their ranks, that timed out
  std::vector<int> without_dump;               // nothing waits for them
  int under_way = 0;                           // calls that all partners have made
  bool dropped = false;                        // some recorder has overwritten its first calls
  int64_t visited_for_divergence = 0;          // launches: at most all of those that are recorded

  bool IsClean() const {
    return mismatches.empty() && behind.empty() && circles.empty() && given_up.empty();
  }
};

Diagnosis Diagnose(const Records& records, CommLayout layout);

// The number of a message among those of its pair that carry tensors, from 0. Nothing where
// messages before it were dropped, and for an object.
std::optional<int64_t> NumberOf(const Records& records, const Pair& pair, const CallAt& message);

}  // namespace stringline
