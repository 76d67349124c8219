// Where a plan's stages live, as text: the layout if it is one of the language's, and how a rank
// calls its own stages, so that ranks that do alike are written alike.
#pragma once

#include <string>
#include <vector>

#include "schedlang/plan.h"
#include "schedlang/write/schedule_lines.h"

namespace stringline::search {

struct StageText {
  std::vector<std::string> lines;  // of the schedule's block: `stages P on line;`, or pipes
  std::vector<Let> lets;           // of the rank's block
  // A role is a stage relative to a rank: its first, its second.
  std::vector<std::string> roles;  // how an action names it: "r", "up[s]"
  std::vector<int> role_of_stage;
  // The microbatches of every stage are "M", or "M / 2". False: they are numbers, for these alone.
  std::string microbatches = "M";
  int parts = 1;  // what M is divided by
  bool holds_for_all = true;
};

StageText TextOfStages(const Plan& plan);

}  // namespace stringline::search
