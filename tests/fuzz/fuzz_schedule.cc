// A schedule file: parse, lay out, elaborate with few actions, lower and check.
#include <cstddef>
#include <cstdint>
#include <string>

#include "schedlang/base/sl_check.h"
#include "schedlang/check/check.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/lower.h"
#include "schedlang/text/format.h"
#include "schedlang/text/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stringline;  // NOLINT: a whole program in one function
  const Source source("x.sched", std::string(reinterpret_cast<const char*>(data), size));
  Diagnostics diagnostics;
  const auto file = Parse(source, &diagnostics);
  if (!file) {
    SL_CHECK(!diagnostics.empty()) << "refused without a finding";
    Render(diagnostics, source);
    return 0;
  }
  Diagnostics ignored;
  const auto laid_out = Format(source, &ignored);
  SL_CHECK(laid_out) << "what parses can be laid out";
  const auto again = Format(Source("x.sched", *laid_out), &ignored);
  SL_CHECK(again && *again == *laid_out) << "laying out twice changes something";
  const ElaborateLimits limits{
      .actions = 2'000, .steps = 20'000, .ranks = 64, .searched_letters = 2'000};
  for (const auto& [p, m] : {std::pair(1, 1), std::pair(2, 4), std::pair(4, 8)}) {
    Diagnostics findings;
    const auto plan = Elaborate(*file, "", {{"P", p}, {"M", m}}, &findings, limits);
    SL_CHECK(plan || !findings.empty()) << "refused without a finding";
    if (plan) Check(Lower(*plan, CommLayout::kPair), {.layout = CommLayout::kPair}, &findings);
    Render(findings, source);
  }
  return 0;
}
