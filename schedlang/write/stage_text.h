// The placement of a plan's stages as text: the layout if the language has it, and a rank's names
// for its own stages, so that similar ranks have similar text.
#pragma once

#include <string>
#include <vector>

#include "schedlang/plan/plan.h"
#include "schedlang/write/schedule_lines.h"

namespace stringline::search {

struct StageText {
  std::vector<std::string> lines;  // the schedule's block: `stages P on line;`, or pipes
  std::vector<Let> lets;           // in the rank's block
  // A role is a stage relative to a rank: its first, its second.
  std::vector<std::string> roles;  // the name in an action: "r", "up[s]"
  std::vector<int> role_of_stage;
  // The microbatches of every stage are "M", or "M / 2". False: fixed numbers, valid for this plan
  // only.
  std::string microbatches = "M";
  int parts = 1;  // the divisor of M
  bool holds_for_all = true;
};

StageText TextOfStages(const Plan& plan);

}  // namespace stringline::search
