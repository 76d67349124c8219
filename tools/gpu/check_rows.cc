#include "tools/gpu/check_rows.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"

namespace stringline {
namespace {

// A cell of a table: one line, without its separator.
std::string Cell(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\n", " "}, {"|", "/"}});
}

std::string Percent(const std::optional<double>& share) {
  return share.has_value() ? absl::StrFormat("%.2g %%", 100 * *share) : "";
}

}  // namespace

const char* NameOf(CheckResult result) {
  static constexpr const char* kNames[] = {"PASS", "FAIL", "SKIP"};
  return kNames[static_cast<int>(result)];
}

std::string PrintMarkdown(const std::string& device, const std::string& date,
                          const std::vector<CheckRow>& rows) {
  std::string text = absl::StrCat(
      device, ", ", date, "\n\n| section | check | | error / allowed | |\n|---|---|---|---|---|\n");
  int counts[3] = {0, 0, 0};
  for (const CheckRow& row : rows) {
    ++counts[static_cast<int>(row.result)];
    absl::StrAppend(&text, "| ", Cell(row.section), " | ", Cell(row.name), " | ",
                    NameOf(row.result), " | ", Percent(row.figures.ratio), " | ", Cell(row.said),
                    " |\n");
  }
  absl::StrAppend(&text, "\n", counts[0], " passed, ", counts[1], " failed, ", counts[2],
                  " skipped\n");
  return text;
}

std::string PrintJson(const std::string& device, const std::string& date,
                      const std::vector<CheckRow>& rows) {
  nlohmann::ordered_json all = {{"device", device}, {"date", date}};
  all["rows"] = nlohmann::ordered_json::array();
  for (const CheckRow& row : rows) {
    nlohmann::ordered_json made = {{"section", row.section},
                                   {"name", row.name},
                                   {"result", NameOf(row.result)},
                                   {"said", row.said}};
    const auto add = [&made](const char* name, const std::optional<double>& figure) {
      if (!figure.has_value()) return;
      if (std::isfinite(*figure)) {
        made[name] = *figure;
      } else {
        made[name] = "inf";  // JSON has no such number
      }
    };
    add("ratio", row.figures.ratio);
    add("us", row.figures.us);
    add("paper_us", row.figures.paper_us);
    all["rows"].push_back(std::move(made));
  }
  using nlohmann::ordered_json;
  return all.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace stringline
