#include "schedlang/base/stop.h"

#include "schedlang/base/clock.h"

namespace stringline {

bool Stop::IsWished() const {
  if (is_wished_) return true;
  if (!(asked_ && asked_()) && !stringline::IsWished(outer_) &&
      (end_ns_ == kNever || NowNs() < end_ns_)) {
    return false;
  }
  is_wished_ = true;
  return true;
}

}  // namespace stringline
