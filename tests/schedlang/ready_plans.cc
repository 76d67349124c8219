#include "tests/schedlang/ready_plans.h"

#include <algorithm>
#include <array>
#include <vector>

namespace stringline {
namespace {

int NumberFrom(std::mt19937_64& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<uint64_t>(most - least + 1));
}

}  // namespace

Plan RandomReadyPlan(std::mt19937_64& random, int most_actions, bool damage) {
  Plan plan;
  plan.schedule = "random";
  const int ranks = NumberFrom(random, 1, 3);
  const int stages = NumberFrom(random, 1, 4);
  std::vector<bool> whole;
  int of_each = 0;
  for (int s = 0; s < stages; ++s) {
    Stage stage{.rank = RankId(NumberFrom(random, 0, ranks - 1))};
    plan.stages.push_back(stage);
    whole.push_back(random() % 2 == 0);
    of_each += whole.back() ? 2 : 3;
  }
  plan.SetChains();
  plan.microbatches = std::max(1, std::min(NumberFrom(random, 1, 4), most_actions / of_each));
  plan.parameters = {{"P", ranks}, {"M", plan.microbatches}};
  plan.window = NumberFrom(random, 1, 7);
  plan.slack = NumberFrom(random, 0, 2);
  std::vector<int> order(static_cast<size_t>(plan.microbatches));
  for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int>(k);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<std::vector<Action>> lists(static_cast<size_t>(ranks));
  // By stage: how many of its F, of its B or I, and of its W are done.
  std::vector<std::array<int, 3>> done(static_cast<size_t>(stages), {0, 0, 0});
  for (int left = of_each * plan.microbatches; left > 0;) {
    const int s = NumberFrom(random, 0, stages - 1);
    const int sort = NumberFrom(random, 0, whole[s] ? 1 : 2);
    const int next = done[s][sort];
    const int known = sort == 0         ? (s == 0 ? plan.microbatches : done[s - 1][0])
                      : sort == 2       ? done[s][1]
                      : s + 1 == stages ? done[s][0]
                                        : done[s + 1][1];
    if (next >= known || next == plan.microbatches) continue;
    const ActionKind kind = sort == 0   ? ActionKind::kForward
                            : sort == 2 ? ActionKind::kWeightGradient
                            : whole[s]  ? ActionKind::kBackward
                                        : ActionKind::kInputGradient;
    Action action{.kind = kind, .stage = StageId(s), .microbatch = MicrobatchId(order[next])};
    lists[plan.stages[s].rank.value].push_back(action);
    ++done[s][sort];
    --left;
  }
  if (damage) {
    std::vector<Action>& list = lists[random() % lists.size()];
    if (list.size() > 1) std::swap(list[random() % list.size()], list[random() % list.size()]);
  }
  for (const std::vector<Action>& list : lists) {
    plan.actions.insert(plan.actions.end(), list.begin(), list.end());
    plan.first.push_back(static_cast<uint32_t>(plan.actions.size()));
  }
  return plan;
}

}  // namespace stringline
