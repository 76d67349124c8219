// The network parts of mixtures of experts as calls on the group of ranks that share the experts:
// one for each part, with all arrays of the rows that travel, and their counts where these are not
// known. A combine is followed by work that zeroes the rows behind those returned.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "executor/engine/group.h"
#include "executor/engine/kernels.h"
#include "executor/engine/stage_work.h"
#include "executor/training/ready_graph.h"
#include "schedlang/plan/parts.h"
#include "schedlang/plan/plan.h"

namespace stringline {

class RowExchanges {
 public:
  RowExchanges(const Plan& plan, Kernels* kernels) : plan_(plan), kernels_(kernels) {}

  // The calls of a part, as `member` of `group`. They refer to names and counts of this object.
  Piece Bind(const Action& action, LayerPart part, Group* group, int member,
             absl::Span<const ReadyGraph::Exchange> exchanges);

 private:
  // The exchange of a call, for messages to people.
  struct ExchangeName {
    const Plan* plan;
    Action action;
    LayerPart part;
  };
  // The rows returned by an exchange.
  struct Tails {
    Kernels* kernels;
    std::vector<CountedRows> all;
  };
  static void ClearTails(const void* self, int64_t argument, NativeStream stream);
  static std::string PrintExchange(const void* self, int64_t index);

  const Plan& plan_;
  Kernels* const kernels_;
  std::deque<ExchangeName> names_;
  std::deque<RowCounts> row_counts_;
  std::deque<Tails> tails_;
};

}  // namespace stringline
