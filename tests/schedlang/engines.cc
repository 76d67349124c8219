// Small plans are all permutations of the ranks' lists. Random plans grow by any action that can
// run next, so they are right; then a list may be damaged, before or after lowering, and groups are
// mended so that the result is still a plan.
#include "tests/schedlang/engines.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "schedlang/lower/lower.h"
#include "schedlang/plan/effects.h"
#include "schedlang/plan/repeat_steps.h"
#include "schedlang/plan/text_form.h"
#include "tests/schedlang/random_plan.h"

namespace stringline {
namespace {

using Lists = std::vector<std::vector<Action>>;  // by rank

Action Make(ActionKind kind, int stage, int microbatch) {
  return {.kind = kind, .stage = StageId(stage), .microbatch = MicrobatchId(microbatch)};
}

// `microbatches`: their slices counted.
Plan PlanOf(const std::vector<int>& rank_of_stage, int microbatches, const Lists& lists,
            int slices = 1, const std::vector<Edge>& edges = {},
            const std::vector<Skip>& skips = {}) {
  Plan plan;
  plan.schedule = "family";
  plan.parameters = {{"P", static_cast<int64_t>(lists.size())}, {"M", microbatches / slices}};
  plan.slices = slices;
  plan.microbatches = microbatches;
  const int stages = static_cast<int>(rank_of_stage.size());
  for (int s = 0; s < stages; ++s) {
    plan.stages.push_back({RankId(rank_of_stage[s])});
  }
  plan.SetChains();
  if (!edges.empty()) plan.graph = StageGraph(stages, edges);
  if (!skips.empty()) {
    EXPECT_EQ(plan.SetSkips(skips), "");
  }
  for (const auto& list : lists) {
    for (size_t i = 0; i < list.size(); ++i) {
      plan.actions.push_back(list[i]);
      if (i == 0) plan.actions.back().joined = false;
      if (IsMessage(list[i].kind)) plan.lowered = true;
    }
    plan.first.push_back(static_cast<uint32_t>(plan.actions.size()));
  }
  FindRemaking(&plan);
  return plan;
}

bool Less(const Action& a, const Action& b) {
  return std::tuple(a.kind, a.stage, a.microbatch, a.other) <
         std::tuple(b.kind, b.stage, b.microbatch, b.other);
}

// Visits every combination of permutations of the ranks' lists, from rank `rank` on.
void ForEachOrder(Lists* lists, size_t rank, const std::function<void()>& visit) {
  if (rank == lists->size()) return visit();
  auto& list = (*lists)[rank];
  std::sort(list.begin(), list.end(), Less);
  do {
    ForEachOrder(lists, rank + 1, visit);
  } while (std::next_permutation(list.begin(), list.end(), Less));
}

std::vector<Action> WorkOf(const std::vector<int>& stages, int microbatches, bool split) {
  std::vector<Action> work;
  for (int stage : stages) {
    for (int m = 0; m < microbatches; ++m) {
      work.push_back(Make(ActionKind::kForward, stage, m));
      if (split) {
        work.push_back(Make(ActionKind::kInputGradient, stage, m));
        work.push_back(Make(ActionKind::kWeightGradient, stage, m));
      } else {
        work.push_back(Make(ActionKind::kBackward, stage, m));
      }
    }
  }
  return work;
}

std::vector<Action> WithR(std::vector<Action> work) {
  for (size_t i = 0; i < work.size(); ++i) {
    if (work[i].kind != ActionKind::kForward) continue;
    work.push_back(Make(ActionKind::kRecompute, work[i].stage.value, work[i].microbatch.value));
  }
  return work;
}

std::vector<Action> WithCopies(std::vector<Action> work) {
  for (size_t i = 0; i < work.size(); ++i) {
    if (work[i].kind != ActionKind::kForward) continue;
    for (const ActionKind kind : {ActionKind::kOffload, ActionKind::kFetch}) {
      work.push_back(Make(kind, work[i].stage.value, work[i].microbatch.value));
    }
  }
  return work;
}

void Unjoin(Lists* lists) {
  for (auto& list : *lists) {
    for (Action& action : list) action.joined = false;
  }
}

class Family {
 public:
  explicit Family(const std::function<void(const Plan&)>& visit) : visit_(visit) {}

  int64_t count() const { return count_; }
  // The number of slices in each microbatch of the next plans.
  void SetSlices(int slices) { slices_ = slices; }

  // Every order of the given work, lowered by us; with every way to join neighbours if asked for.
  void Orders(const std::vector<int>& rank_of_stage, int microbatches, Lists lists, bool joins) {
    ForEachOrder(&lists, 0, [&] {
      const size_t gaps = lists.size() == 1 && joins ? lists[0].size() - 1 : 0;
      for (uint32_t mask = 0; mask < (1u << gaps); ++mask) {
        for (size_t i = 0; i < gaps; ++i) lists[0][i + 1].joined = (mask >> i) & 1;
        Visit(Lower(PlanOf(rank_of_stage, microbatches, lists, slices_)));
      }
      Unjoin(&lists);
    });
  }

  // Every order of an already lowered plan's lists.
  void LoweredOrders(const std::vector<int>& rank_of_stage, int microbatches, Lists lists) {
    ForEachOrder(&lists, 0, [&] { Visit(PlanOf(rank_of_stage, microbatches, lists)); });
  }

  // Every list of at most `length` actions over F, B, I, W, R of a stage and two microbatches.
  void ShortLists(int length) {
    std::vector<Action> alphabet;
    for (int m = 0; m < 2; ++m) {
      for (int k = 0; k <= static_cast<int>(ActionKind::kUpdate); ++k)
        alphabet.push_back(Make(static_cast<ActionKind>(k), 0, m));
    }
    Lists lists(1);
    Extend(alphabet, length, &lists);
  }

 private:
  void Extend(const std::vector<Action>& alphabet, int length, Lists* lists) {
    Plan plan = Lower(PlanOf({0}, 2, *lists));
    Visit(plan);
    if (length == 0) return;
    for (const Action& action : alphabet) {
      (*lists)[0].push_back(action);
      Extend(alphabet, length - 1, lists);
      (*lists)[0].pop_back();
    }
  }

  void Visit(Plan plan) {
    plan.lowered = true;
    ++count_;
    visit_(plan);
  }

  const std::function<void(const Plan&)>& visit_;
  int64_t count_ = 0;
  int slices_ = 1;
};

int Pick(std::mt19937_64& random, size_t n) {
  return static_cast<int>(random() % n);  // exactly the same everywhere, unlike a distribution
}

// The actions that each stage can do next, when messages arrive at once.
std::vector<Action> Performable(const LiveValues& live, const std::vector<std::vector<char>>& split,
                                const std::vector<std::vector<char>>& copied, int stages,
                                int microbatches) {
  std::vector<Action> out;
  for (int s = 0; s < stages; ++s) {
    for (int m = 0; m < microbatches; ++m) {
      for (int k = 0; ComputesMicrobatch(static_cast<ActionKind>(k)); ++k) {
        const Action action = Make(static_cast<ActionKind>(k), s, m);
        const bool other_form = split[s][m] ? action.kind == ActionKind::kBackward
                                            : action.kind == ActionKind::kInputGradient;
        if (!other_form && live.Missing(action) == 0) out.push_back(action);
      }
      for (const ActionKind kind : {ActionKind::kOffload, ActionKind::kFetch}) {
        const Action action = Make(kind, s, m);
        if (copied[s][m] && live.Missing(action) == 0) out.push_back(action);
      }
    }
  }
  return out;
}

// Delivers the output or gradient of `action` to the neighbour's rank.
void Deliver(const Plan& shape, const Action& action, LiveValues* live) {
  const auto move = [&](const Edge& edge, ActionKind send, ActionKind recv) {
    if (shape.SameRank(edge.from, edge.to)) return;
    live->Perform(MessageOver(shape, edge, send, action));
    live->Perform(MessageOver(shape, edge, recv, action));
  };
  const Values there = live->of(action.stage, action.microbatch);
  for (const Edge& edge : shape.GraphOf(action.microbatch).Out(action.stage)) {
    if (there & kOutput) move(edge, ActionKind::kSendForward, ActionKind::kRecvForward);
  }
  for (const Edge& edge : shape.GraphOf(action.microbatch).In(action.stage)) {
    if (there & kInGrad) move(edge, ActionKind::kSendBackward, ActionKind::kRecvBackward);
  }
}

// The actions of all ranks, in an order in which each can follow the last.
std::vector<Action> RandomOrder(const std::vector<int>& rank_of_stage, int ranks, int microbatches,
                                int slices, bool forward_only, const std::vector<Edge>& edges,
                                const std::vector<Skip>& skips, std::mt19937_64& random) {
  const int stages = static_cast<int>(rank_of_stage.size());
  Plan shape = PlanOf(rank_of_stage, microbatches, Lists(ranks), slices, edges, skips);
  shape.forward_only = forward_only;
  for (Stage& stage : shape.stages) stage.remakes = !forward_only && Pick(random, 3) == 0;
  std::vector<std::vector<char>> split(stages, std::vector<char>(microbatches));
  for (auto& row : split) {
    for (char& cell : row) cell = static_cast<char>(Pick(random, 2));
  }
  auto copied = split;
  for (auto& row : copied) {
    for (char& cell : row) cell = static_cast<char>(Pick(random, 3) == 0);
  }
  std::vector<Action> order;
  LiveValues live(shape);
  while (true) {
    const std::vector<Action> next = Performable(live, split, copied, stages, microbatches);
    if (next.empty()) return order;
    const Action action = next[Pick(random, next.size())];
    live.Perform(action);
    Deliver(shape, action, &live);
    order.push_back(action);
  }
}

// Rows for random plans: values and actions of every sort.
constexpr const char* kRows[] = {
    "value v",
    "value n",
    "value h on host",
    "value x on each rank",
    "value p on each rank",
    "value q on each rank",
    "action A compute needs output gives v",
    "action Z compute frees v",
    "action N network needs output gives n",
    "action Y compute frees n",
    "action EV copy_out gives h frees saved",
    "action LD copy_in gives saved frees h",
    "action C network by all needs output gives x",
    "action S compute by each gives p frees x",
    "action K compute by all needs output gives q",
    "action L compute by each frees q",
};
// The row of the last stage's loss, which some plans have, and the row in its place in the others.
constexpr const char* kLossRow = "action G network by all gives out_grad frees p";
constexpr const char* kPlainRow = "action G network by all frees p";

OwnRows RowsOf(bool gives_loss) {
  OwnRows rows;
  const auto add = [&rows](absl::string_view row) {
    std::vector<Word> words;
    for (const absl::string_view word : absl::StrSplit(row, ' ')) words.push_back({word, {}});
    EXPECT_TRUE(ReadRow(words, /*ranks=*/16, &rows)) << row;
  };
  for (const char* const row : kRows) add(row);
  add(gives_loss ? kLossRow : kPlainRow);
  return rows;
}

// Puts own actions into the order, each at a random place behind what it needs and ahead of what
// needs it: between the F and the backward of its stage and microbatch.
class OwnActions {
 public:
  OwnActions(const OwnRows& rows, int ranks, std::vector<Action> order, std::mt19937_64* random)
      : rows_(rows), ranks_(ranks), order_(std::move(order)), random_(*random) {}

  void AddAll(bool gives_loss, int last_stage) {
    const std::vector<Action> before = order_;
    for (const Action& forward : before) {
      if (forward.kind != ActionKind::kForward) continue;
      const bool copied = std::any_of(before.begin(), before.end(), [&](const Action& a) {
        return IsCopy(a.kind) && a.stage == forward.stage && a.microbatch == forward.microbatch;
      });
      if (Pick(random_, 4) == 0) AddPair(forward, "A", "Z");
      if (Pick(random_, 6) == 0) AddPair(forward, "N", "Y");
      if (Pick(random_, 4) == 0 && !copied) AddPair(forward, "EV", "LD");
      const bool of_loss = gives_loss && forward.stage.value == last_stage;
      if (of_loss || (!gives_loss && Pick(random_, 8) == 0)) AddLoss(forward);
      if (Pick(random_, 10) == 0) AddMeeting(forward);
    }
  }

  const std::vector<Action>& order() const { return order_; }

 private:
  using Place = std::ptrdiff_t;

  Place PlaceOf(const Action& action) const {
    for (size_t i = 0; i < order_.size(); ++i) {
      if (order_[i].kind == action.kind && order_[i].stage == action.stage &&
          order_[i].microbatch == action.microbatch && order_[i].other == action.other) {
        return static_cast<Place>(i);
      }
    }
    return -1;
  }
  // The first R, B or I of the stage and microbatch.
  Place BackwardOf(const Action& forward) const {
    Place place = static_cast<Place>(order_.size());
    for (const ActionKind kind :
         {ActionKind::kRecompute, ActionKind::kBackward, ActionKind::kInputGradient}) {
      const Place at = PlaceOf(Make(kind, forward.stage.value, forward.microbatch.value));
      if (at >= 0) place = std::min(place, at);
    }
    return place;
  }
  // Inserts the action at a random place from `from` up to, and with, `to`.
  Place Insert(Place from, Place to, Action action) {
    const Place at = from + Pick(random_, static_cast<size_t>(to - from + 1));
    order_.insert(order_.begin() + at, action);
    return at;
  }
  Action Own(const char* name, const Action& forward, int on = -1) const {
    Action action = Make(rows_.Find(name)->kind, forward.stage.value, forward.microbatch.value);
    action.other = static_cast<int16_t>(on);
    return action;
  }
  // Inserts the action of every rank at one place, picked as by Insert.
  Place InsertForAll(Place from, Place to, const char* name, const Action& forward) {
    const Place at = from + Pick(random_, static_cast<size_t>(to - from + 1));
    for (int r = 0; r < ranks_; ++r) {
      order_.insert(order_.begin() + at, Own(name, forward, r));
    }
    return at + ranks_;
  }

  void AddPair(const Action& forward, const char* first, const char* second) {
    const Place at = Insert(PlaceOf(forward) + 1, BackwardOf(forward), Own(first, forward));
    Insert(at + 1, BackwardOf(forward), Own(second, forward));
  }
  void AddLoss(const Action& forward) {
    const Place given = InsertForAll(PlaceOf(forward) + 1, BackwardOf(forward), "C", forward);
    for (int r = 0; r < ranks_; ++r) Insert(given, BackwardOf(forward), Own("S", forward, r));
    Place from = given;
    for (int r = 0; r < ranks_; ++r) from = std::max(from, PlaceOf(Own("S", forward, r)) + 1);
    InsertForAll(from, BackwardOf(forward), "G", forward);
  }
  void AddMeeting(const Action& forward) {
    const Place given = InsertForAll(PlaceOf(forward) + 1, BackwardOf(forward), "K", forward);
    for (int r = 0; r < ranks_; ++r) Insert(given, BackwardOf(forward), Own("L", forward, r));
  }

  const OwnRows& rows_;
  const int ranks_;
  std::vector<Action> order_;
  std::mt19937_64& random_;
};

void Damage(Lists* lists, std::mt19937_64& random) {
  auto& list = (*lists)[Pick(random, lists->size())];
  if (list.empty()) return;
  const int i = Pick(random, list.size()), j = Pick(random, list.size());
  switch (Pick(random, 5)) {
    case 0:
      std::swap(list[i], list[j]);
      break;
    case 1:
      list.erase(list.begin() + i);
      break;
    case 2:
      list.insert(list.begin() + j, list[i]);
      break;
    case 3: {
      const Action moved = list[i];
      list.erase(list.begin() + i);
      list.insert(list.begin() + std::min<int>(j, static_cast<int>(list.size())), moved);
      break;
    }
    default:
      if (IsCompute(list[i].kind)) list[i].joined = !list[i].joined;
  }
}

// Moves an action of a list one place up, past an update.
void PutAhead(Lists* lists, std::mt19937_64& random) {
  auto& list = (*lists)[Pick(random, lists->size())];
  for (size_t i = 1; i < list.size(); ++i) {
    if (list[i - 1].kind != ActionKind::kUpdate || list[i].kind == ActionKind::kUpdate) continue;
    if (i + 1 < list.size() && list[i + 1].joined) continue;
    if (Pick(random, 2) == 0) std::swap(list[i - 1], list[i]);
  }
}

Plan WithLists(const Plan& plan, const Lists& lists) {
  Plan out = plan;
  out.actions.clear();
  out.first = {0};
  for (const auto& list : lists) {
    out.actions.insert(out.actions.end(), list.begin(), list.end());
    out.first.push_back(static_cast<uint32_t>(out.actions.size()));
  }
  FindRemaking(&out);
  return out;
}

// A group holds compute actions only, and the first of a list joins nothing.
void RepairGroups(Lists* lists) {
  for (auto& list : *lists) {
    for (size_t i = 0; i < list.size(); ++i) {
      const auto joins = [](ActionKind kind) { return IsCompute(kind) && !IsOwn(kind); };
      const bool can = i > 0 && joins(list[i].kind) && joins(list[i - 1].kind);
      list[i].joined = list[i].joined && can;
    }
  }
}

Lists ListsOf(const Plan& plan) {
  Lists lists;
  for (int r = 0; r < plan.ranks(); ++r) {
    const auto actions = plan.of(RankId(r));
    lists.emplace_back(actions.begin(), actions.end());
  }
  return lists;
}

}  // namespace

int64_t ForEachSmallPlan(const std::function<void(const Plan&)>& visit) {
  Family family(visit);
  family.ShortLists(4);
  family.Orders({0}, 2, {WorkOf({0}, 2, false)}, true);
  family.Orders({0}, 2, {WorkOf({0}, 2, true)}, true);
  family.Orders({0}, 1, {WithR(WorkOf({0}, 1, true))}, true);
  family.Orders({0}, 1, {WithCopies(WithR(WorkOf({0}, 1, true)))}, false);
  family.Orders({0}, 1, {WithCopies(WorkOf({0}, 1, false))}, false);
  family.Orders({0}, 2, {WithR(WorkOf({0}, 2, false))}, true);
  family.Orders({0, 1}, 1, {WithR(WorkOf({0}, 1, true)), WorkOf({1}, 1, false)}, false);
  family.Orders({0, 0}, 1, {WorkOf({0, 1}, 1, false)}, true);
  family.Orders({0, 1}, 2, {WorkOf({0}, 2, false), WorkOf({1}, 2, false)}, false);
  family.Orders({0, 1}, 1, {WorkOf({0}, 1, true), WorkOf({1}, 1, true)}, false);
  family.Orders({0, 1, 1, 0}, 1, {WorkOf({0, 3}, 1, false), WorkOf({1, 2}, 1, false)}, false);
  family.Orders({0, 1, 2}, 1, {WorkOf({0}, 1, true), WorkOf({1}, 1, true), WorkOf({2}, 1, true)},
                false);
  family.SetSlices(2);
  family.Orders({0}, 2, {WorkOf({0}, 2, false)}, true);
  family.Orders({0}, 2, {WorkOf({0}, 2, true)}, true);
  family.Orders({0}, 2, {WithR(WorkOf({0}, 2, false))}, false);
  family.Orders({0, 1}, 2, {WorkOf({0}, 2, false), WorkOf({1}, 2, false)}, false);
  family.SetSlices(3);
  family.Orders({0}, 3, {WorkOf({0}, 3, false)}, false);
  family.SetSlices(1);
  Lists lowered = {WorkOf({0}, 1, false), WorkOf({1}, 1, false)};
  lowered[0].push_back(Make(ActionKind::kSendForward, 0, 0));
  lowered[0].push_back(Make(ActionKind::kRecvBackward, 0, 0));
  lowered[1].push_back(Make(ActionKind::kRecvForward, 1, 0));
  lowered[1].push_back(Make(ActionKind::kSendBackward, 1, 0));
  family.LoweredOrders({0, 1}, 1, lowered);
  // Two messages down a channel: sent and received in every order.
  Lists two = {{Make(ActionKind::kForward, 0, 0), Make(ActionKind::kForward, 0, 1),
                Make(ActionKind::kSendForward, 0, 0), Make(ActionKind::kSendForward, 0, 1)},
               {Make(ActionKind::kRecvForward, 1, 0), Make(ActionKind::kRecvForward, 1, 1),
                Make(ActionKind::kForward, 1, 0), Make(ActionKind::kForward, 1, 1)}};
  family.LoweredOrders({0, 1}, 2, two);
  return family.count();
}

Plan RandomPlan(std::mt19937_64& random, bool with_rows, int slices, bool forward_only,
                bool with_edges) {
  const int ranks = 1 + Pick(random, 4);
  const int stages = std::max({ranks, with_edges ? 2 : 1, 1 + Pick(random, 6)});
  const int microbatches = slices == 1 ? 1 + Pick(random, 4) : (1 + Pick(random, 2)) * slices;
  std::vector<int> rank_of_stage(stages);
  for (int s = 0; s < stages; ++s) rank_of_stage[s] = s < ranks ? s : Pick(random, ranks);
  for (int s = stages - 1; s > 0; --s)
    std::swap(rank_of_stage[s], rank_of_stage[Pick(random, s + 1)]);

  const std::vector<Edge> edges = with_edges ? RandomEdges(stages, random) : std::vector<Edge>();
  std::vector<Skip> skips;
  if (with_edges && Pick(random, 2) == 0) {
    Plan shape = PlanOf(rank_of_stage, microbatches, Lists(ranks), slices, edges);
    skips = RandomSkips(shape, random);
  }
  std::vector<Action> order =
      RandomOrder(rank_of_stage, ranks, microbatches, slices, forward_only, edges, skips, random);
  OwnRows rows;
  if (with_rows) {
    const bool gives_loss = Pick(random, 2) == 0;
    rows = RowsOf(gives_loss);
    OwnActions own(rows, ranks, std::move(order), &random);
    own.AddAll(gives_loss, stages - 1);
    order = own.order();
  }
  Lists lists(ranks);
  for (const Action& action : order) {
    lists[action.other >= 0 ? action.other : rank_of_stage[action.stage.value]].push_back(action);
  }
  const int fate = Pick(random, 3);
  const int damages = 1 + Pick(random, 2);
  if (fate == 1) {
    for (int i = 0; i < damages; ++i) Damage(&lists, random);
    RepairGroups(&lists);
  }
  Plan plan = PlanOf(rank_of_stage, microbatches, lists, slices, edges, skips);
  plan.rows = rows;
  plan.forward_only = forward_only;
  const int steps = forward_only ? 1 : 1 + (Pick(random, 3) == 0 ? 1 : 0);
  if (steps > 1) {
    plan = RepeatSteps(plan, steps);
    plan.versions = 1 + Pick(random, 2);
    lists = ListsOf(plan);
    // Some first actions of a step come before an update.
    for (int i = Pick(random, 3); i > 0; --i) PutAhead(&lists, random);
    plan = WithLists(plan, lists);
  }
  plan = Lower(plan);
  if (fate == 2) {
    lists = ListsOf(plan);
    for (int i = 0; i < damages; ++i) Damage(&lists, random);
    RepairGroups(&lists);
    plan = WithLists(plan, lists);
  }
  plan.lowered = true;
  return plan;
}

}  // namespace stringline
