#include "executor/processes/tree_meeting.h"

#include <utility>

namespace stringline {

void TreeMeeting::Begin() {
  ++number_;
  phase_ = Phase::kUp;
}

bool TreeMeeting::Give(int child, std::string part) {
  for (size_t c = 0; c < gave_.size(); ++c) {
    if (place_.children[c].first != child || gave_[c].has_value()) continue;
    gave_[c] = std::move(part);
    return true;
  }
  return false;
}

bool TreeMeeting::TellResult(int parent, std::string result) {
  if (parent != place_.parent || phase_ != Phase::kAbove || result_.has_value()) return false;
  result_ = std::move(result);
  return true;
}

std::vector<std::string> TreeMeeting::TakeParts() {
  std::vector<std::string> parts;
  for (auto& part : gave_) parts.push_back(*std::exchange(part, std::nullopt));
  phase_ = Phase::kAbove;
  return parts;
}

std::optional<std::string> TreeMeeting::TakeResult() {
  return std::exchange(result_, std::nullopt);
}

void TreeMeeting::BeginDown() {
  phase_ = Phase::kDown;
  completed_ = number_;
}

std::vector<int> TreeMeeting::Awaited() const {
  if (phase_ == Phase::kAbove && place_.parent >= 0) return {place_.parent};
  std::vector<int> awaited;
  if (phase_ != Phase::kUp) return awaited;
  for (const ProcessBlock& block : Missing()) awaited.push_back(block.first);
  return awaited;
}

std::vector<ProcessBlock> TreeMeeting::Missing() const {
  std::vector<ProcessBlock> missing;
  for (size_t c = 0; c < gave_.size(); ++c) {
    if (!gave_[c].has_value()) missing.push_back(place_.children[c]);
  }
  return missing;
}

}  // namespace stringline
