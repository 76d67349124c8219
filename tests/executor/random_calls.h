// Random collectives and messages on interleaved groups, held against a serial reference.
#pragma once

#include "tests/executor/group_contract.h"

namespace stringline {

// Every member makes the same random calls on several groups of all members, whose orders differ,
// each group on a stream of its own; sizes lie around those at which messages travel otherwise. A
// GroupContract of groups on CPUs.
void RandomCallsEqualTheReference(const NewGroupMachine& make, int count, unsigned seed);

}  // namespace stringline
