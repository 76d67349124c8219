// Checks, simulates and draws a schedule: embed FILE-OR-NAME P M OUT.svg
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "schedlang/ask/session.h"
#include "tools/view/svg.h"
#include "tools/view/words.h"

int main(int count, char** words) {
  if (count != 5) return 2;
  const stringline::PlanRequest plan = {
      .file = words[1], .parameters = {{"P", std::atoi(words[2])}, {"M", std::atoi(words[3])}}};
  const stringline::CostRequest costs = {.text = "F=10ms,I=10ms,W=8ms,B=18ms,p2p=500us"};
  const auto step = stringline::OpenSimulated(plan, costs, {});
  if (!step.ok() || !step->timeline) {
    std::cerr << (step.ok() ? Render(step->diagnostics, step->source) : step.status().ToString());
    return 1;
  }
  std::cout << TitleOf(*step->timeline) << ": " << PrintBubble(MeasureBubbles(*step->timeline))
            << "\n";
  std::ofstream(words[4]) << stringline::DrawSvg({&*step->timeline}, {});
}
