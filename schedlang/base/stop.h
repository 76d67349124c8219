// A wish that long work ends soon: its reader no longer waits, or its time is over.
//
// Long work looks at the wish several times a second, and ends with its best result so far. A wish
// is never withdrawn.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

namespace stringline {

class Stop {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // Wished once `asked` (null: never) returns true, or at the time `end_ns` (clock.h). Any thread
  // may call `asked`.
  Stop(std::function<bool()> asked, int64_t end_ns) : asked_(std::move(asked)), end_ns_(end_ns) {}
  explicit Stop(int64_t end_ns) : end_ns_(end_ns) {}
  // Wished with `outer` (may be null), which must outlive this object, or at the time `end_ns`.
  Stop(const Stop* outer, int64_t end_ns) : outer_(outer), end_ns_(end_ns) {}
  Stop(const Stop&) = delete;
  Stop& operator=(const Stop&) = delete;

  // May be called from any thread.
  bool IsWished() const;

 private:
  const std::function<bool()> asked_;
  const Stop* const outer_ = nullptr;
  const int64_t end_ns_;
  mutable std::atomic<bool> is_wished_ = false;
};

// False for null.
inline bool IsWished(const Stop* stop) { return stop != nullptr && stop->IsWished(); }

// Looks at a wish once in `calls` calls, for loops whose passes are short.
class SparseStop {
 public:
  SparseStop(const Stop* stop, int calls) : stop_(stop), calls_(calls) {}
  bool IsWished() {
    if (stop_ == nullptr || ++count_ < calls_) return false;
    count_ = 0;
    return stop_->IsWished();
  }

 private:
  const Stop* const stop_;
  const int calls_;
  int count_ = 0;
};

}  // namespace stringline
