// Made-up results of a suite, for tests.
#pragma once

#include "tools/bench/results.h"

namespace stringline {

// "small 1f1b P=2 M=4 fp32", 5 repetitions of 100 ms, and beside these in torch 200 ms; the same of
// zb_h1, where torch's side has a reason instead.
SuiteResults MadeResults();

// All steps of the case take so many times as long.
void SlowDown(double factor, CaseResult* result);

}  // namespace stringline
