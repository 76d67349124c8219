#include "schedlang/sim/shared_links.h"

#include <algorithm>
#include <cmath>

namespace stringline {

void SharedLinks::Link::Advance(double now_ns) {
  now_ns = std::max(now_ns, at_ns);
  if (!moving.empty()) own_ns += (now_ns - at_ns) / static_cast<double>(moving.size());
  at_ns = now_ns;
}

double SharedLinks::Link::NextEndNs() const {
  return at_ns + std::max(0.0, moving.top().ends_at - own_ns) * static_cast<double>(moving.size());
}

void SharedLinks::Add(int32_t link, uint32_t transfer, int64_t start_ns, int64_t alone_ns) {
  waiting_.push({start_ns, order_++, link, transfer, alone_ns});
}

std::optional<SharedLinks::Finished> SharedLinks::Next() {
  while (true) {
    Link* first = nullptr;
    for (auto& [id, link] : links_) {
      if (link.moving.empty()) continue;
      if (first == nullptr || link.NextEndNs() < first->NextEndNs()) first = &link;
    }
    const bool starts =
        !waiting_.empty() &&
        (first == nullptr || static_cast<double>(waiting_.top().start_ns) < first->NextEndNs());
    if (starts) {
      const Waiting next = waiting_.top();
      waiting_.pop();
      Link& link = links_[next.link];
      link.Advance(static_cast<double>(next.start_ns));
      link.moving.push(
          {link.own_ns + static_cast<double>(next.alone_ns), next.order, next.transfer});
      continue;
    }
    if (first == nullptr) return std::nullopt;
    const double end_ns = first->NextEndNs();
    first->Advance(end_ns);
    // Whole nanoseconds, never before the end; rounding errors of the sums are below kLost.
    constexpr double kLost = 1e-3;
    const Finished finished = {first->moving.top().transfer,
                               static_cast<int64_t>(std::ceil(end_ns - kLost))};
    first->moving.pop();
    return finished;
  }
}

}  // namespace stringline
