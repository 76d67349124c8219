// Links shared by several messages at once: each gets an equal share of the bandwidth while others
// are present.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <queue>
#include <vector>

namespace stringline {

class SharedLinks {
 public:
  struct Finished {
    uint32_t transfer = 0;
    int64_t end_ns = 0;
  };

  // `alone_ns` is the transfer's length when alone on the link. A transfer may not start before the
  // end last returned by Next.
  void Add(int32_t link, uint32_t transfer, int64_t start_ns, int64_t alone_ns);

  // The first transfer to end of all added; nothing if none is left. The caller has added every
  // transfer with a start before this end.
  std::optional<Finished> Next();

 private:
  struct Waiting {
    int64_t start_ns;
    uint64_t order;  // the order of Add, which breaks ties
    int32_t link;
    uint32_t transfer;
    int64_t alone_ns;
    friend bool operator>(const Waiting& a, const Waiting& b) {
      return a.start_ns != b.start_ns ? a.start_ns > b.start_ns : a.order > b.order;
    }
  };
  struct Moving {
    double ends_at;  // in the link's own time
    uint64_t order;
    uint32_t transfer;
    friend bool operator>(const Moving& a, const Moving& b) {
      return a.ends_at != b.ends_at ? a.ends_at > b.ends_at : a.order > b.order;
    }
  };
  template <typename T>
  using Earliest = std::priority_queue<T, std::vector<T>, std::greater<>>;
  // A link has its own time, which advances by 1/n of real time while n transfers share the link.
  struct Link {
    double own_ns = 0;
    double at_ns = 0;  // the real time of own_ns
    Earliest<Moving> moving;

    void Advance(double now_ns);
    double NextEndNs() const;
  };

  Earliest<Waiting> waiting_;
  std::map<int32_t, Link> links_;
  uint64_t order_ = 0;
};

}  // namespace stringline
