// The answers of processes that process 0 asks where they are, shortly before it would take them
// for late.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace stringline {

struct TreeAnswer {
  int64_t meeting = 0;  // the last to which it came
  bool under_way = false;
  std::vector<int> awaits;  // neighbours
};
std::string Encode(const TreeAnswer& answer);
std::optional<TreeAnswer> DecodeTreeAnswer(absl::string_view bytes);

class TreeAnswers {
 public:
  void Clear() { answers_.clear(); }
  void Add(int process, TreeAnswer answer) { answers_[process] = std::move(answer); }
  // Late is who does not answer, or has not come to the meeting. A process that still waits in the
  // meeting before is held up by another.
  bool IsLate(int process, int64_t meeting) const;
  // A parent and a child that wait for each other: nothing passes between them. Nothing if there
  // are none.
  std::optional<std::pair<int, int>> Severed() const;

 private:
  std::map<int, TreeAnswer> answers_;
};

}  // namespace stringline
