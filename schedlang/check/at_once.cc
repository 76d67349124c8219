// A walk that shows at once that four rules find nothing in a plan, as in nearly every plan they
// look at. Of each rank alone: all needs are there, and at its end only weight gradients are left
// (effects.h), so every microbatch is done once. Of all ranks together: each goes on only behind
// its receives, and each receive takes the value of its send. Wherever the walk stops, it has shown
// nothing, and the rules themselves say what is wrong.
//
// The walk waits at every receive, so it is stricter than the streams of replay.h: what it has
// performed, they have, too. In the layout `edge` a queue holds the sends, or the receives, of one
// channel. Its k-th message goes once both ends have come to it, in all orders of the channels and
// with any number of buffers.
#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "schedlang/base/threads.h"
#include "schedlang/check/rules.h"
#include "schedlang/plan/channels.h"
#include "schedlang/plan/effects.h"

namespace stringline {
namespace {

// A message as both of its ends have it. Twice the edge, and 1 for a gradient; and its microbatch.
struct Carried {
  uint32_t lane;
  int32_t microbatch;
  friend bool operator==(const Carried&, const Carried&) = default;
};
struct ListedMessage {
  Carried carried;
  int32_t channel;  // of a receive ~channel
};

// A rank rarely comes to more of them before it waits.
constexpr size_t kAhead = 16;

// The sends of a channel that its receives have not taken.
struct InFlight {
  std::vector<Carried> sent;
  size_t taken = 0;
  bool awaited = false;  // the receiving rank waits
};

class WalkAtOnce {
 public:
  explicit WalkAtOnce(const Plan& plan)
      : plan_(plan),
        channels_(ChannelsOf(plan)),
        live_(plan),
        kinds_(static_cast<size_t>(plan.ranks()), 0),
        messages_(static_cast<size_t>(plan.ranks())) {}

  // The kinds of the plan's actions; nothing if the walk has stopped.
  std::optional<ActionKinds> Run() {
    // Ranks change values of an edge that is no chain's together.
    const size_t actions = plan_.graph.is_chain() ? plan_.actions.size() : 0;
    std::atomic<bool> good = true;
    ForEachOnCores(plan_.ranks(), actions, [&](int rank) {
      if (good && !WalkRank(rank)) good = false;
    });
    if (!good || !live_.Whole() || !Exchange()) return std::nullopt;
    ActionKinds all = 0;
    for (const ActionKinds kinds : kinds_) all |= kinds;
    return all;
  }

 private:
  bool WalkRank(int rank) {
    ActionKinds kinds = 0;
    std::vector<ListedMessage>& messages = messages_[static_cast<size_t>(rank)];
    const absl::Span<const Action> actions = plan_.of(RankId(rank));
    messages.reserve(actions.size() * 3 / 4);
    for (size_t i = 0; i < actions.size();) {
      const absl::Span<const Action> group = GroupAt(actions, i);
      for (size_t k = 0; k < group.size(); ++k) {
        kinds |= SetOf(group[k].kind);
        const bool lists =
            !IsMessage(group[k].kind) || (group.size() == 1 && List(group[k], &messages));
        if (!lists || live_.Missing(group, k) != 0) return false;
      }
      for (const Action& part : group) live_.Perform(part);
      i += group.size();
    }
    kinds_[static_cast<size_t>(rank)] = kinds;
    return true;
  }

  bool List(const Action& message, std::vector<ListedMessage>* messages) const {
    const Edge* const edge = EdgeOf(plan_, message);
    const int channel = channels_.Of(plan_, message);
    if (edge == nullptr || channel < 0) return false;
    const uint32_t lane =
        2 * static_cast<uint32_t>(edge->id) + (CarriesActivation(message.kind) ? 0 : 1);
    messages->push_back(
        {{lane, message.microbatch.value}, IsSend(message.kind) ? channel : ~channel});
    return true;
  }

  // Brings the next messages of a rank's list to the caches while other ranks go on.
  static void Prefetch(const std::vector<ListedMessage>& messages, size_t next) {
    const size_t end = std::min(next + kAhead, messages.size());
    for (size_t k = next; k < end; k += 4) __builtin_prefetch(&messages[k]);
  }

  // Every rank goes on until it waits for a send. True if all come to their ends.
  bool Exchange() {
    std::vector<InFlight> in_flight(channels_.all.size());
    std::vector<size_t> next(messages_.size(), 0);
    std::vector<int> ready;
    for (int r = plan_.ranks(); r-- > 0;) ready.push_back(r);
    while (!ready.empty()) {
      const auto rank = static_cast<size_t>(ready.back());
      ready.pop_back();
      for (; next[rank] < messages_[rank].size(); ++next[rank]) {
        const auto& [carried, channel] = messages_[rank][next[rank]];
        InFlight& row = in_flight[static_cast<size_t>(channel < 0 ? ~channel : channel)];
        if (channel >= 0) {
          row.sent.push_back(carried);
          if (!row.awaited) continue;
          row.awaited = false;
          ready.push_back(channels_.all[static_cast<size_t>(channel)].to.value);
        } else if (row.taken == row.sent.size()) {
          row.awaited = true;
          Prefetch(messages_[rank], next[rank]);
          break;
        } else {
          if (row.sent[row.taken++] != carried) return false;
          if (row.taken == row.sent.size()) {
            row.sent.clear();
            row.taken = 0;
          }
        }
      }
    }
    const auto has_ended = [](const InFlight& row) { return !row.awaited && row.sent.empty(); };
    return std::all_of(in_flight.begin(), in_flight.end(), has_ended);
  }

  const Plan& plan_;
  const Channels channels_;
  LiveValues live_;
  std::vector<ActionKinds> kinds_;                    // by rank
  std::vector<std::vector<ListedMessage>> messages_;  // by rank, in the order of its list
};

}  // namespace

std::optional<ActionKinds> WalkedAtOnce(const Plan& plan, const CheckOptions& options) {
  if (options.layout != CommLayout::kEdge || !plan.rows.actions.empty()) return std::nullopt;
  return WalkAtOnce(plan).Run();
}

}  // namespace stringline
