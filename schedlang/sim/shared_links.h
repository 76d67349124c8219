// Links that several messages use at once: each gets an equal share of the bandwidth for as long as
// the others are there.
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

  // `alone_ns` is how long the transfer takes when it is alone on the link. It may not start before
  // the end of what Next has returned last.
  void Add(int32_t link, uint32_t transfer, int64_t start_ns, int64_t alone_ns);

  // The transfer that ends first of all that were added; nothing if there is none. Whoever calls it
  // has added everything that starts before that end.
  std::optional<Finished> Next();

 private:
  struct Waiting {
    int64_t start_ns;
    uint64_t order;  // of Add, so that equals keep it
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
  // A link has a time of its own, which goes 1/n as fast while n transfers share it.
  struct Link {
    double own_ns = 0;
    double at_ns = 0;  // when that was so
    Earliest<Moving> moving;

    void Advance(double now_ns);
    double NextEndNs() const;
  };

  Earliest<Waiting> waiting_;
  std::map<int32_t, Link> links_;
  uint64_t order_ = 0;
};

}  // namespace stringline
