// The meetings of a process in the tree of processes, one after the other: what has come in the one
// under way, and what is awaited.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "executor/processes/process_tree.h"

namespace stringline {

class TreeMeeting {
 public:
  // `place` outlives the object.
  explicit TreeMeeting(const TreePlace* place) : place_(*place), gave_(place->children.size()) {}

  enum class Phase : uint8_t {
    kApart,  // between two meetings
    kUp,     // the children's parts come
    kAbove,  // the result comes from the parent
    kDown,   // the result goes to the children
  };
  Phase phase() const { return phase_; }
  bool under_way() const { return phase_ != Phase::kApart; }
  int64_t number() const { return number_; }  // from 1
  int64_t completed() const { return completed_; }

  void Begin();
  // A part or the result comes; false if it is not expected.
  bool Give(int child, std::string part);
  bool TellResult(int parent, std::string result);
  bool all_gave() const { return phase_ != Phase::kUp || Missing().empty(); }
  bool has_result() const { return result_.has_value(); }
  // The next phase, with the parts of the children, in their order.
  std::vector<std::string> TakeParts();
  std::optional<std::string> TakeResult();
  void BeginDown();
  void End() { phase_ = Phase::kApart; }

  // The neighbours from which something has to come now.
  std::vector<int> Awaited() const;
  // The blocks of the children that have given nothing.
  std::vector<ProcessBlock> Missing() const;

 private:
  const TreePlace& place_;
  Phase phase_ = Phase::kApart;
  int64_t number_ = 0, completed_ = 0;
  std::vector<std::optional<std::string>> gave_;  // by child; those of the next meeting may come
  std::optional<std::string> result_;
};

}  // namespace stringline
