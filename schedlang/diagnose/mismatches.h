// Calls that belong together and do not agree: other collectives, sizes or dtypes.
#pragma once

#include <vector>

#include "schedlang/diagnose/partners.h"
#include "schedlang/diagnose/records.h"

namespace stringline {

enum class Disagreement : uint8_t { kCall, kSize, kDtype };

// A cause that the calls next to a collective suggest.
enum class Hint : uint8_t {
  kNone,
  kSwapped,  // the odd ranks make this call and the next in the other order
  kLeftOut,  // the odd ranks left a call out: theirs is what the others make next
  kSurplus,  // the odd ranks make a call that the others do not
};

struct Mismatch {
  Disagreement about = Disagreement::kCall;
  int meeting = -1;  // index into Partners::meetings, or:
  int pair = -1;     // index into Partners::pairs
  // The calls that agree with each other, the most first; of a message its send, then its receive.
  std::vector<std::vector<CallAt>> sides;
  Hint hint = Hint::kNone;
};

// The first of each group and of each pair: what follows may only be out of step.
std::vector<Mismatch> MismatchesOf(const Records& records, const std::vector<Standing>& standings,
                                   const Partners& partners);

}  // namespace stringline
