#include "executor/processes/tree_answers.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "executor/processes/frames.h"

namespace stringline {

std::string Encode(const TreeAnswer& answer) {
  std::vector<std::string> parts = {absl::StrCat(answer.meeting),
                                    absl::StrCat(answer.under_way ? 1 : 0)};
  for (const int process : answer.awaits) parts.push_back(absl::StrCat(process));
  return Pack(parts);
}

std::optional<TreeAnswer> DecodeTreeAnswer(absl::string_view bytes) {
  const auto parts = Unpack(bytes);
  TreeAnswer answer;
  int under_way = 0;
  if (!parts.has_value() || parts->size() < 2 || !absl::SimpleAtoi((*parts)[0], &answer.meeting) ||
      !absl::SimpleAtoi((*parts)[1], &under_way)) {
    return std::nullopt;
  }
  answer.under_way = under_way != 0;
  for (size_t i = 2; i < parts->size(); ++i) {
    int process = 0;
    if (!absl::SimpleAtoi((*parts)[i], &process)) return std::nullopt;
    answer.awaits.push_back(process);
  }
  return answer;
}

bool TreeAnswers::IsLate(int process, int64_t meeting) const {
  const auto answer = answers_.find(process);
  if (answer == answers_.end()) return true;
  return answer->second.meeting < meeting && !answer->second.under_way;
}

std::optional<std::pair<int, int>> TreeAnswers::Severed() const {
  for (const auto& [parent, of] : answers_) {
    for (const int child : of.awaits) {
      const auto answer = answers_.find(child);
      if (child > parent && answer != answers_.end() &&
          answer->second.awaits == std::vector<int>{parent}) {
        return std::pair(parent, child);
      }
    }
  }
  return std::nullopt;
}

}  // namespace stringline
