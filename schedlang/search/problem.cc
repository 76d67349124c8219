// The plain evaluation: ranks take turns, each advancing while its needs have arrived, until none
// advances.
#include "schedlang/search/problem.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stringline::search {
namespace {

bool IsInputSide(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kInputGradient;
}

// Advances ranks as far as possible, until none goes on.
class Walk {
 public:
  Walk(const Problem& problem, const Words& words, int steps)
      : problem_(problem), words_(words), steps_(steps) {
    for (const StageWork& stage : problem.stages) {
      const auto count = static_cast<size_t>(stage.microbatches) * static_cast<size_t>(steps);
      activations_.emplace_back(count, stage.previous < 0 ? 0 : kNotThere);
      gradients_.emplace_back(count, stage.next < 0 ? 0 : kNotThere);
    }
    const auto stages = static_cast<size_t>(problem.stage_count());
    forwards_.assign(stages, 0);
    inputs_.assign(stages, 0);
    weights_.assign(stages, 0);
    deferred_.resize(stages);
    queues_.assign(static_cast<size_t>(problem.ranks) * static_cast<size_t>(problem.ranks), 0);
    place_.assign(static_cast<size_t>(problem.ranks), 0);
    now_ = std::vector<int64_t>(static_cast<size_t>(problem.ranks), 0);
    times_.starts.resize(static_cast<size_t>(problem.ranks));
    times_.ends = times_.starts;
  }

  Times Run() && {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < problem_.ranks; ++r) {
        while (Advance(r)) moved = true;
      }
    }
    for (size_t r = 0; r < words_.size(); ++r) {
      if (place_[r] != words_[r].size() * static_cast<size_t>(steps_)) return {};
      const auto& ends = times_.ends[r];
      if (ends.empty()) continue;
      times_.makespan = std::max(times_.makespan, ends.back());
      times_.span = std::max(times_.span, ends.back() - times_.starts[r].front());
    }
    return std::move(times_);
  }

 private:
  // The earliest start of the letter by its needs; kNotThere if a need has not arrived.
  int64_t ReadyAt(Letter letter) const {
    const auto s = static_cast<size_t>(StageOf(letter));
    switch (KindOf(letter)) {
      case ActionKind::kForward:
        return forwards_[s] < activations_[s].size() ? activations_[s][forwards_[s]] : kNotThere;
      case ActionKind::kWeightGradient:
        return weights_[s] < deferred_[s].size() ? 0 : kNotThere;
      default:
        return inputs_[s] < forwards_[s] ? gradients_[s][inputs_[s]] : kNotThere;
    }
  }

  // The time of the letter, whose needs have arrived, for its microbatch.
  int64_t TimeAlone(Letter letter) const {
    const auto s = static_cast<size_t>(StageOf(letter));
    const ActionKind kind = KindOf(letter);
    const size_t k = kind == ActionKind::kForward          ? forwards_[s]
                     : kind == ActionKind::kWeightGradient ? deferred_[s][weights_[s]]
                                                           : inputs_[s];
    return problem_.stages[s].TimeOf(kind, OfStep(s, k));
  }

  // The number of a microbatch in its step.
  size_t OfStep(size_t stage, size_t k) const {
    return k % static_cast<size_t>(problem_.stages[stage].microbatches);
  }

  bool Advance(int r) {
    const auto& word = words_[static_cast<size_t>(r)];
    size_t& place = place_[static_cast<size_t>(r)];
    if (word.empty() || place == word.size() * static_cast<size_t>(steps_)) return false;
    const Group group = word[place % word.size()];
    int64_t start = ReadyAt(group.first);
    if (start == kNotThere) return false;
    if (group.is_pair()) {
      const int64_t other = ReadyAt(group.second);
      if (other == kNotThere) return false;
      start = std::max(start, other);
    }
    start = std::max(start, now_[static_cast<size_t>(r)]);
    const int64_t time = group.is_pair() ? problem_.TimeOf(group) : TimeAlone(group.first);
    if (time < 0) return false;
    const int64_t end = start + time;
    Give(group.first, end);
    if (group.is_pair()) Give(group.second, end);
    now_[static_cast<size_t>(r)] = end;
    times_.starts[static_cast<size_t>(r)].push_back(start);
    times_.ends[static_cast<size_t>(r)].push_back(end);
    ++place;
    return true;
  }

  void Give(Letter letter, int64_t end) {
    const int s = StageOf(letter);
    const auto index = static_cast<size_t>(s);
    const StageWork& stage = problem_.stages[index];
    const ActionKind kind = KindOf(letter);
    if (kind == ActionKind::kForward) {
      const size_t k = forwards_[index]++;
      if (stage.next < 0) return;
      Send(s, stage.next, stage.ActivationOf(OfStep(index, k)), end, &activations_, k);
    } else if (kind == ActionKind::kWeightGradient) {
      ++weights_[index];
    } else {
      const size_t k = inputs_[index]++;
      if (kind == ActionKind::kInputGradient) deferred_[index].push_back(k);
      if (stage.previous < 0) return;
      Send(s, stage.previous, stage.GradientOf(OfStep(index, k)), end, &gradients_, k);
    }
  }

  void Send(int from, int to, const MessageTime& message, int64_t end,
            std::vector<std::vector<int64_t>>* arrivals, size_t k) {
    const int a = problem_.stages[static_cast<size_t>(from)].rank;
    const int b = problem_.stages[static_cast<size_t>(to)].rank;
    if (a != b) {
      int64_t& queue = queues_[static_cast<size_t>(a) * words_.size() + static_cast<size_t>(b)];
      queue = std::max(queue, end) + message.transfer;
      end = queue + message.latency;
    }
    (*arrivals)[static_cast<size_t>(to)][k] = end;
  }

  const Problem& problem_;
  const Words& words_;
  const int steps_;
  std::vector<std::vector<int64_t>> activations_;  // by stage and microbatch: arrival times
  std::vector<std::vector<int64_t>> gradients_;
  std::vector<size_t> forwards_, inputs_, weights_;  // by stage: counts done
  std::vector<std::vector<size_t>> deferred_;        // by stage: the microbatches of its I
  std::vector<int64_t> queues_;  // by sender and receiver: when the last transfer ends
  std::vector<size_t> place_;    // by rank
  std::vector<int64_t> now_;     // by rank
  Times times_;
};

bool MayStandOn(const Problem& problem, int rank, Letter letter) {
  const int s = StageOf(letter);
  if (s >= problem.stage_count() || problem.stages[static_cast<size_t>(s)].rank != rank) {
    return false;
  }
  if (KindOf(letter) == ActionKind::kForward) return true;
  return KindOf(letter) == ActionKind::kBackward ? problem.whole : problem.split;
}

bool MayStandOn(const Problem& problem, int rank, Group group) {
  if (!MayStandOn(problem, rank, group.first)) return false;
  if (group.is_pair()) {
    if (KindOf(group.first) != ActionKind::kForward || !IsInputSide(KindOf(group.second)) ||
        !MayStandOn(problem, rank, group.second)) {
      return false;
    }
  }
  return problem.TimeOf(group) >= 0;
}

}  // namespace

const char* NameOf(Objective objective) {
  switch (objective) {
    case Objective::kMakespan:
      return "makespan";
    case Objective::kSpan:
      return "span";
    case Objective::kPeriod:
      return "period";
  }
  return "";
}

std::optional<Objective> ObjectiveOf(absl::string_view name) {
  for (const Objective objective : {Objective::kMakespan, Objective::kSpan, Objective::kPeriod}) {
    if (name == NameOf(objective)) return objective;
  }
  return std::nullopt;
}

void StageWork::SetEach(std::vector<MicrobatchWork> microbatches) {
  each = std::move(microbatches);
  if (each.empty()) return;
  time = each[0].time;
  activation = each[0].activation;
  gradient = each[0].gradient;
  const auto take_less = [](const MessageTime& one, MessageTime* least) {
    least->latency = std::min(least->latency, one.latency);
    least->transfer = std::min(least->transfer, one.transfer);
  };
  for (const MicrobatchWork& one : each) {
    for (size_t k = 0; k < time.size(); ++k) time[k] = std::min(time[k], one.time[k]);
    take_less(one.activation, &activation);
    take_less(one.gradient, &gradient);
  }
}

int64_t Problem::TimeOf(Group group) const {
  const int a = StageOf(group.first);
  if (!group.is_pair()) {
    return stages[static_cast<size_t>(a)].time[Index(KindOf(group.first))];
  }
  const std::vector<int64_t>& pairs =
      KindOf(group.second) == ActionKind::kBackward ? whole_pairs : input_pairs;
  if (pairs.empty()) return -1;
  return pairs[static_cast<size_t>(a) * stages.size() + static_cast<size_t>(StageOf(group.second))];
}

std::vector<int64_t> PairTimes(const Problem& problem,
                               const std::function<int64_t(int a, int b)>& time) {
  const int count = problem.stage_count();
  std::vector<int64_t> times(static_cast<size_t>(count) * static_cast<size_t>(count), -1);
  for (int a = 0; a < count; ++a) {
    for (int b = 0; b < count; ++b) {
      if (problem.stages[a].rank == problem.stages[b].rank) times[a * count + b] = time(a, b);
    }
  }
  return times;
}

int64_t LettersOf(const Problem& problem) {
  int64_t letters = 0;
  for (const StageWork& stage : problem.stages) {
    letters += static_cast<int64_t>(stage.microbatches) * (problem.split ? 3 : 2);
  }
  return letters;
}

int DepthOf(const Problem& problem, int stage) {
  int depth = 0;
  while ((stage = problem.stages[static_cast<size_t>(stage)].previous) >= 0) ++depth;
  return depth;
}

std::string WhyTooLarge(int64_t stages, int64_t letters) {
  constexpr int64_t kMostSearchedStages = 4096, kMostSearchedLetters = 10'000'000;
  if (stages > kMostSearchedStages) {
    return absl::StrCat("a search orders at most ", kMostSearchedStages, " stages, and there are ",
                        stages);
  }
  if (letters <= kMostSearchedLetters) return "";
  return absl::StrCat("a search orders at most ", kMostSearchedLetters, " actions, and there are ",
                      letters, "; search for fewer microbatches: such an order repeats itself");
}

int64_t LeastTimeOf(const Problem& problem, const std::array<int64_t, 4>& time) {
  const int64_t parted = time[kInputAt] + time[kWeightAt];
  return time[kForwardAt] + (!problem.split   ? time[kWholeAt]
                             : !problem.whole ? parted
                                              : std::min(parted, time[kWholeAt]));
}

int64_t LeastWork(const Problem& problem, int rank) {
  // Each pair consists of an F and a B or I, so every F saves at most the largest difference.
  int64_t work = 0, most_saved = 0, forwards = 0;
  std::vector<int> stages;
  for (int s = 0; s < problem.stage_count(); ++s) {
    const StageWork& stage = problem.stages[static_cast<size_t>(s)];
    if (stage.rank != rank) continue;
    stages.push_back(s);
    if (stage.each.empty()) work += stage.microbatches * LeastTimeOf(problem, stage.time);
    for (const MicrobatchWork& one : stage.each) work += LeastTimeOf(problem, one.time);
    forwards += stage.microbatches;
  }
  for (const int a : stages) {
    for (const int b : stages) {
      for (const ActionKind kind : {ActionKind::kBackward, ActionKind::kInputGradient}) {
        const int64_t time = problem.TimeOf({LetterOf(ActionKind::kForward, a), LetterOf(kind, b)});
        if (time < 0) continue;
        // Compared with the cheapest way to do the two apart.
        const int64_t apart = problem.stages[static_cast<size_t>(a)].time[kForwardAt] +
                              problem.stages[static_cast<size_t>(b)].time[Index(kind)];
        most_saved = std::max(most_saved, apart - time);
      }
    }
  }
  return std::max<int64_t>(0, work - forwards * most_saved);
}

Times TimesOf(const Problem& problem, const Words& words, int steps) {
  return Walk(problem, words, steps).Run();
}

int64_t ValueOf(const Problem& problem, const Words& words) {
  if (problem.objective != Objective::kPeriod) {
    const Times times = TimesOf(problem, words);
    if (!times.whole()) return kNoLimit;
    return problem.objective == Objective::kSpan ? times.span : times.makespan;
  }
  constexpr size_t kSteps = 4;  // the first two are warm-up
  const Times times = TimesOf(problem, words, kSteps);
  if (!times.whole()) return kNoLimit;
  int64_t longest = 0;
  for (size_t r = 0; r < words.size(); ++r) {
    const size_t length = words[r].size();
    if (length == 0) continue;
    const std::vector<int64_t>& ends = times.ends[r];
    longest = std::max(longest, ends[kSteps * length - 1] - ends[kSteps / 2 * length - 1]);
  }
  return (longest + 1) / 2;
}

bool IsComplete(const Problem& problem, const Words& words) {
  if (words.size() != static_cast<size_t>(problem.ranks)) return false;
  std::vector<std::array<int, 4>> done(problem.stages.size());
  for (int r = 0; r < problem.ranks; ++r) {
    int64_t held = 0;
    for (const Group group : words[static_cast<size_t>(r)]) {
      if (!MayStandOn(problem, r, group)) return false;
      for (const Letter letter : {group.first, group.second}) {
        if (letter == kNoLetter) continue;
        const auto s = static_cast<size_t>(StageOf(letter));
        const ActionKind kind = KindOf(letter);
        auto& [forward, whole, input, weight] = done[s];
        if (IsInputSide(kind) && whole + input >= forward) return false;
        if (kind == ActionKind::kWeightGradient && weight >= input) return false;
        ++done[s][Index(kind)];
      }
      const auto [during, after] = MemoryOf(problem, group);
      if (held + during > problem.capacity[static_cast<size_t>(r)]) return false;
      held += after;
    }
  }
  for (size_t s = 0; s < problem.stages.size(); ++s) {
    const auto& [forward, whole, input, weight] = done[s];
    const int all = problem.stages[s].microbatches;
    if (forward != all || whole + input != all || weight != input) return false;
  }
  return true;
}

}  // namespace stringline::search
