// One rank after the other is played through, as each process plays its own: what it receives is
// counted chunk by chunk, since the k-th tensor received for a chunk is that of microbatch k.
#include "schedlang/megatron/issued_order.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "schedlang/plan/effects.h"

namespace stringline {
namespace {

// The messages of one call of Megatron's communicator: with the next rank of the ring and with the
// one before.
struct Exchange {
  std::optional<Action> send_next, recv_next, send_prev, recv_prev;
};

Action Of(ActionKind kind, int stage, int microbatch) {
  return {.kind = kind,
          .stage = StageId(stage),
          .microbatch = MicrobatchId(microbatch),
          .place = UINT32_MAX};
}

// Appends to the list of one rank.
class RankList {
 public:
  RankList(const MegatronOrder& order, int rank, PlanFile* file)
      : order_(order), rank_(rank), file_(file) {}

  void Compute(std::optional<Action> forward, std::optional<Action> backward) {
    if (forward) Push(*forward);
    if (!backward) return;
    backward->joined = forward.has_value();
    Push(*backward);
  }

  // Issues the messages; in the order in which Megatron keeps them.
  std::vector<Action> Issue(const Exchange& of) {
    const auto& [send_next, recv_next, send_prev, recv_prev] = of;
    const bool even = rank_ % 2 == 0;
    using Row = std::array<std::optional<Action>, 4>;
    const Row row = order_.batches_p2p ? Row{send_prev, recv_prev, send_next, recv_next}
                    : even             ? Row{send_next, recv_prev, send_prev, recv_next}
                                       : Row{recv_prev, send_next, recv_next, send_prev};
    std::vector<Action> issued;
    for (const std::optional<Action>& message : row) {
      if (!message) continue;
      issued.push_back(*message);
      issued.back().joined = order_.batches_p2p && issued.size() > 1;
      Push(issued.back());
    }
    return issued;
  }
  void IssueAndWait(const Exchange& exchange) {
    for (const Action& message : Issue(exchange)) Wait(message);
  }

  void Wait(const Action& message) {
    file_->waits.push_back({message.kind, message.stage, message.microbatch, RankId(rank_),
                            static_cast<uint32_t>(file_->plan.actions.size()), Span()});
  }

  void End() { file_->plan.first.push_back(static_cast<uint32_t>(file_->plan.actions.size())); }

 private:
  void Push(const Action& action) { file_->plan.actions.push_back(action); }

  const MegatronOrder& order_;
  const int rank_;
  PlanFile* const file_;
};

void NoPipelining(const MegatronOrder& order, RankList* list) {
  const auto forward = [](int m) { return Of(ActionKind::kForward, 0, m); };
  const auto backward = [](int m) { return Of(ActionKind::kBackward, 0, m); };
  for (int m = 0; m < order.microbatches; ++m) {
    const bool pairs = order.combines && m > 0;
    list->Compute(forward(m), pairs ? std::optional(backward(m - 1)) : std::nullopt);
    if (!order.combines || m + 1 == order.microbatches) list->Compute({}, backward(m));
  }
}

// A rank of 1F1B: its stage has its number.
void OneForwardOneBackward(const MegatronOrder& order, int rank, RankList* list) {
  const bool first = rank == 0, last = rank == order.ranks - 1;
  const int warm_up = std::min(order.ranks - 1 - rank, order.microbatches);
  const int steady = order.microbatches - warm_up;
  using Kind = ActionKind;
  const auto unless = [&](bool end, Kind kind, int m) {
    return end ? std::nullopt : std::optional(Of(kind, rank, m));
  };
  const auto input = [&](int m) { return unless(first, Kind::kRecvForward, m); };
  const auto output = [&](int m) { return unless(last, Kind::kSendForward, m); };
  const auto gradient = [&](int m) { return unless(last, Kind::kRecvBackward, m); };
  const auto result = [&](int m) { return unless(first, Kind::kSendBackward, m); };
  const auto forward = [&](int m) { list->Compute(Of(Kind::kForward, rank, m), {}); };
  const auto backward = [&](int m) { list->Compute({}, Of(Kind::kBackward, rank, m)); };
  for (int m = 0; m < warm_up; ++m) {
    list->IssueAndWait({.recv_prev = input(m)});
    forward(m);
    list->IssueAndWait({.send_next = output(m)});
  }
  if (steady > 0) list->IssueAndWait({.recv_prev = input(warm_up)});
  for (int k = 0; k < steady; ++k) {
    const int m = warm_up + k;
    forward(m);
    list->IssueAndWait({.send_next = output(m), .recv_next = gradient(k)});
    backward(k);
    Exchange behind = {.send_prev = result(k)};
    if (k + 1 < steady) behind.recv_prev = input(m + 1);
    list->IssueAndWait(behind);
  }
  for (int m = steady; m < order.microbatches; ++m) {
    list->IssueAndWait({.recv_next = gradient(m)});
    backward(m);
    list->IssueAndWait({.send_prev = result(m)});
  }
}

// Virtual microbatches, numbered as a rank does them: a microbatch and a chunk each. Backwards have
// the same table with the chunks from the last to the first.
struct VirtualMicrobatch {
  int microbatch = 0;
  int chunk = 0;
};
std::vector<VirtualMicrobatch> TableOf(const MegatronOrder& order) {
  std::vector<VirtualMicrobatch> table;
  for (int begin = 0; begin < order.microbatches; begin += order.group) {
    const int end = std::min(begin + order.group, order.microbatches);
    for (int chunk = 0; chunk < order.chunks; ++chunk) {
      for (int m = begin; m < end; ++m) table.push_back({m, chunk});
    }
  }
  return table;
}

// One way through the chunks of a rank: that of activations or that of gradients.
class Way {
 public:
  Way(const MegatronOrder& order, const std::vector<VirtualMicrobatch>& table, int rank,
      bool forward)
      : order_(order),
        table_(table),
        rank_(rank),
        forward_(forward),
        leads_(rank == (forward ? 0 : order.ranks - 1)),
        trails_(rank == (forward ? order.ranks - 1 : 0)),
        received_(order.chunks, 0) {}

  int ChunkOf(int k) const {
    const int chunk = table_[static_cast<size_t>(k)].chunk;
    return forward_ ? chunk : order_.chunks - 1 - chunk;
  }
  Action Computation(int k) const {
    return At(forward_ ? ActionKind::kForward : ActionKind::kBackward, ChunkOf(k),
              table_[static_cast<size_t>(k)].microbatch);
  }
  // True if the computation takes a message: it is not the first of all stages on this way.
  bool Takes(int k) const { return !leads_ || ChunkOf(k) != FirstChunk(); }
  bool leads() const { return leads_; }

  // The message with the result, if any rank takes it.
  std::optional<Action> Send(int k) const {
    if (trails_ && ChunkOf(k) == LastChunk()) return std::nullopt;
    const Action computation = Computation(k);
    return At(forward_ ? ActionKind::kSendForward : ActionKind::kSendBackward, ChunkOf(k),
              computation.microbatch.value);
  }

  // The receive that Megatron issues with computation k, for a later one. The leading rank takes
  // what the trailing rank does P - 1 computations later than itself.
  std::optional<Action> Receive(int k) {
    const int behind = order_.ranks - 1;
    int chunk = 0;
    if (!leads_) {
      chunk = ChunkOf((k + 1) % static_cast<int>(table_.size()));
    } else if (k < behind || ChunkOf(k - behind) == LastChunk()) {
      return std::nullopt;
    } else {
      chunk = ChunkOf(k - behind) + (forward_ ? 1 : -1);
    }
    return ReceiveFor(chunk);
  }
  // The receive before the first computation, if it takes a message.
  std::optional<Action> FirstReceive() {
    return leads_ ? std::nullopt : std::optional(ReceiveFor(FirstChunk()));
  }

  // The messages whose ends the rank has still to wait for.
  std::deque<Action> receives;
  std::optional<Action> send;

 private:
  int FirstChunk() const { return forward_ ? 0 : order_.chunks - 1; }
  int LastChunk() const { return forward_ ? order_.chunks - 1 : 0; }
  Action At(ActionKind kind, int chunk, int microbatch) const {
    return Of(kind, chunk * order_.ranks + rank_, microbatch);
  }
  Action ReceiveFor(int chunk) {
    return At(forward_ ? ActionKind::kRecvForward : ActionKind::kRecvBackward, chunk,
              received_[static_cast<size_t>(chunk)]++);
  }

  const MegatronOrder& order_;
  const std::vector<VirtualMicrobatch>& table_;
  const int rank_;
  const bool forward_;
  const bool leads_, trails_;
  std::vector<int> received_;  // by chunk
};

class InterleavedRank {
 public:
  InterleavedRank(const MegatronOrder& order, const std::vector<VirtualMicrobatch>& table, int rank,
                  RankList* list)
      : order_(order),
        all_(static_cast<int>(table.size())),
        list_(*list),
        forward_(order, table, rank, true),
        backward_(order, table, rank, false) {
    const int usual = 2 * (order.ranks - 1 - rank) + (order.chunks - 1) * order.group;
    warm_up_ = std::min(usual + (order.combines ? 1 : 0), all_);
    // A longer warm-up than there is work is cut, and then nothing is steady.
    steady_ = all_ - warm_up_;
  }

  void Play() {
    list_.IssueAndWait({.recv_prev = forward_.FirstReceive()});
    for (int k = 0; k < warm_up_; ++k) WarmUp(k);
    for (int k = 0; k < steady_; ++k) Steady(k);
    if (steady_ == 0) list_.IssueAndWait({.recv_next = backward_.FirstReceive()});
    for (int k = steady_; k < all_; ++k) CoolDown(k);
    if (backward_.send) list_.Wait(*backward_.send);
  }

 private:
  // Issues messages of one way, and waits for the send before: Megatron keeps one.
  void IssueAhead(Way* way, const std::optional<Action>& send,
                  const std::optional<Action>& receive) {
    const bool forward = way == &forward_;
    Exchange exchange;
    (forward ? exchange.send_next : exchange.send_prev) = send;
    (forward ? exchange.recv_prev : exchange.recv_next) = receive;
    list_.Issue(exchange);
    if (way->send) list_.Wait(*way->send);
    way->send = send;
    if (receive) way->receives.push_back(*receive);
  }
  void WaitForNext(Way* way) {
    if (way->receives.empty()) return;
    list_.Wait(way->receives.front());
    way->receives.pop_front();
  }

  void WarmUp(int k) {
    const bool flush = order_.overlaps_flush;
    if (flush && k > 0 && forward_.Takes(k)) WaitForNext(&forward_);
    std::optional<Action> receive = forward_.Receive(k);
    if (k == all_ - 1) receive.reset();
    if (flush && !forward_.leads() && receive) {
      list_.Issue({.recv_prev = receive});
      forward_.receives.push_back(*receive);
    }
    list_.Compute(forward_.Computation(k), {});
    const bool turns = k == warm_up_ - 1 && steady_ > 0;
    if (flush) {
      IssueAhead(&forward_, forward_.Send(k), forward_.leads() ? receive : std::nullopt);
    } else {
      Exchange exchange = {.send_next = forward_.Send(k), .recv_prev = receive};
      if (turns && !order_.overlaps_p2p) exchange.recv_next = backward_.FirstReceive();
      list_.IssueAndWait(exchange);
    }
    if (turns && order_.overlaps_p2p) IssueAhead(&backward_, {}, backward_.FirstReceive());
  }

  void Steady(int k) {
    const int ahead = k + warm_up_;
    const bool ends = k == steady_ - 1;
    const auto wait = [&](Way* way, int of) {
      if (order_.overlaps_p2p && way->Takes(of)) WaitForNext(way);
    };
    const auto receive = [&](Way* way, int of) {
      return ends && way == &forward_ ? std::nullopt : way->Receive(of);
    };
    wait(&forward_, ahead);
    if (order_.combines) {
      wait(&backward_, k);
      list_.Compute(forward_.Computation(ahead), backward_.Computation(k));
    } else {
      list_.Compute(forward_.Computation(ahead), {});
    }
    if (order_.overlaps_p2p) IssueAhead(&forward_, forward_.Send(ahead), receive(&forward_, ahead));
    if (!order_.combines) {
      wait(&backward_, k);
      list_.Compute({}, backward_.Computation(k));
    }
    if (order_.overlaps_p2p) {
      IssueAhead(&backward_, backward_.Send(k), receive(&backward_, k));
    } else {
      list_.IssueAndWait({.send_next = forward_.Send(ahead),
                          .recv_next = receive(&backward_, k),
                          .send_prev = backward_.Send(k),
                          .recv_prev = receive(&forward_, ahead)});
    }
  }

  void CoolDown(int k) {
    const bool flush = order_.overlaps_flush;
    if (k > 0 && backward_.Takes(k)) WaitForNext(&backward_);
    const std::optional<Action> receive = k == all_ - 1 ? std::nullopt : backward_.Receive(k);
    if (flush && !backward_.leads() && receive) {
      list_.Issue({.recv_next = receive});
      backward_.receives.push_back(*receive);
    }
    list_.Compute({}, backward_.Computation(k));
    if (flush) {
      IssueAhead(&backward_, backward_.Send(k), backward_.leads() ? receive : std::nullopt);
    } else {
      list_.IssueAndWait({.recv_next = receive, .send_prev = backward_.Send(k)});
    }
  }

  const MegatronOrder& order_;
  const int all_;  // virtual microbatches
  RankList& list_;
  Way forward_, backward_;
  int warm_up_ = 0, steady_ = 0;
};

// The parts of a layer's forward beside those of another's backward.
Overlap CombinedParts(bool early_attention) {
  using Kind = ActionKind;
  Overlap overlap;
  overlap.kinds = {Kind::kForward, Kind::kBackward};
  const auto part = [](Kind of, const char* name) {
    return Overlap::Part{.of = of, .name = name, .span = {}};
  };
  overlap.compute = {part(Kind::kForward, "attn"), part(Kind::kBackward, "experts"),
                     part(Kind::kWeightGradient, "experts")};
  const Overlap::Part experts = part(Kind::kForward, "experts");
  const Overlap::Part attention = part(Kind::kBackward, "attn");
  overlap.compute.push_back(early_attention ? attention : experts);
  overlap.compute.push_back(early_attention ? experts : attention);
  overlap.compute.push_back(part(Kind::kWeightGradient, "attn"));
  overlap.network = {part(Kind::kBackward, "combine"), part(Kind::kForward, "dispatch"),
                     part(Kind::kBackward, "dispatch"), part(Kind::kForward, "combine")};
  return overlap;
}

}  // namespace

PlanFile IssuedOrder(const MegatronOrder& order) {
  PlanFile file;
  Plan& plan = file.plan;
  plan.microbatches = order.microbatches;
  plan.lowered = true;
  plan.parameters = {{"P", order.ranks}, {"M", order.microbatches}};
  const int chunks = std::max(order.chunks, 1);
  for (int s = 0; s < chunks * order.ranks; ++s) {
    plan.stages.push_back({.rank = RankId(s % order.ranks)});
  }
  plan.SetChains();
  if (order.combines) plan.overlaps.push_back(CombinedParts(order.early_attention));
  file.issued = IssuedMessages{.layout = CommLayout::kShared, .lazy = false};
  if (!order.batches_p2p) {
    file.issued = IssuedMessages{.layout = order.ranks == 2 ? CommLayout::kEdge : CommLayout::kPair,
                                 .lazy = true};
  }
  const std::vector<VirtualMicrobatch> table = TableOf(order);
  for (int r = 0; r < order.ranks; ++r) {
    RankList list(order, r, &file);
    if (order.ranks == 1) {
      NoPipelining(order, &list);
    } else if (order.chunks == 0) {
      OneForwardOneBackward(order, r, &list);
    } else {
      InterleavedRank(order, table, r, &list).Play();
    }
    list.End();
  }
  return file;
}

}  // namespace stringline
