#include "tools/view/compare.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/view/words.h"

namespace stringline {

double Misprediction(const Timeline& measured, const Timeline& simulated) {
  const double took = static_cast<double>(MeasureBubbles(measured).makespan_ns);
  if (took == 0) return 0;
  return (static_cast<double>(MeasureBubbles(simulated).makespan_ns) - took) / took;
}

std::string Compare(const Timeline& measured, const Timeline& simulated, const Picture& picture) {
  const int64_t took = MeasureBubbles(measured).makespan_ns;
  const int64_t predicted = MeasureBubbles(simulated).makespan_ns;
  const double error = Misprediction(measured, simulated);
  const std::string reconstructed = PrintReconstruction(measured);
  return absl::StrCat(
      DrawTogether({&measured, &simulated}, picture), "\npredicted ", PrintTime(predicted),
      ", took ", PrintTime(took), ": ",
      absl::StrFormat("%.1f %% too %s\n", 100 * std::fabs(error), error < 0 ? "short" : "long"),
      reconstructed, reconstructed.empty() ? "" : "\n");
}

}  // namespace stringline
