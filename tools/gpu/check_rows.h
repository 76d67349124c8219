// The findings of gpu_check: rows of sections.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace stringline {

enum class CheckResult { kPass, kFail, kSkip };

// Numbers of a row beside its text.
struct CheckFigures {
  std::optional<double> ratio;     // the worst error as a share of its tolerance
  std::optional<double> us;        // the time of an op in a microbatch: measured
  std::optional<double> paper_us;  // and computed (executor/cuda/PAPER.md)
};

struct CheckRow {
  std::string section;
  std::string name;
  CheckResult result = CheckResult::kPass;
  std::string said;  // a figure, an error, or the reason for a skip
  CheckFigures figures = {};
};
const char* NameOf(CheckResult result);  // "PASS"

// The receiver of a section's findings. A row is kept from the moment when it is reported, whatever
// happens to the section afterwards.
class CheckRows {
 public:
  virtual ~CheckRows() = default;
  virtual void Say(CheckRow row) = 0;  // its section is filled in later

  void Pass(const std::string& name, const std::string& figure, CheckFigures figures = {}) {
    Say({"", name, CheckResult::kPass, figure, figures});
  }
  void Fail(const std::string& name, const std::string& wrong, CheckFigures figures = {}) {
    Say({"", name, CheckResult::kFail, wrong, figures});
  }
  void Skip(const std::string& name, const std::string& why) {
    Say({"", name, CheckResult::kSkip, why});
  }
  // Passes if the error, as a share of its tolerance, is 1 at most.
  void Hold(const std::string& name, double ratio, const std::string& figure) {
    Say({"", name, ratio <= 1 ? CheckResult::kPass : CheckResult::kFail, figure, {.ratio = ratio}});
  }
};

// For people, and for programs: {"device", "date", "rows": [{"section", "name", "result", "said",
// "ratio", "us", "paper_us"}]}, the last three where they are known. A ratio that is not finite is
// the text "inf".
std::string PrintMarkdown(const std::string& device, const std::string& date,
                          const std::vector<CheckRow>& rows);
std::string PrintJson(const std::string& device, const std::string& date,
                      const std::vector<CheckRow>& rows);

}  // namespace stringline
