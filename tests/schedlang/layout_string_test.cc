// Megatron's layout strings, good and bad.
#include "schedlang/elaborate/layout_string.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stringline {
namespace {

// The stages joined by '/', or the finding with its column in the string.
std::string StagesOf(const std::string& layout, bool chain = true) {
  Diagnostics diagnostics;
  const auto stages = ReadLayout(absl::StrCat("\"", layout, "\""), 0, chain, &diagnostics);
  if (stages) return absl::StrJoin(*stages, "/");
  const Diagnostic& finding = diagnostics.findings().at(0);
  return absl::StrCat(finding.span.begin, ": ", finding.text);
}

struct LayoutCase {
  const char* layout;
  const char* stages;
};

const LayoutCase kLayouts[] = {
    {"EL", "EL"},
    {"Et|tL", "Et/tL"},
    {"Et*3|(tt|)*2,m|L", "Ettt/tt/tt/m/L"},
    {"E|((t|)*2tt|)*2L", "E/t/t/tt/t/t/tt/L"},  // groups in groups
    {"Ett||L", "Ett//L"},                       // an empty stage
    {"E|t*0|L", "E//L"},
    {" E t * 2 , | L ", "Ett/L"},
    // Errors
    {"", "0: the layout has no embedding, 'E'"},
    {"Et", "0: the layout has no loss, 'L'"},
    {"EEL",
     "0: the layout has more than one embedding, 'E'; "
     "stages that are no chain (`edges`) may"},
    {"tEL", "0: a layer comes before the embedding, 'E'"},
    {"EL|t", "0: a layer comes after the loss, 'L'"},
    {"Ex|L", "2: 'x' is no part of a layout: E, t, m, L, '|', '( )' and '* number' are"},
    {"E(t|L", "2: this '(' is never closed"},
    {"E(t(tt)*2|L", "2: this '(' is never closed"},
    {"Et)L", "3: this ')' closes nothing"},
    {"Et*|L", "4: a number must follow '*'"},
    {"E*3",
     "0: the layout has more than one embedding, 'E'; "
     "stages that are no chain (`edges`) may"},
    {"E(t*1000000)*1000000L", "13: the layout is longer than 1048576 items here"},
};

TEST(LayoutString, IsReadAsMegatronWritesIt) {
  for (const LayoutCase& c : kLayouts) EXPECT_EQ(StagesOf(c.layout), c.stages) << c.layout;
}

}  // namespace
}  // namespace stringline
