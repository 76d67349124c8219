// A frontier of groups and choices, each with its bound and an estimate of its step. A round takes
// those of the least estimate: of a group the bounds of its choices are computed, and a choice is
// simulated. An estimate is the bound times what schedules of that kind took above their bounds so
// far; it orders the work, and leaves nothing out.
#include "schedlang/tune/tune.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/bytes.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "schedlang/base/threads.h"
#include "schedlang/tune/choice_bound.h"
#include "schedlang/tune/choice_costs.h"
#include "schedlang/tune/choices.h"
#include "schedlang/tune/evaluate.h"
#include "schedlang/tune/finish.h"
#include "schedlang/tune/held_peaks.h"
#include "schedlang/tune/known_schedules.h"
#include "schedlang/tune/plan_cache.h"

namespace stringline::tune {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// A group or a choice that is still to be looked at.
struct Item {
  Choice choice;
  ChoiceBound bound;
  double usual = 1;     // of a group: how many times its bound its choices may take
  int64_t leaves = 1;   // choices
  std::string refusal;  // the reason why it has no costs; "": it has
  std::shared_ptr<const std::vector<RankSizes>> sizes;  // of a choice
  bool IsGroup() const { return choice.schedule < 0; }
};

// The stages of choices that share costs.
using StagesKey = std::tuple<Place, int64_t, bool, int>;
StagesKey StagesOfChoice(const Choice& choice) {
  const KnownSchedule& schedule = KnownSchedules()[static_cast<size_t>(choice.schedule)];
  return {schedule.place, choice.turns, choice.light_ends, schedule.slices};
}

// Values that many groups share, by what they depend on.
template <typename Value>
class Shared {
 public:
  void Add(const Choice& key) { values_.try_emplace(KeyWords(key), Entry{key, Value()}); }

  // Computes all values on so many threads: of(key).
  template <typename Compute>
  void Fill(int threads, const Compute& of) {
    std::vector<Entry*> entries;
    for (auto& [words, entry] : values_) entries.push_back(&entry);
    ForEachOnThreads(static_cast<int>(entries.size()), threads,
                     [&](int i) { entries[i]->value = of(entries[i]->key); });
  }

  const absl::StatusOr<Value>& Of(const Choice& key) const {
    return values_.at(KeyWords(key)).value;
  }

 private:
  struct Entry {
    Choice key;
    absl::StatusOr<Value> value;
  };
  using Words = std::array<int64_t, 10>;
  static Words KeyWords(const Choice& key) {
    return {key.tensor,       key.context,
            key.pipeline,     key.expert,
            key.data,         key.microbatch,
            key.microbatches, static_cast<int64_t>(key.recompute),
            key.quarters,     static_cast<int64_t>(key.sharding)};
  }

  std::map<Words, Entry> values_;
};

// The factors by which steps exceeded their bounds so far: of an order, and the mean of a schedule.
class UsualSteps {
 public:
  void Note(const Choice& choice, double above) {
    of_order_[KeyOf(choice)] = above;
    Mean& mean = of_schedule_[static_cast<size_t>(choice.schedule)];
    mean.sum += above;
    mean.count += 1;
  }
  double Of(const Choice& choice) const {
    const auto exact = of_order_.find(KeyOf(choice));
    if (exact != of_order_.end()) return exact->second;
    const Mean& mean = of_schedule_[static_cast<size_t>(choice.schedule)];
    return mean.count > 0 ? mean.sum / mean.count : 1.0;
  }

 private:
  struct Mean {
    double sum = 0;
    double count = 0;
  };
  std::map<PlanKey, double> of_order_;
  std::vector<Mean> of_schedule_ = std::vector<Mean>(KnownSchedules().size());
};

class Planner {
 public:
  Planner(const TuneRequest& request, const WatchTune& watch) : request_(request), watch_(watch) {}

  absl::StatusOr<TunedChoices> Run() {
    answer_.capacity = request_.base.spec.values.at("memory.capacity")[0];
    SL_RETURN_IF_ERROR(AddGroups());
    while (!frontier_.empty() && !IsOver()) {
      Prune();
      std::vector<Item> round = TakeRound();
      if (round.empty()) break;
      Look(round);
      if (watch_) watch_({answer_.counts, best_.empty() ? 0 : Sorted()[0].step_ns});
    }
    Prune();
    TunedChoices answer = Answer();
    SL_RETURN_IF_ERROR(Finish(request_, start_ns_, &cache_, &answer));
    return answer;
  }

 private:
  static constexpr size_t kRound = 48;
  static constexpr double kShareOfRounds = 0.7;  // of the time

  bool IsOver() const {
    // An order that does not fit is known without its simulation.
    const int64_t evaluated = answer_.counts.simulated + tried_too_large_ / 8;
    if (request_.evaluations > 0)
      return evaluated >= request_.evaluations || IsWished(request_.stop);
    return NowNs() >= start_ns_ + static_cast<int64_t>(kShareOfRounds * request_.seconds * 1e9) ||
           IsWished(request_.stop);
  }

  // Bounds of all groups. Errors: costs that no choice can have.
  absl::Status AddGroups() {
    SL_ASSIGN_OR_RETURN(const std::vector<Choice> groups,
                        ChoiceGroups(request_.base.spec.formula->model, request_.gpus,
                                     request_.global_batch, request_.pins));
    // Resident bytes do not depend on microbatches and recomputation, and the work of a rank not on
    // the state that copies share out.
    Shared<int64_t> resident;
    Shared<GroupWork> work;
    for (const Choice& group : groups) resident.Add(MeshAndSharding(group));
    resident.Fill(request_.threads, [this](const Choice& choice) { return ResidentOf(choice); });
    for (const Choice& group : groups) {
      const absl::StatusOr<int64_t>& bytes = resident.Of(MeshAndSharding(group));
      if (bytes.ok() && *bytes <= answer_.capacity) work.Add(WithoutSharding(group));
    }
    work.Fill(request_.threads, [this](const Choice& choice) { return WorkOf(choice); });
    for (const Choice& group : groups) {
      const GroupSize& size = SizeOf(group);
      Item item{.choice = group, .leaves = size.choices};
      answer_.counts.considered += item.leaves;
      const absl::StatusOr<int64_t>& bytes = resident.Of(MeshAndSharding(group));
      if (!bytes.ok()) {
        Refuse(item, bytes.status().message());
        continue;
      }
      item.bound.bytes = *bytes;
      if (item.bound.bytes <= answer_.capacity) {
        const absl::StatusOr<GroupWork>& of_group = work.Of(WithoutSharding(group));
        if (!of_group.ok()) {
          Refuse(item, of_group.status().message());
          continue;
        }
        item.bound.step_ns = of_group->bound_ns;
        item.usual = UsualOf(item, *of_group, size.most_turns);
      }
      Add(std::move(item));
    }
    return absl::OkStatus();
  }

  void Refuse(const Item& item, absl::string_view why) {
    answer_.counts.refused += item.leaves;
    if (answer_.refusal.empty()) answer_.refusal = absl::StrCat(Print(item.choice), ": ", why);
  }

  static Choice MeshAndSharding(Choice group) {
    group.microbatch = group.microbatches = 1;
    group.recompute = Recompute::kNone;
    group.quarters = 4;
    return group;
  }
  static Choice WithoutSharding(Choice group) {
    group.sharding = Sharding::kNone;
    return group;
  }

  // The number of choices in a group, and the most stages of a rank among them.
  struct GroupSize {
    int64_t choices = 0;
    int64_t most_turns = 1;
  };
  const GroupSize& SizeOf(const Choice& group) {
    const auto [place, is_new] = sizes_.try_emplace(group.pipeline);
    if (is_new) {
      for (const Choice& choice :
           ChoicesOf(group, request_.base.spec.formula->model, request_.pins)) {
        ++place->second.choices;
        place->second.most_turns = std::max(place->second.most_turns, choice.turns);
      }
    }
    return place->second;
  }

  absl::StatusOr<int64_t> ResidentOf(const Choice& group) const {
    SL_ASSIGN_OR_RETURN(const StagedCosts staged, StagedCostsOf(request_.base, group));
    return BoundOfGroup(staged).bytes;
  }

  struct GroupWork {
    int64_t bound_ns = 0;
    int64_t line_ns = 0;      // the bound of its ranks in a line
    int64_t held_of_one = 0;  // bytes of a microbatch of the largest stage there
  };
  absl::StatusOr<GroupWork> WorkOf(const Choice& group) const {
    SL_ASSIGN_OR_RETURN(const StagedCosts staged, StagedCostsOf(request_.base, group));
    const ChoiceBound bound = BoundOfGroup(staged), line = BoundOf(staged, KnownSchedule());
    return GroupWork{bound.step_ns, line.step_ns, std::max<int64_t>(0, line.bytes - bound.bytes)};
  }

  // A guess how many times its bound the best choice of a group takes: a pipeline of stages as
  // small as they can be fills and drains once; and a group may need a more frugal schedule.
  double UsualOf(const Item& item, const GroupWork& work, int64_t turns) const {
    const auto ranks = static_cast<double>(item.choice.pipeline);
    const auto microbatches = static_cast<double>(item.choice.microbatches);
    // The line is work and P - 1 microbatches of a stage; with more turns those are shorter.
    const double filling = (ranks - 1) / (ranks - 1 + microbatches);
    double usual = static_cast<double>(work.line_ns) /
                   static_cast<double>(std::max<int64_t>(1, work.bound_ns)) *
                   (1 - filling * (1 - 1.0 / static_cast<double>(turns)));
    const int64_t held = std::min(item.choice.pipeline, item.choice.microbatches);
    if (item.bound.bytes + held * work.held_of_one > answer_.capacity) usual *= 1.25;
    return usual;
  }

  void Add(Item item) {
    if (item.bound.bytes > answer_.capacity) {
      answer_.counts.by_memory += item.leaves;
      Miss(item.choice, item.bound.bytes);
      return;
    }
    if (item.IsGroup() || HasRoom(item)) frontier_.push_back(std::move(item));
  }

  // False for a choice whose order is known to hold too much; then it is done with.
  bool HasRoom(const Item& item) {
    const auto held = held_.find(OrderOf(item.choice));
    if (held == held_.end()) return true;
    const int64_t bytes = held->second->LeastBytes(*item.sizes);
    if (bytes <= answer_.capacity) return true;
    ++answer_.counts.too_large;
    Miss(item.choice, bytes);
    return false;
  }

  // The order without its collectives.
  static PlanKey OrderOf(const Choice& choice) {
    PlanKey key = KeyOf(choice);
    key.gathers = key.reduces = false;
    return key;
  }

  void Miss(const Choice& choice, int64_t bytes) {
    if (!answer_.miss || bytes < answer_.miss->bytes) answer_.miss = NearestMiss{choice, bytes, ""};
  }

  // The best step of each mesh, the shortest first.
  std::vector<Outcome> Sorted() const {
    std::vector<Outcome> sorted;
    for (const auto& [mesh, outcome] : best_) sorted.push_back(outcome);
    std::stable_sort(sorted.begin(), sorted.end(), IsShorter);
    return sorted;
  }

  // A step that is no shorter is not shown: others of its mesh, or enough of other meshes, are.
  int64_t BelowNs(const Choice& choice) const {
    const auto known = best_.find(MeshOf(choice));
    return std::min(last_shown_ns_, known == best_.end() ? kNever : known->second.step_ns);
  }

  void Prune() {
    const std::vector<Outcome> sorted = Sorted();
    last_shown_ns_ = sorted.size() >= request_.shown ? sorted[request_.shown - 1].step_ns : kNever;
    std::erase_if(frontier_, [&](const Item& item) {
      if (item.bound.step_ns < BelowNs(item.choice)) return false;
      answer_.counts.by_bound += item.leaves;
      return true;
    });
  }

  double EstimateOf(const Item& item) const {
    const auto bound = static_cast<double>(item.bound.step_ns);
    if (item.IsGroup()) return bound * item.usual;
    return bound * usual_.Of(item.choice);
  }

  // Takes the items of the least estimate out of the frontier, in the order of the frontier.
  std::vector<Item> TakeRound() {
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < frontier_.size(); ++i) order.emplace_back(EstimateOf(frontier_[i]), i);
    size_t count = std::min(kRound, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count),
                      order.end());
    order.resize(count);
    std::vector<Item> round;
    std::vector<bool> taken(frontier_.size(), false);
    for (const auto& [estimate, i] : order) {
      round.push_back(frontier_[i]);
      taken[i] = true;
    }
    size_t kept = 0;
    for (size_t i = 0; i < frontier_.size(); ++i) {
      if (!taken[i]) frontier_[kept++] = frontier_[i];
    }
    frontier_.resize(kept);
    return round;
  }

  void Look(const std::vector<Item>& round) {
    std::vector<size_t> groups, choices;
    for (size_t i = 0; i < round.size(); ++i) (round[i].IsGroup() ? groups : choices).push_back(i);
    std::vector<std::vector<Item>> opened(groups.size());
    ForEachOnThreads(static_cast<int>(groups.size()), request_.threads,
                     [&](int k) { opened[k] = Opened(round[groups[k]].choice); });
    for (std::vector<Item>& items : opened) {
      for (Item& item : items) {
        if (item.refusal.empty()) {
          Add(std::move(item));
        } else {
          Refuse(item, item.refusal);
        }
      }
    }
    LookAtChoices(round, std::move(choices));
  }

  void LookAtChoices(const std::vector<Item>& round, std::vector<size_t> choices) {
    const auto drop_large = [&] {
      std::erase_if(choices, [&](size_t i) { return !HasRoom(round[i]); });
    };
    drop_large();
    std::vector<PlanKey> keys;
    for (const size_t i : choices) keys.push_back(KeyOf(round[i].choice));
    const std::vector<std::shared_ptr<const PreparedPlan>> prepared =
        cache_.Prepare(keys, request_.threads);
    std::map<PlanKey, std::shared_ptr<const PreparedPlan>> plans;
    for (size_t k = 0; k < keys.size(); ++k) {
      plans[keys[k]] = prepared[k];
      if (prepared[k]->held)
        held_.try_emplace(OrderOf(round[choices[k]].choice), prepared[k]->held);
    }
    const size_t prepared_choices = choices.size();
    drop_large();
    tried_too_large_ += static_cast<int64_t>(prepared_choices - choices.size());
    std::vector<Evaluation> evaluations(choices.size());
    ForEachOnThreads(static_cast<int>(choices.size()), request_.threads, [&](int k) {
      const Choice& choice = round[choices[k]].choice;
      evaluations[k] = Evaluate(request_.base, choice, *plans.at(KeyOf(choice)), answer_.capacity,
                                BelowNs(choice));
    });
    for (size_t k = 0; k < choices.size(); ++k) Note(round[choices[k]], evaluations[k]);
  }

  // The choices of a group, with their bounds.
  std::vector<Item> Opened(const Choice& group) const {
    std::vector<Item> items;
    struct Stages {
      absl::StatusOr<StagedCosts> costs;
      std::shared_ptr<const std::vector<RankSizes>> sizes;
    };
    std::map<StagesKey, Stages> staged;
    for (const Choice& choice :
         ChoicesOf(group, request_.base.spec.formula->model, request_.pins)) {
      const StagesKey key = StagesOfChoice(choice);
      auto place = staged.find(key);
      if (place == staged.end()) {
        place = staged.try_emplace(key).first;
        Stages& stages = place->second;
        stages.costs = StagedCostsOf(request_.base, choice);
        if (stages.costs.ok()) {
          stages.sizes = std::make_shared<const std::vector<RankSizes>>(RankSizesOf(*stages.costs));
        }
      }
      Item item{.choice = choice, .sizes = place->second.sizes};
      if (place->second.costs.ok()) {
        const KnownSchedule& schedule = KnownSchedules()[static_cast<size_t>(choice.schedule)];
        item.bound = BoundOf(*place->second.costs, schedule);
      } else {
        item.refusal = std::string(place->second.costs.status().message());
      }
      items.push_back(std::move(item));
    }
    return items;
  }

  void Note(const Item& item, const Evaluation& evaluation) {
    switch (evaluation.state) {
      case Evaluation::State::kRefused:
        Refuse(item, evaluation.why);
        return;
      case Evaluation::State::kTooLarge:
        ++answer_.counts.too_large;
        ++tried_too_large_;
        Miss(item.choice, evaluation.bytes);
        return;
      case Evaluation::State::kSimulated:
        break;
    }
    ++answer_.counts.simulated;
    usual_.Note(item.choice, static_cast<double>(evaluation.step_ns) /
                                 static_cast<double>(std::max<int64_t>(1, item.bound.step_ns)));
    answer_.simulated.push_back({item.choice, evaluation.step_ns, evaluation.bytes, {}});
    const auto [place, is_new] = best_.try_emplace(MeshOf(item.choice));
    if (is_new || evaluation.step_ns < place->second.step_ns)
      place->second = answer_.simulated.back();
  }

  TunedChoices Answer() {
    answer_.best = Sorted();
    if (answer_.best.size() > request_.shown) answer_.best.resize(request_.shown);
    answer_.bound_ns = answer_.best.empty() ? kNever : answer_.best[0].step_ns;
    for (const Item& item : frontier_) {
      answer_.bound_ns = std::min(answer_.bound_ns, item.bound.step_ns);
      answer_.counts.open += item.leaves;
    }
    answer_.gpus = request_.gpus;
    answer_.tokens = request_.global_batch * request_.base.spec.formula->model.context;
    answer_.operations = ModelOperations(request_.base.spec, request_.global_batch);
    const CostFormula& formula = *request_.base.spec.formula;
    answer_.peak = SpeedOf(formula.machine, formula.model.precision).flops;
    answer_.miss = answer_.best.empty() ? MissWithReason() : std::nullopt;
    return std::move(answer_);
  }

  // The nearest miss with the classes of its bytes, on the mean rank.
  std::optional<NearestMiss> MissWithReason() const {
    if (!answer_.miss) return answer_.miss;
    NearestMiss miss = *answer_.miss;
    const absl::StatusOr<StagedCosts> staged = StagedCostsOf(request_.base, miss.choice);
    if (!staged.ok()) return miss;
    std::array<int64_t, 3> bytes = {};
    const std::array<MemoryClass, 3> classes = {MemoryClass::kWeights, MemoryClass::kGradients,
                                                MemoryClass::kOptimizer};
    for (const StageMemory& memory : staged->costs.memory) {
      for (size_t c = 0; c < classes.size(); ++c) bytes[c] += memory[classes[c]];
    }
    const int ranks = staged->stages.ranks();
    const int64_t rest = miss.bytes - (bytes[0] + bytes[1] + bytes[2]) / ranks;
    miss.what = absl::StrCat("weights ", PrintBytes(bytes[0] / ranks, 1), ", gradients ",
                             PrintBytes(bytes[1] / ranks, 1), ", optimizer ",
                             PrintBytes(bytes[2] / ranks, 1), " on the mean GPU");
    if (rest > miss.bytes / 100) {
      absl::StrAppend(&miss.what, ", and activations ", PrintBytes(rest, 1));
    }
    return miss;
  }

  const TuneRequest& request_;
  const WatchTune& watch_;
  const int64_t start_ns_ = NowNs();
  PlanCache cache_;
  std::map<PlanKey, std::shared_ptr<const HeldPeaks>> held_;  // by order without collectives
  int64_t tried_too_large_ = 0;  // of the choices that are too large, those whose order was made
  std::map<int64_t, GroupSize> sizes_;  // by ranks of the pipeline
  std::vector<Item> frontier_;
  std::map<MeshKey, Outcome> best_;
  int64_t last_shown_ns_ = kNever;
  UsualSteps usual_;
  TunedChoices answer_;  // so far
};

}  // namespace

absl::StatusOr<TunedChoices> Tune(const TuneRequest& request, const WatchTune& watch) {
  return Planner(request, watch).Run();
}

}  // namespace stringline::tune
