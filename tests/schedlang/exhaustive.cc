// Everything independent of time is judged first, in a walk down each list. The rest is a state, a
// string of counters, and Steps gives all successors of a state. A search visits every state once;
// a state without successors must be the end.
#include "tests/schedlang/exhaustive.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

namespace stringline {
namespace {

using Value = std::tuple<char, int, int>;  // the kind of value, its stage and microbatch

// The values that an action takes and gives on its own rank: a activation in, o activation out (of
// an edge, numbered by its ends), s saved, k kept for R, h on the host, g gradient in, i gradient
// out, t stash, w weight gradient, v a version of the weights (behind so many updates, in place of
// a microbatch); in a plan with rows y what F made (with slices also < the keys of a slice and >
// the gradient of all keys up to it), z what B or I made, r the right to be offloaded, and capitals
// for the rows' own values.
struct Use {
  std::vector<Value> takes, gives;
  std::vector<Value> needs;  // and leaves there
  std::vector<Value> drops;  // if it is there
};

class JudgedPlan {
 public:
  JudgedPlan(const Plan& plan, const World& world)
      : plan_(plan), world_(world), remakes_(plan.stages.size(), false) {
    for (const Action& action : plan.actions) {
      if (action.kind == ActionKind::kRecompute) remakes_[action.stage.value] = true;
    }
    const int in_step = plan.microbatches / plan.steps / plan.slices;
    froms_.resize(static_cast<size_t>(in_step));
    for (int m = 0; m < in_step; ++m) {
      auto& froms = froms_[static_cast<size_t>(m)];
      froms.resize(plan.stages.size());
      for (const Edge& edge : plan.WholeGraph().edges()) {
        if (!SkipsInStep(edge.to.value, m)) {
          froms[static_cast<size_t>(edge.to.value)].push_back(GiverOf(edge.from.value, m));
        }
      }
    }
    tos_.assign(froms_.size(), std::vector<std::vector<int>>(plan.stages.size()));
    for (size_t m = 0; m < froms_.size(); ++m) {
      for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s) {
        for (const int from : froms_[m][s]) tos_[m][from].push_back(s);
      }
    }
  }

  // Everything that does not depend on timing. False when the plan is already wrong.
  bool Prepare() {
    if (!DoesEverythingOnce() || !OwnOnce()) return false;
    for (int r = 0; r < plan_.ranks(); ++r) {
      if (!ReadRank(r)) return false;
    }
    for (const auto& [link, ends] : links_) {
      if (ends.sends.size() != ends.recvs.size()) return false;
      for (size_t k = 0; k < ends.sends.size(); ++k) {
        if (ends.sends[k] != ends.recvs[k]) return false;  // the k-th meets the k-th
      }
    }
    return true;
  }

  Verdict FollowOne() const {
    State state = Start();
    for (std::vector<State> next = Steps(state); !next.empty(); next = Steps(state)) {
      state = next.front();
    }
    return Done(state) ? Verdict::kGood : Verdict::kBad;
  }

  Verdict Explore(int most_states) {
    const State start = Start();
    std::unordered_set<State> seen = {start};
    std::vector<State> open = {start};
    while (!open.empty()) {
      const State state = open.back();
      open.pop_back();
      const std::vector<State> next = Steps(state);
      if (next.empty() && !Done(state)) return Verdict::kBad;
      for (const State& other : next) {
        if (seen.insert(other).second) open.push_back(other);
      }
      if (seen.size() > static_cast<size_t>(most_states)) return Verdict::kTooLarge;
    }
    return Verdict::kGood;
  }

 private:
  // hosts: items issued | compute streams: computations ended | queues: calls ended, started? |
  // links: sends ended, receives ended
  using State = std::string;
  struct Call {
    int item;
    int computations_before;
    std::vector<std::pair<int, std::pair<bool, int>>> parts;  // link, (is a send, its number)
  };
  // Also an own action on the network, behind those of its rank before it.
  struct Computation {
    int item;
    std::vector<std::pair<int, int>> receives;  // link, number: must have ended
    int owns = 0;                               // own actions on the network that must have ended
    int computations_before = 0;                // for one on the network
    int meeting = -1;                           // of all ranks
  };
  struct Link {
    std::vector<Value> sends, recvs;  // the messages of each link
  };

  // True if microbatch m of a step leaves the stage out.
  bool SkipsInStep(int s, int m) const {
    return std::any_of(plan_.skips.begin(), plan_.skips.end(), [&](const Skip& skip) {
      return skip.stage.value == s && skip.microbatch == m;
    });
  }
  int InStep(int m) const { return m / plan_.slices % static_cast<int>(froms_.size()); }
  bool Skips(int s, int m) const { return SkipsInStep(s, InStep(m)); }
  // The stage whose output stands for that of `s`, which may be left out.
  int GiverOf(int s, int m) const {
    for (const Edge& edge : plan_.WholeGraph().edges()) {
      if (SkipsInStep(s, m) && edge.to.value == s) return GiverOf(edge.from.value, m);
    }
    return s;
  }
  const std::vector<int>& Froms(int s, int m) const { return froms_[InStep(m)][s]; }
  const std::vector<int>& Tos(int s, int m) const { return tos_[InStep(m)][s]; }

  bool DoesEverythingOnce() const {
    std::map<Value, int> count;
    for (const Action& a : plan_.actions) {
      const std::string kind = PrintedKind(a.kind);
      if (kind.size() == 1) ++count[{kind[0], a.stage.value, a.microbatch.value}];
    }
    for (int s = 0; s < static_cast<int>(plan_.stages.size()); ++s) {
      const int all =
          plan_.pipes.empty() ? plan_.microbatches : plan_.pipes[plan_.stages[s].pipe].microbatches;
      for (int m = 0; m < all; ++m) {
        const auto n = [&](char kind) { return count[{kind, s, m}]; };
        if (Skips(s, m)) {
          if (n('F') + n('B') + n('I') + n('W') + n('R') + n('D') + n('U') > 0) return false;
          continue;
        }
        if (n('R') != (remakes_[s] ? 1 : 0)) return false;
        if (n('D') > 1 || n('U') != n('D')) return false;
        if (plan_.forward_only) {
          if (n('F') != 1 || n('B') + n('I') + n('W') + n('D') + n('U') > 0) return false;
          continue;
        }
        const bool whole = n('B') == 1 && n('I') == 0 && n('W') == 0;
        const bool split = n('B') == 0 && n('I') == 1 && n('W') == 1;
        if (n('F') != 1 || (!whole && !split)) return false;
      }
    }
    return true;
  }

  static bool Meets(const OwnAction& row) { return row.by == By::kAllRanks; }

  // Every rank that has to do an own action does it once.
  bool OwnOnce() {
    std::map<std::tuple<std::string, int, int>, std::set<int>> done;
    for (int r = 0; r < plan_.ranks(); ++r) {
      for (const Action& a : plan_.of(RankId(r))) {
        if (!IsOwn(a.kind)) continue;
        const std::string& name = plan_.rows.of(a.kind).name;
        if (!done[{name, a.stage.value, a.microbatch.value}].insert(r).second) return false;
      }
    }
    for (const auto& [key, ranks] : done) {
      const OwnAction& row = *plan_.rows.Find(std::get<0>(key));
      const bool all = static_cast<int>(ranks.size()) == plan_.ranks();
      if (row.by != By::kStage && !all) return false;
      if (Meets(row)) meeting_ids_.emplace(key, static_cast<int>(meeting_ids_.size()));
    }
    return true;
  }

  int MeetingOf(const Action& a) const {
    if (!IsOwn(a.kind) || !Meets(plan_.rows.of(a.kind))) return -1;
    return meeting_ids_.at({plan_.rows.of(a.kind).name, a.stage.value, a.microbatch.value});
  }

  // The values of a row that this rank has to do with.
  std::vector<Value> OwnValuesOf(const Action& a, Values values, int rank) const {
    std::vector<Value> out;
    const int s = a.stage.value, m = a.microbatch.value;
    const bool home = plan_.stages[s].rank.value == rank;
    for (const OwnValue& own : plan_.rows.values) {
      const auto index = static_cast<int>(own.value) - static_cast<int>(StageValue::kOwn0);
      const bool here = home || HomeOf(own.value) == Home::kEachRank;
      if ((values & SetOf(own.value)) && here)
        out.push_back({static_cast<char>('A' + index), s, m});
    }
    if (!home) return out;
    if (values & kSavedForInput) out.push_back({remakes_[s] ? 'k' : 's', s, m});
    if (values & kStash) out.push_back({'t', s, m});
    if (values & kMade) out.push_back({'y', s, m});
    if (values & kSentBack) out.push_back({'z', s, m});
    if (values & kInput) out.push_back({'a', DataOf(s, m), m});
    if (values & kOutGrad) out.push_back({'g', LossOf(s, m), m});
    return out;
  }

  Use UseOfOwn(const Action& a, int rank) const {
    const OwnAction& row = plan_.rows.of(a.kind);
    return {OwnValuesOf(a, row.frees, rank), OwnValuesOf(a, row.gives, rank),
            OwnValuesOf(a, row.needs & ~row.frees, rank)};
  }

  // Adds what the built-in actions do for own ones. What R began with stays until B or W, so own
  // actions may move it behind the R, which D may not.
  void AddForRows(const Action& a, Use* use) const {
    const int s = a.stage.value, m = a.microbatch.value;
    const Value kept('k', s, m), right('r', s, m);
    if (remakes_[s]) {
      const bool ends = a.kind == ActionKind::kBackward || a.kind == ActionKind::kWeightGradient;
      if (ends) use->takes.push_back(kept);
      if (a.kind == ActionKind::kInputGradient) use->needs.push_back(kept);
      if (a.kind == ActionKind::kRecompute) {
        use->takes.clear();
        use->needs.push_back(kept);
        use->takes.push_back({'m', s, m});  // its F is still to be done again
      }
      if (a.kind == ActionKind::kForward) use->gives.push_back({'m', s, m});
    }
    if (a.kind == ActionKind::kForward) use->gives.push_back(right);
    if (a.kind == ActionKind::kOffload) use->takes.push_back(right);
    if (a.kind == ActionKind::kRecompute || a.kind == ActionKind::kBackward ||
        a.kind == ActionKind::kInputGradient) {
      use->drops.push_back(right);
    }
    if (a.kind == ActionKind::kForward) {
      use->gives.push_back({'y', s, m});
      if ((plan_.rows.given() & kOutGrad) && Tos(s, m).empty()) {
        use->gives.erase(
            std::find(use->gives.begin(), use->gives.end(), Value('g', LossOf(s, m), m)));
      }
      if ((plan_.rows.given() & kInput) && Froms(s, m).empty())
        use->takes.push_back({'a', DataOf(s, m), m});
    }
    if (a.kind == ActionKind::kBackward || a.kind == ActionKind::kInputGradient) {
      use->takes.push_back({'y', s, m});
      use->gives.push_back({'z', s, m});
    }
  }

  // An F reads the keys of the slice before; a B or I takes the gradient of its keys, which the
  // slice behind gives.
  void AddForSlices(const Action& a, Use* use) const {
    const int s = a.stage.value, m = a.microbatch.value, k = m % plan_.slices;
    if (a.kind == ActionKind::kForward && plan_.forward_only) {
      // All keys so far go on to the slice behind.
      if (k > 0) use->takes.push_back({'<', s, m});
      if (k + 1 < plan_.slices) use->gives.push_back({'<', s, m + 1});
    } else if (a.kind == ActionKind::kForward) {
      use->gives.push_back({'<', s, m});
      if (k > 0) use->needs.push_back({'<', s, m - 1});
    }
    if (a.kind != ActionKind::kBackward && a.kind != ActionKind::kInputGradient) return;
    use->takes.push_back({'<', s, m});
    if (k + 1 < plan_.slices) use->takes.push_back({'>', s, m});
    if (k > 0) use->gives.push_back({'>', s, m - 1});
  }

  // The number of an edge, and those of the data of a first stage and the loss of a last one, where
  // own actions give them.
  static int EdgeOf(int from, int to) { return from * 10'000 + to; }
  int DataOf(int s, int m) const {
    return Froms(s, m).empty() ? -1 - s : EdgeOf(Froms(s, m)[0], s);
  }
  int LossOf(int s, int m) const { return Tos(s, m).empty() ? -1 - s : EdgeOf(s, Tos(s, m)[0]); }
  bool OnSameRank(int a, int b) const { return plan_.stages[a].rank == plan_.stages[b].rank; }
  // The number of the edge of a send or a receive.
  int EdgeOf(const Action& message) const {
    const bool at_from =
        message.kind == ActionKind::kSendForward || message.kind == ActionKind::kRecvBackward;
    const int s = message.stage.value;
    const int m = message.microbatch.value;
    const std::vector<int>& others = at_from ? Tos(s, m) : Froms(s, m);
    const int other = message.other >= 0 ? message.other : others.empty() ? -1 : others[0];
    return at_from ? EdgeOf(s, other) : EdgeOf(other, s);
  }

  Use UseOn(const Action& a, int rank) const {
    Use use = IsOwn(a.kind) ? UseOfOwn(a, rank) : UseOf(a);
    if (!plan_.rows.actions.empty()) AddForRows(a, &use);
    if (plan_.slices > 1) AddForSlices(a, &use);
    return use;
  }

  Use UseOf(const Action& a) const {
    const int s = a.stage.value, m = a.microbatch.value;
    const auto v = [m](char c, int of) { return Value(c, of, m); };
    Use use;
    switch (a.kind) {
      case ActionKind::kForward:
        for (const int from : Froms(s, m)) use.takes.push_back(v('a', EdgeOf(from, s)));
        if (!plan_.forward_only) use.gives.push_back(v(remakes_[s] ? 'k' : 's', s));
        if (Tos(s, m).empty() && !plan_.forward_only) use.gives.push_back(v('g', LossOf(s, m)));
        for (const int to : Tos(s, m)) {
          use.gives.push_back(v(OnSameRank(s, to) ? 'a' : 'o', EdgeOf(s, to)));
        }
        break;
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
        use.takes = {v('s', s)};
        if (Tos(s, m).empty()) use.takes.push_back(v('g', LossOf(s, m)));
        for (const int to : Tos(s, m)) use.takes.push_back(v('g', EdgeOf(s, to)));
        use.gives.push_back(v(a.kind == ActionKind::kBackward ? 'w' : 't', s));
        for (const int from : Froms(s, m)) {
          use.gives.push_back(v(OnSameRank(s, from) ? 'g' : 'i', EdgeOf(from, s)));
        }
        break;
      case ActionKind::kWeightGradient:
        use = {{v('t', s)}, {v('w', s)}};
        break;
      case ActionKind::kRecompute:
        use = {{v('k', s)}, {v('s', s)}};
        break;
      case ActionKind::kOffload:
        use = {{v(remakes_[s] ? 'k' : 's', s)}, {v('h', s)}};
        break;
      case ActionKind::kFetch:
        use = {{v('h', s)}, {v(remakes_[s] ? 'k' : 's', s)}};
        break;
      case ActionKind::kSendForward:
        use.takes = {v('o', EdgeOf(a))};
        break;
      case ActionKind::kSendBackward:
        use.takes = {v('i', EdgeOf(a))};
        break;
      case ActionKind::kRecvForward:
        use.gives = {v('a', EdgeOf(a))};
        break;
      case ActionKind::kRecvBackward:
        use.gives = {v('g', EdgeOf(a))};
        break;
      default:
        break;
    }
    return use;
  }

  // A rank on the way down its list.
  struct Walk {
    std::set<Value> there;
    std::map<Value, std::pair<int, int>> received;  // the receive that brings each value
    std::map<Value, int> own_givers;   // by value, one past the own action on the network
    std::map<Value, int> own_readers;  // the same: what takes the value waits for its readers
  };

  // False if a value is not there. Adds the waits of the values to the computation.
  bool TakeValues(const Action& a, const Use& use, int r, Walk* walk, Computation* computation) {
    for (const std::vector<Value>* values : {&use.takes, &use.needs}) {
      for (const Value& value : *values) {
        if (walk->there.count(value) == 0) return false;
        if (values == &use.takes) walk->there.erase(value);
        const auto it = walk->received.find(value);
        if (it != walk->received.end()) computation->receives.push_back(it->second);
        const auto own = walk->own_givers.find(value);
        if (own != walk->own_givers.end()) {
          computation->owns = std::max(computation->owns, own->second);
        }
        const auto reader = walk->own_readers.find(value);
        if (reader != walk->own_readers.end() && values == &use.takes) {
          computation->owns = std::max(computation->owns, reader->second);
        }
        if (IsOwnNetwork(a.kind) && values == &use.needs) {
          walk->own_readers[value] = static_cast<int>(own_[r].size()) + 1;
        }
      }
    }
    return true;
  }

  // Cuts the rank's list into computations and calls, and walks the list once in the order of
  // issue.
  bool ReadRank(int r) {
    Walk walk;
    std::set<Value>& there = walk.there;
    for (int s = 0; s < static_cast<int>(plan_.stages.size()); ++s) {
      if (plan_.stages[s].rank.value == r) there.insert({'v', s, 0});
    }
    items_.emplace_back();
    computations_.emplace_back();
    own_.emplace_back();
    const auto actions = plan_.of(RankId(r));
    for (size_t begin = 0; begin < actions.size();) {
      size_t end = begin + 1;
      while (end < actions.size() && actions[end].joined) ++end;
      const int item = static_cast<int>(items_[r].size());
      items_[r].emplace_back();
      std::vector<Value> gives;
      Computation computation{item, {}};
      std::map<int, Call> calls;  // by queue
      for (size_t i = begin; i < end; ++i) {
        if (!WeightsAreThere(actions[i], there)) return false;
        if (actions[i].kind == ActionKind::kUpdate &&
            (end - begin != 1 || !Update(actions[i], &there))) {
          return false;
        }
        const Use use = UseOn(actions[i], r);
        if (!TakeValues(actions[i], use, r, &walk, &computation)) return false;
        for (const Value& value : use.drops) there.erase(value);
        computation.meeting = MeetingOf(actions[i]);
        gives.insert(gives.end(), use.gives.begin(), use.gives.end());
        if (!IsMessage(actions[i].kind)) continue;
        int link = 0, number = 0;
        if (!ReadMessage(r, actions[i], &link, &number)) return false;
        const bool send = IsSend(actions[i].kind);
        if (!send) walk.received[use.gives[0]] = {link, number};
        Call& call = calls[QueueOf(r, link)];
        call.item = item;
        call.computations_before = static_cast<int>(computations_[r].size());
        call.parts.push_back({link, {send, number}});
      }
      for (const Value& value : gives) {
        if (!there.insert(value).second) return false;
      }
      for (auto& [queue, call] : calls) {
        if (queues_[queue].empty()) items_[r].back().push_back(queue);  // its first call
        queues_[queue].push_back(call);
      }
      if (IsOwnNetwork(actions[begin].kind)) {
        computation.computations_before = static_cast<int>(computations_[r].size());
        own_[r].push_back(computation);
        for (const Value& value : gives) walk.own_givers[value] = static_cast<int>(own_[r].size());
      } else {
        for (const Value& value : gives) walk.own_givers.erase(value);
      }
      if (TakesTurn(actions[begin].kind)) computations_[r].push_back(computation);
      begin = end;
    }
    const bool updates = HasSteps();
    return std::all_of(there.begin(), there.end(), [&](const Value& v) {
      return std::get<0>(v) == 'v' || std::get<0>(v) == 'z' || (std::get<0>(v) == 'w' && !updates);
    });
  }

  bool HasSteps() const {
    return plan_.steps > 1 ||
           std::any_of(plan_.actions.begin(), plan_.actions.end(),
                       [](const Action& a) { return a.kind == ActionKind::kUpdate; });
  }
  int OfStep(int stage) const {
    const int all = plan_.pipes.empty() ? plan_.microbatches
                                        : plan_.pipes[plan_.stages[stage].pipe].microbatches;
    return all / plan_.steps;
  }

  // The action's version of the weights is there, and if it gives a weight gradient, none of an
  // earlier step waits for its update.
  bool WeightsAreThere(const Action& a, const std::set<Value>& there) const {
    const std::string kind = PrintedKind(a.kind);
    if (!HasSteps() || kind.size() != 1 || kind == "D" || kind == "U") return true;
    const int s = a.stage.value, step = a.microbatch.value / OfStep(s);
    const int version = std::max(0, step + 1 - plan_.versions);
    if (kind != "W" && there.count({'v', s, version}) == 0) return false;
    if (kind != "W" && kind != "B") return true;
    for (int m = 0; m < step * OfStep(s); ++m) {
      if (there.count({'w', s, m}) > 0) return false;
    }
    return step == 0 || there.count({'v', s, step}) > 0;
  }

  // Takes the gradients of a step, and gives a version; the oldest one makes room for it.
  bool Update(const Action& a, std::set<Value>* there) const {
    const int s = a.stage.value, step = a.microbatch.value;
    for (int m = step * OfStep(s); m < (step + 1) * OfStep(s); ++m) {
      if (!Skips(s, m) && there->erase({'w', s, m}) == 0) return false;
    }
    if (there->count({'v', s, step}) == 0) return false;
    if (!there->insert({'v', s, step + 1}).second) return false;
    there->erase({'v', s, step + 1 - plan_.versions});
    return true;
  }

  // The link of the message, and the message's number on this link.
  bool ReadMessage(int r, const Action& a, int* link, int* number) {
    const bool forward = a.kind == ActionKind::kSendForward || a.kind == ActionKind::kRecvForward;
    const bool send = a.kind == ActionKind::kSendForward || a.kind == ActionKind::kSendBackward;
    const int s = a.stage.value;
    const int m = a.microbatch.value;
    const std::vector<int>& others = forward == send ? Tos(s, m) : Froms(s, m);
    if (others.empty()) return false;
    const int peer = a.other >= 0 ? a.other : others[0];
    if (std::count(others.begin(), others.end(), peer) == 0) return false;
    const int other = plan_.stages[static_cast<size_t>(peer)].rank.value;
    if (other == r) return false;
    *link = send ? r * plan_.ranks() + other : other * plan_.ranks() + r;
    Link& ends = links_[*link];
    auto& list = send ? ends.sends : ends.recvs;
    *number = static_cast<int>(list.size());
    list.push_back({forward ? 'a' : 'g', EdgeOf(a), a.microbatch.value});
    return true;
  }

  // The rank's queue on the communicator of the link.
  int QueueOf(int r, int link) {
    const int from = link / plan_.ranks(), to = link % plan_.ranks();
    const int communicators[] = {0, std::min(from, to) * plan_.ranks() + std::max(from, to), link,
                                 from < to ? 0 : 1};
    const int communicator = communicators[world_.layout];
    const auto key = std::pair(communicator, r);
    const auto [it, is_new] = queue_ids_.emplace(key, static_cast<int>(queues_.size()));
    if (is_new) {
      queues_.emplace_back();
      rank_of_queue_.push_back(r);
      members_[communicator].push_back(it->second);
      communicator_of_.push_back(communicator);
    }
    return it->second;
  }

  State Start() const {
    State start(Size(), 0);
    if (!world_.lazy) {
      for (int r = 0; r < plan_.ranks(); ++r) start[r] = static_cast<char>(items_[r].size());
    }
    return start;
  }

  size_t Size() const { return AtOwn(items_.size()); }
  // The number of own actions on the network that have ended on the rank.
  size_t AtOwn(size_t rank) const {
    return 2 * items_.size() + 2 * queues_.size() + 2 * links_.size() + rank;
  }
  size_t AtQueue(size_t q) const { return 2 * items_.size() + 2 * q; }
  size_t AtLink(int link) const {
    const auto index = std::distance(links_.begin(), links_.find(link));
    return 2 * items_.size() + 2 * queues_.size() + 2 * static_cast<size_t>(index);
  }

  // The number of sends (or receives) of the link that have started.
  int Started(const State& state, int link, bool send) const {
    int count = 0;
    for (size_t q = 0; q < queues_.size(); ++q) {
      const int begun = state[AtQueue(q)] + (state[AtQueue(q) + 1] != 0);
      for (int c = 0; c < begun; ++c) {
        for (const auto& [l, part] : queues_[q][c].parts) count += l == link && part.first == send;
      }
    }
    return count;
  }

  bool HasConnected(const State& state, int queue) const {
    if (world_.layout == 0) return true;
    for (const int member : members_.at(communicator_of_[queue])) {
      if (state[rank_of_queue_[member]] < queues_[member].front().item) return false;
    }
    return true;
  }

  // True if the rank's next computation, or its next own action on the network, can begin.
  bool CanBegin(const State& state, size_t r, bool on_network) const {
    const auto& list = (on_network ? own_ : computations_)[r];
    const auto done = static_cast<size_t>(state[on_network ? AtOwn(r) : items_.size() + r]);
    if (done == list.size()) return false;
    const Computation& next = list[done];
    bool ready = next.item < state[r] && next.owns <= state[AtOwn(r)] &&
                 next.computations_before <= state[items_.size() + r];
    for (const auto& [link, number] : next.receives) {
      ready = ready && state[AtLink(link) + 1] > number;
    }
    return ready;
  }

  // The state behind the next computation or own action of the rank, and with a meeting of all
  // ranks; nothing if it cannot begin.
  std::optional<State> Begin(const State& state, size_t r, bool on_network) const {
    const size_t ranks = items_.size();
    const auto at = [&](size_t rank) { return on_network ? AtOwn(rank) : ranks + rank; };
    if (!CanBegin(state, r, on_network)) return std::nullopt;
    const auto& lists = on_network ? own_ : computations_;
    const int meeting = lists[r][static_cast<size_t>(state[at(r)])].meeting;
    State next = state;
    for (size_t other = 0; other < ranks; ++other) {
      if (other != r && meeting < 0) continue;
      if (!CanBegin(state, other, on_network) ||
          lists[other][static_cast<size_t>(state[at(other)])].meeting != meeting) {
        return std::nullopt;
      }
      ++next[at(other)];
    }
    return next;
  }

  std::vector<State> Steps(const State& state) const {
    std::vector<State> next;
    const auto step = [&](size_t at, int by, size_t also = SIZE_MAX) {
      next.push_back(state);
      next.back()[at] = static_cast<char>(next.back()[at] + by);
      if (also != SIZE_MAX) ++next.back()[also];
    };
    const size_t ranks = items_.size();
    for (size_t r = 0; r < ranks; ++r) {
      const auto host = static_cast<size_t>(state[r]);
      if (host < items_[r].size()) {
        const auto& firsts = items_[r][host];
        if (std::all_of(firsts.begin(), firsts.end(),
                        [&](int q) { return HasConnected(state, q); })) {
          step(r, 1);
        }
      }
      for (const bool on_network : {false, true}) {
        if (std::optional<State> begun = Begin(state, r, on_network)) next.push_back(*begun);
      }
    }
    for (size_t q = 0; q < queues_.size(); ++q) {
      const auto head = static_cast<size_t>(state[AtQueue(q)]);
      if (head == queues_[q].size()) continue;
      const Call& call = queues_[q][head];
      const int r = rank_of_queue_[q];
      if (state[AtQueue(q) + 1] == 0) {
        const bool ready = call.item < state[r] &&
                           state[ranks + static_cast<size_t>(r)] >= call.computations_before;
        if (ready) step(AtQueue(q) + 1, 1);
        continue;
      }
      const bool ended = std::all_of(call.parts.begin(), call.parts.end(), [&](const auto& part) {
        return state[AtLink(part.first) + (part.second.first ? 0 : 1)] > part.second.second;
      });
      if (!ended) continue;
      step(AtQueue(q), 1);
      next.back()[AtQueue(q) + 1] = 0;
    }
    for (const auto& [link, ends] : links_) {
      const size_t at = AtLink(link);
      const bool sending = Started(state, link, true) > state[at];
      const bool receiving = Started(state, link, false) > state[at + 1];
      if (world_.buffers == 0) {
        if (sending && receiving) step(at, 1, at + 1);
        continue;
      }
      if (sending && state[at] - state[at + 1] < world_.buffers) step(at, 1);
      if (receiving && state[at + 1] < state[at]) step(at + 1, 1);
    }
    return next;
  }

  bool Done(const State& state) const {
    for (size_t r = 0; r < items_.size(); ++r) {
      if (static_cast<size_t>(state[r]) != items_[r].size()) return false;
      if (static_cast<size_t>(state[items_.size() + r]) != computations_[r].size()) return false;
      if (static_cast<size_t>(state[AtOwn(r)]) != own_[r].size()) return false;
    }
    for (size_t q = 0; q < queues_.size(); ++q) {
      if (static_cast<size_t>(state[AtQueue(q)]) != queues_[q].size()) return false;
    }
    return true;
  }

  const Plan& plan_;
  const World world_;
  std::vector<bool> remakes_;  // by stage: has an R
  // By microbatch of a step and stage: the other ends of its edges.
  std::vector<std::vector<std::vector<int>>> froms_, tos_;
  std::vector<std::vector<std::vector<int>>> items_;  // by rank, item: queues beginning there
  std::vector<std::vector<Computation>> computations_;
  std::vector<std::vector<Computation>> own_;  // on the network, by rank
  std::map<std::tuple<std::string, int, int>, int> meeting_ids_;
  std::vector<std::vector<Call>> queues_;
  std::vector<int> rank_of_queue_, communicator_of_;
  std::map<std::pair<int, int>, int> queue_ids_;
  std::map<int, std::vector<int>> members_;  // queues of a communicator
  std::map<int, Link> links_;
};

}  // namespace

Verdict JudgeExhaustively(const Plan& lowered, const World& world, int most_states) {
  JudgedPlan judged(lowered, world);
  return judged.Prepare() ? judged.Explore(most_states) : Verdict::kBad;
}

Verdict JudgeOneRun(const Plan& lowered, const World& world) {
  JudgedPlan judged(lowered, world);
  return judged.Prepare() ? judged.FollowOne() : Verdict::kBad;
}

}  // namespace stringline
