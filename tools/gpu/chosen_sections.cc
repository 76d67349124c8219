// A word is a half or a section. Halves are lists of their own, since each has a time of its own.
#include "tools/gpu/chosen_sections.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stringline {
namespace {

constexpr const char* kHalves[] = {"first", "second"};

std::vector<CheckSection> Half(const std::vector<CheckSection>& all, int half) {
  std::vector<CheckSection> sections;
  std::copy_if(all.begin(), all.end(), std::back_inserter(sections),
               [half](const CheckSection& section) { return section.half == half; });
  return sections;
}

template <class Has>
bool Any(const ChosenSections& chosen, const Has& has) {
  return std::any_of(chosen.runs.begin(), chosen.runs.end(),
                     [&](const auto& run) { return std::any_of(run.begin(), run.end(), has); });
}

}  // namespace

absl::StatusOr<ChosenSections> ChooseSections(const std::vector<CheckSection>& all,
                                              const std::vector<std::string>& words) {
  if (words.empty()) return ChosenSections{"gpu_check", {Half(all, 1), Half(all, 2)}};
  for (const int half : {1, 2}) {
    const char* const name = kHalves[half - 1];
    if (words.size() == 1 && words[0] == name) {
      return ChosenSections{absl::StrCat("gpu_check_", name), {Half(all, half)}};
    }
  }
  std::vector<CheckSection> sections;
  for (const std::string& word : words) {
    const auto found = std::find_if(
        all.begin(), all.end(), [&](const CheckSection& section) { return section.name == word; });
    if (found != all.end()) {
      sections.push_back(*found);
      continue;
    }
    std::string names;
    for (const CheckSection& section : all) absl::StrAppend(&names, " ", section.name);
    return absl::NotFoundError(absl::StrCat("there is no section '", word, "'; there are", names,
                                            "; or one of the halves: first second"));
  }
  return ChosenSections{"gpu_check", {std::move(sections)}};
}

std::vector<CheckRow> WithSectionsLeftOut(std::vector<CheckRow> rows,
                                          const std::vector<CheckSection>& all,
                                          const ChosenSections& chosen) {
  for (const CheckSection& section : all) {
    const auto is_of = [&section](const auto& other) { return other.name == section.name; };
    const bool has_row = std::any_of(rows.begin(), rows.end(), [&section](const CheckRow& row) {
      return row.section == section.name;
    });
    if (has_row) continue;
    rows.push_back({section.name, "all of it", CheckResult::kSkip,
                    Any(chosen, is_of) ? "it had not begun when this table was written"
                                       : absl::StrCat("not asked for: tools/gpu_check ",
                                                      kHalves[section.half - 1], " runs it")});
  }
  return rows;
}

std::string DescribeSections(const std::vector<CheckSection>& all) {
  std::string text;
  for (const int half : {1, 2}) {
    const std::vector<CheckSection> sections = Half(all, half);
    absl::StrAppend(&text, "  ", kHalves[half - 1], "\n");
    for (const CheckSection& section : sections) {
      absl::StrAppendFormat(&text, "    %-11s %s\n", section.name, section.about);
    }
  }
  return text;
}

}  // namespace stringline
