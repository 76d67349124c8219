// The checker's verdict is the truth, for more shapes than truth_test.cc: grouped calls, three
// ranks, split backwards, two pipes, and larger schedules of the library, damaged. And our own
// lowering is right in every layout.
//
// STRINGLINE_LONG=1 in the environment asks for the full form: two million plans.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schedlang/check/check.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/lower.h"
#include "schedlang/plan/repeat_steps.h"
#include "schedlang/text/parse.h"
#include "tests/schedlang/exhaustive.h"
#include "tests/schedlang/random_plan.h"

namespace stringline {
namespace {

constexpr uint64_t kFamiliesSeed = 20260117;

bool Long() { return std::getenv("STRINGLINE_LONG") != nullptr; }

World RandomWorld(std::mt19937_64& random) {
  return {.layout = static_cast<int>(Below(random, kCommLayouts)),
          .buffers = static_cast<int>(Below(random, 4)),
          .lazy = Below(random, 2) == 1};
}

CommLayout LayoutOf(const World& world) { return static_cast<CommLayout>(world.layout); }

std::string Print(const World& world) {
  return absl::StrCat("layout ", NameOf(LayoutOf(world)), ", buffers ", world.buffers,
                      world.lazy ? ", lazy" : "");
}

// The checker's verdict, leaving aside collectives, which the judge ignores.
bool CheckerSays(const Plan& plan, const World& world, Diagnostics* findings) {
  const CheckOptions options{
      .layout = LayoutOf(world), .buffers = world.buffers, .lazy = world.lazy};
  for (const Rule& rule : Rules()) {
    if (absl::string_view(rule.name) == "collectives" || !Applies(rule, options)) continue;
    rule.find(plan, options, findings);
    if (!findings->empty()) return false;
  }
  return true;
}

// Compares the two and counts.
class Jury {
 public:
  // all_runs: plans are small enough to try every run.
  explicit Jury(bool all_runs) : all_runs_(all_runs) {}

  void Judge(const Plan& plan, const World& world) {
    const Verdict verdict = all_runs_ ? JudgeExhaustively(plan, world) : JudgeOneRun(plan, world);
    if (verdict == Verdict::kTooLarge) {
      ++undecided_;
      return;
    }
    const bool right = verdict == Verdict::kGood;
    ++(right ? right_ : wrong_);
    Diagnostics findings;
    const bool same = CheckerSays(plan, world, &findings) == right;
    if (!findings.empty()) {
      const Code code = findings.findings()[0].code;
      hang_ += code == Code::kProgress || code == Code::kConnection;
    }
    if (same || ++differ_ > 3) return;
    const std::string said = findings.empty() ? "right" : findings.findings()[0].text;
    ADD_FAILURE() << "the judge says " << (right ? "right" : "wrong") << ", the checker: " << said
                  << "\n"
                  << Print(world) << "\n"
                  << Print(plan);
  }

  void Report(absl::string_view what) const {
    std::cout << what << ": " << right_ << " right, " << wrong_ << " wrong (" << hang_ << " hang), "
              << undecided_ << " undecided, " << differ_
              << " judged otherwise by the checker; seed " << kFamiliesSeed << "\n";
    EXPECT_EQ(differ_, 0);
    EXPECT_GT(right_, 0);
    EXPECT_GT(hang_, 0);
    EXPECT_LE(undecided_, (right_ + wrong_) / 100);
  }

 private:
  const bool all_runs_;
  int64_t right_ = 0, wrong_ = 0, hang_ = 0, undecided_ = 0, differ_ = 0;
};

RankLists ListsIn(const Plan& plan) {
  RankLists lists;
  for (int r = 0; r < plan.ranks(); ++r) {
    const auto actions = plan.of(RankId(r));
    lists.emplace_back(actions.begin(), actions.end());
  }
  return lists;
}

struct PlanFamily {
  std::vector<std::vector<int>> pipes;  // ranks of the stages
  int microbatches;
  bool split;      // I and W instead of B
  bool any_order;  // false: every action behind its dependencies on its own rank
};

// All plans of up to three ranks and two microbatches. A family within the quota is visited whole,
// a larger one evenly spread: 2 ranks with 2 stages and 1 or 2 microbatches, 3 ranks, several
// stages a rank, two pipes; messages anywhere in the lists.
const std::vector<PlanFamily> kFamilies = {
    {{{0, 1}}, 1, false, true},        {{{0, 1}}, 1, true, true},
    {{{0, 1}}, 2, false, false},       {{{0, 1, 2}}, 1, false, true},
    {{{0, 1, 2}}, 1, true, false},     {{{0, 1, 0}}, 1, false, false},
    {{{0, 1, 1, 0}}, 1, false, false}, {{{0, 1, 0, 1}}, 1, false, false},
    {{{0, 1, 2}}, 2, false, false},    {{{0, 1}, {1, 0}}, 1, false, false},
    {{{0, 1, 2, 0}}, 1, false, false}, {{{0, 1}}, 2, true, false},
};

// The orders of a rank's actions.
class Orders {
 public:
  Orders(const Plan& plan, RankId rank, const PlanFamily& family)
      : plan_(plan), any_(family.any_order) {
    for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s) {
      if (plan.stages[s].rank != rank) continue;
      for (int m = 0; m < family.microbatches; ++m) Add(s, m, family.split);
    }
    used_.assign(work_.size(), 0);
    Extend();
  }

  const std::vector<std::vector<Action>>& all() const { return all_; }

 private:
  bool Apart(StageId a, StageId b) const {
    return a.valid() && b.valid() && plan_.stage(a).rank != plan_.stage(b).rank;
  }

  void Add(int s, int m, bool split) {
    const auto add = [&](ActionKind kind) { work_.push_back(MakeAction(kind, s, m)); };
    add(ActionKind::kForward);
    if (split) {
      add(ActionKind::kInputGradient);
      add(ActionKind::kWeightGradient);
    } else {
      add(ActionKind::kBackward);
    }
    if (Apart(plan_.graph.Before(StageId(s)), StageId(s))) {
      add(ActionKind::kRecvForward);
      add(ActionKind::kSendBackward);
    }
    if (Apart(StageId(s), plan_.graph.Behind(StageId(s)))) {
      add(ActionKind::kSendForward);
      add(ActionKind::kRecvBackward);
    }
  }

  // True when b depends on a.
  bool Needs(const Action& b, const Action& a) const {
    if (a.microbatch != b.microbatch) return false;
    const bool backward = b.kind == ActionKind::kBackward || b.kind == ActionKind::kInputGradient;
    const bool gives_gradient =
        a.kind == ActionKind::kBackward || a.kind == ActionKind::kInputGradient;
    if (b.kind == ActionKind::kForward && a.kind == ActionKind::kForward)
      return plan_.graph.Before(b.stage) == a.stage;
    if (backward && gives_gradient) return plan_.graph.Behind(b.stage) == a.stage;
    if (a.stage != b.stage) return false;
    if (b.kind == ActionKind::kForward) return a.kind == ActionKind::kRecvForward;
    if (backward) return a.kind == ActionKind::kForward || a.kind == ActionKind::kRecvBackward;
    if (b.kind == ActionKind::kSendForward) return a.kind == ActionKind::kForward;
    return !IsRecv(b.kind) && gives_gradient;
  }

  bool Ready(size_t b) const {
    for (size_t a = 0; a < work_.size(); ++a) {
      if (!used_[a] && a != b && Needs(work_[b], work_[a])) return false;
    }
    return true;
  }

  void Extend() {
    if (list_.size() == work_.size()) {
      all_.push_back(list_);
      return;
    }
    for (size_t i = 0; i < work_.size(); ++i) {
      if (used_[i] || !(any_ || Ready(i))) continue;
      used_[i] = 1;
      list_.push_back(work_[i]);
      Extend();
      list_.pop_back();
      used_[i] = 0;
    }
  }

  const Plan& plan_;
  const bool any_;
  std::vector<Action> work_, list_;
  std::vector<char> used_;
  std::vector<std::vector<Action>> all_;
};

// Visits up to `quota` plans of the family, no two alike. Returns how many.
int64_t ForEachOf(const PlanFamily& family, int64_t quota, std::mt19937_64& random,
                  const std::function<void(const Plan&)>& visit) {
  Plan plan = EmptyPlan(family.pipes, family.microbatches);
  plan.lowered = true;
  std::vector<Orders> orders;
  int64_t total = 1;
  for (int r = 0; r < plan.ranks(); ++r) {
    orders.emplace_back(plan, RankId(r), family);
    total *= static_cast<int64_t>(orders.back().all().size());
  }
  const int64_t count = std::min(total, quota);
  int64_t visited = 0;
  for (int64_t n = 0; n < count; ++n) {
    // Evenly spread, with a random place in each stretch.
    const int64_t from = static_cast<int64_t>(static_cast<double>(total) / count * n);
    const int64_t to = static_cast<int64_t>(static_cast<double>(total) / count * (n + 1));
    int64_t index = from + static_cast<int64_t>(Below(random, std::max<int64_t>(to - from, 1)));
    RankLists lists;
    for (const Orders& of : orders) {
      const int64_t size = static_cast<int64_t>(of.all().size());
      lists.push_back(of.all()[index % size]);
      index /= size;
    }
    PutLists(lists, &plan);
    visit(plan);
    for (auto& list : lists) {
      for (Action& action : list) action.joined = Below(random, 3) == 0;
    }
    PutLists(lists, &plan);
    const bool joined = std::any_of(plan.actions.begin(), plan.actions.end(),
                                    [](const Action& a) { return a.joined; });
    if (joined) visit(plan);
    visited += 1 + joined;
  }
  return visited;
}

TEST(TruthOfFamilies, SmallPlans) {
  std::mt19937_64 random(kFamiliesSeed);
  Jury jury(/*all_runs=*/true);
  int64_t plans = 0;
  for (const PlanFamily& family : kFamilies) {
    plans += ForEachOf(family, Long() ? 200'000 : 8'000, random,
                       [&](const Plan& plan) { jury.Judge(plan, RandomWorld(random)); });
  }
  EXPECT_GE(plans, Long() ? 1'000'000 : 50'000);
  jury.Report(absl::StrCat(plans, " small plans"));
}

// Schedules of the library for few ranks and microbatches, lowered for every layout.
std::vector<Plan> LibraryPlans() {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat(STRINGLINE_SOURCE_DIR, "/schedules"))) {
    if (entry.path().extension() == ".sched") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Plan> plans;
  for (const std::string& path : paths) {
    const Source source = *ReadSource(path);
    Diagnostics findings;
    const auto file = Parse(source, &findings);
    if (!file) continue;
    for (int ranks = 2; ranks <= 4; ++ranks) {
      for (int microbatches = 1; microbatches <= 4; ++microbatches) {
        std::vector<Parameter> parameters = {{"P", ranks}, {"M", microbatches}};
        const bool has_steps = path.find("pipedream") != std::string::npos;
        if (has_steps) parameters.push_back({"steps", 2});
        std::optional<Plan> plan = Elaborate(*file, "", parameters, &findings);
        if (plan && !has_steps && plans.size() % 5 == 0 && plan->actions.size() < 60) {
          plan = RepeatSteps(*plan, 2);
        }
        for (int layout = 0; plan && layout < kCommLayouts; ++layout) {
          Plan lowered = Lower(*plan, static_cast<CommLayout>(layout));
          // The judge counts up to 127 items of a list, of which damage may add some.
          const bool fits = std::adjacent_find(lowered.first.begin(), lowered.first.end(),
                                               [](uint32_t begin, uint32_t end) {
                                                 return end - begin > 120;
                                               }) == lowered.first.end();
          if (fits) plans.push_back(std::move(lowered));
        }
      }
    }
  }
  return plans;
}

void DamageOnce(RankLists* lists, std::mt19937_64& random) {
  auto& list = (*lists)[Below(random, lists->size())];
  if (list.empty()) return;
  const size_t i = Below(random, list.size());
  const size_t reach = 1 + Below(random, 6);  // mostly not far: those are the plans in doubt
  const size_t low = i > reach ? i - reach : 0;
  const size_t j = low + Below(random, std::min(i + reach, list.size() - 1) - low + 1);
  const Action action = list[i];
  if (IsCollective(action.kind) || IsCollective(list[j].kind)) return;
  switch (Below(random, 12)) {
    case 0:
      list.erase(list.begin() + static_cast<ptrdiff_t>(i));
      break;
    case 1:
      list.insert(list.begin() + static_cast<ptrdiff_t>(j), action);
      break;
    case 2:
    case 3:
    case 4:
      std::swap(list[i], list[j]);
      break;
    case 5:
    case 6:
    case 7:
    case 8:
      list.erase(list.begin() + static_cast<ptrdiff_t>(i));
      list.insert(list.begin() + static_cast<ptrdiff_t>(j), action);
      break;
    default:
      list[i].joined = !list[i].joined;
  }
}

TEST(TruthOfFamilies, DamagedLibrary) {
  const std::vector<Plan> library = LibraryPlans();
  ASSERT_GT(library.size(), 100u);
  std::mt19937_64 random(kFamiliesSeed);
  Jury jury(/*all_runs=*/false);
  const int64_t plans = Long() ? 500'000 : 100'000;
  for (int64_t n = 0; n < plans; ++n) {
    Plan plan = library[Below(random, library.size())];
    RankLists lists = ListsIn(plan);
    for (size_t left = 1 + Below(random, 3); left > 0; --left) DamageOnce(&lists, random);
    PutLists(lists, &plan);
    jury.Judge(plan, RandomWorld(random));
  }
  jury.Report(absl::StrCat(plans, " damaged schedules of the library"));
}

// Every second one over random edges, or with stages left out.
TEST(TruthOfFamilies, DamagedSmallPlans) {
  std::mt19937_64 random(kFamiliesSeed);
  Jury jury(/*all_runs=*/false);
  const int64_t plans = Long() ? 200'000 : 10'000;
  for (int64_t n = 0; n < plans; ++n) {
    const World world = RandomWorld(random);
    Plan right = RandomRightPlan(random, 4, 2, /*copies=*/false, /*edges=*/n % 2 == 1);
    // The judge counts up to 127 items of a list.
    if (Below(random, 3) == 0 && right.actions.size() < 30) {
      right = RepeatSteps(right, 2);
      right.versions = 1 + static_cast<int>(Below(random, 2));
    }
    Plan plan = Lower(right, LayoutOf(world));
    RankLists lists = ListsIn(plan);
    for (size_t left = Below(random, 3); left > 0; --left) DamageOnce(&lists, random);
    PutLists(lists, &plan);
    plan.lowered = true;
    jury.Judge(plan, world);
  }
  jury.Report(absl::StrCat(plans, " small right plans, damaged"));
}

TEST(TruthOfFamilies, LoweredPlansOfRightOrdersAreRight) {
  std::mt19937_64 random(kFamiliesSeed);
  const int plans = Long() ? 20'000 : 600;
  for (int n = 0; n < plans; ++n) {
    const bool tiny = n % 2 == 0;
    const Plan plan = RandomRightPlan(random, tiny ? 4 : 12, tiny ? 3 : 10);
    for (int layout = 0; layout < kCommLayouts; ++layout) {
      const World world{.layout = layout, .buffers = static_cast<int>(Below(random, 3))};
      const Plan lowered = Lower(plan, LayoutOf(world));
      Diagnostics findings;
      ASSERT_TRUE(CheckerSays(lowered, world, &findings)) << findings.findings()[0].text << "\n"
                                                          << Print(world) << "\n"
                                                          << Print(plan);
      if (!tiny) continue;
      ASSERT_EQ(JudgeOneRun(lowered, world), Verdict::kGood) << Print(world) << "\n"
                                                             << Print(lowered);
    }
  }
  std::cout << plans << " right plans, each lowered for every layout; seed " << kFamiliesSeed
            << "\n";
}

// All runs of a plan end alike, so a single run judges plans with too many states.
TEST(TruthOfFamilies, AllRunsEndAlike) {
  std::mt19937_64 random(kFamiliesSeed);
  const int64_t quota = Long() ? 20'000 : 2'000;
  for (const PlanFamily& family : kFamilies) {
    ForEachOf(family, quota, random, [&](const Plan& plan) {
      const World world = RandomWorld(random);
      const Verdict all = JudgeExhaustively(plan, world);
      if (all == Verdict::kTooLarge) return;
      ASSERT_EQ(all, JudgeOneRun(plan, world)) << Print(world) << "\n" << Print(plan);
    });
  }
}

}  // namespace
}  // namespace stringline
