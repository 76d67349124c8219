// The findings of gpu_check: rows of sections.
#pragma once

#include <string>
#include <vector>

namespace stringline {

enum class CheckResult { kPass, kFail, kSkip };

struct CheckRow {
  std::string section;
  std::string name;
  CheckResult result = CheckResult::kPass;
  std::string said;  // a figure, an error, or the reason for a skip
};
const char* NameOf(CheckResult result);  // "PASS"

// The receiver of a section's findings. A row is kept from the moment when it is reported, whatever
// happens to the section afterwards.
class CheckRows {
 public:
  virtual ~CheckRows() = default;
  virtual void Say(CheckResult result, const std::string& name, const std::string& said) = 0;

  void Pass(const std::string& name, const std::string& figure) {
    Say(CheckResult::kPass, name, figure);
  }
  void Fail(const std::string& name, const std::string& wrong) {
    Say(CheckResult::kFail, name, wrong);
  }
  void Skip(const std::string& name, const std::string& why) { Say(CheckResult::kSkip, name, why); }
};

// For people, and for programs: {"device", "date", "rows": [{"section", "name", "result",
// "said"}]}.
std::string PrintMarkdown(const std::string& device, const std::string& date,
                          const std::vector<CheckRow>& rows);
std::string PrintJson(const std::string& device, const std::string& date,
                      const std::vector<CheckRow>& rows);

}  // namespace stringline
