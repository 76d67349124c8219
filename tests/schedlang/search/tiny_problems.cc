#include "tests/schedlang/search/tiny_problems.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/search/lower_bound.h"

namespace stringline::search {
namespace {

int64_t Upto(std::mt19937_64& random, int64_t most) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1));
}

std::vector<Group> GroupsOf(const Problem& problem, int rank) {
  std::vector<Group> groups;
  const int stages = problem.stage_count();
  for (int s = 0; s < stages; ++s) {
    if (problem.stages[s].rank != rank) continue;
    groups.push_back({LetterOf(ActionKind::kForward, s)});
    if (problem.whole) groups.push_back({LetterOf(ActionKind::kBackward, s)});
    if (!problem.split) continue;
    groups.push_back({LetterOf(ActionKind::kInputGradient, s)});
    groups.push_back({LetterOf(ActionKind::kWeightGradient, s)});
  }
  for (int a = 0; a < stages; ++a) {
    for (int b = 0; b < stages; ++b) {
      if (problem.stages[a].rank != rank || problem.stages[b].rank != rank) continue;
      for (const ActionKind back : {ActionKind::kBackward, ActionKind::kInputGradient}) {
        const Group pair{LetterOf(ActionKind::kForward, a), LetterOf(back, b)};
        if (!(back == ActionKind::kBackward ? problem.whole : problem.split)) continue;
        if (problem.TimeOf(pair) >= 0) groups.push_back(pair);
      }
    }
  }
  return groups;
}

// The actions that a rank has done, letter by letter.
struct Done {
  std::vector<std::array<int, 4>> letters;
  int64_t held = 0;
};

bool Fits(const Problem& problem, int rank, Group group, const Done& done) {
  int64_t during = 0;
  for (const Letter letter : {group.first, group.second}) {
    if (letter == kNoLetter) continue;
    const StageWork& stage = problem.stages[StageOf(letter)];
    const auto& [forward, whole, input, weight] = done.letters[StageOf(letter)];
    switch (KindOf(letter)) {
      case ActionKind::kForward:
        if (forward == stage.microbatches) return false;
        break;
      case ActionKind::kWeightGradient:
        if (weight == input) return false;
        break;
      default:
        if (whole + input == forward) return false;
    }
    during += stage.during[static_cast<size_t>(KindOf(letter))];
  }
  return done.held + during <= problem.capacity[rank];
}

void Do(const Problem& problem, Group group, int times, Done* done) {
  for (const Letter letter : {group.first, group.second}) {
    if (letter == kNoLetter) continue;
    const auto kind = static_cast<size_t>(KindOf(letter));
    done->letters[StageOf(letter)][kind] += times;
    done->held += times * problem.stages[StageOf(letter)].after[kind];
  }
}

bool IsAll(const Problem& problem, int rank, const Done& done) {
  for (int s = 0; s < problem.stage_count(); ++s) {
    const auto& [forward, whole, input, weight] = done.letters[s];
    const int all = problem.stages[s].microbatches;
    if (problem.stages[s].rank != rank) continue;
    if (forward != all || whole + input != all || weight != input) return false;
  }
  return true;
}

// Adds every word of the rank; false when the rank has more than `most` words.
bool AddWords(const Problem& problem, int rank, const std::vector<Group>& groups, int64_t most,
              Done* done, std::vector<Group>* word, std::vector<std::vector<Group>>* words) {
  if (IsAll(problem, rank, *done)) {
    words->push_back(*word);
    return static_cast<int64_t>(words->size()) <= most;
  }
  for (const Group group : groups) {
    if (!Fits(problem, rank, group, *done)) continue;
    Do(problem, group, 1, done);
    word->push_back(group);
    if (!AddWords(problem, rank, groups, most, done, word, words)) return false;
    word->pop_back();
    Do(problem, group, -1, done);
  }
  return true;
}

std::vector<std::vector<int>> Placement(int ranks, std::mt19937_64& random) {
  std::vector<int> line, back, v;
  for (int r = 0; r < ranks; ++r) line.push_back(r);
  back.assign(line.rbegin(), line.rend());
  v = line;
  switch (random() % 6) {
    case 0:  // V
      v.insert(v.end(), back.begin(), back.end());
      return {v};
    case 1:  // loop
      v.insert(v.end(), line.begin(), line.end());
      return {v};
    case 2:
      return {line, back};
    default:
      return {line};
  }
}

StageWork RandomCosts(std::mt19937_64& random, bool bytes) {
  StageWork work = Costs(Upto(random, 3), Upto(random, 4), Upto(random, 3), Upto(random, 3));
  work.activation = {Upto(random, 3) / 2, Upto(random, 3) / 2};
  work.gradient = {Upto(random, 3) / 2, Upto(random, 3) / 2};
  if (bytes) {
    const int64_t for_input = Upto(random, 2), for_weight = Upto(random, 2);
    const int64_t stash = Upto(random, 2), message = Upto(random, 1);
    const int64_t saved = for_input + for_weight;
    work.during = {saved + message, message, stash + message, 0};
    work.after = {saved, -saved, stash - for_input, -stash - for_weight};
  }
  return work;
}

}  // namespace

StageWork Costs(int64_t forward, int64_t whole, int64_t input, int64_t weight, int64_t latency) {
  StageWork work;
  work.time = {forward, whole, input, weight};
  work.activation.latency = work.gradient.latency = latency;
  work.during = {1, 0, 0, 0};
  work.after = {1, -1, 0, -1};
  return work;
}

void AddPipe(const std::vector<int>& ranks, int microbatches, const StageWork& costs,
             Problem* problem) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    StageWork work = costs;
    const int s = problem->stage_count();
    work.rank = ranks[i];
    work.previous = i == 0 ? -1 : s - 1;
    work.next = i + 1 == ranks.size() ? -1 : s + 1;
    work.microbatches = microbatches;
    problem->stages.push_back(work);
    problem->ranks = std::max(problem->ranks, ranks[i] + 1);
  }
  problem->capacity.assign(problem->ranks, kNoLimit);
}

Problem OnRanks(const std::vector<int>& ranks, int microbatches, const StageWork& costs) {
  Problem problem;
  AddPipe(ranks, microbatches, costs, &problem);
  return problem;
}

Problem RandomProblem(std::mt19937_64& random, int most_ranks, int most_microbatches) {
  Problem problem;
  const int ranks = 1 + static_cast<int>(Upto(random, most_ranks - 1));
  for (const std::vector<int>& pipe : Placement(ranks, random)) {
    AddPipe(pipe, 1 + static_cast<int>(Upto(random, most_microbatches - 1)), {}, &problem);
  }
  const bool bytes = random() % 3 == 0, equal = random() % 3 == 0;
  StageWork costs = RandomCosts(random, bytes);
  for (StageWork& stage : problem.stages) {
    if (!equal) costs = RandomCosts(random, bytes);
    stage.time = costs.time;
    stage.activation = costs.activation;
    stage.gradient = costs.gradient;
    stage.during = costs.during;
    stage.after = costs.after;
  }
  const uint64_t letters = random() % 6;
  problem.whole = letters < 3;
  problem.split = letters != 0;
  const int most_held = ranks == 1 ? 4 : 5;
  for (int64_t& capacity : problem.capacity) {
    if (random() % 3 != 0) capacity = (bytes ? 3 : 1) * (1 + Upto(random, most_held));
  }
  if (random() % 4 == 0) {
    const int stages = problem.stage_count();
    for (std::vector<int64_t>* pairs : {&problem.whole_pairs, &problem.input_pairs}) {
      for (int i = 0; i < stages * stages; ++i) {
        const bool together = problem.stages[i / stages].rank == problem.stages[i % stages].rank;
        pairs->push_back(together ? Upto(random, 6) - 1 : -1);
      }
    }
  }
  problem.objective = static_cast<Objective>(random() % 3);
  return problem;
}

Problem BindingProblem(std::mt19937_64& random, int most_ranks, int most_microbatches) {
  Problem problem = RandomProblem(random, most_ranks, most_microbatches);
  const uint64_t binds = random() % 3;
  if (binds != 0) {
    for (StageWork& stage : problem.stages) {
      stage.activation = {Upto(random, 9), Upto(random, 9)};
      stage.gradient = {Upto(random, 9), Upto(random, 9)};
    }
  }
  if (binds == 1) return problem;
  for (int r = 0; r < problem.ranks; ++r) {
    problem.capacity[r] = LeastCapacity(problem, r) + Upto(random, 1);
  }
  return problem;
}

Problem WithUnequalMicrobatches(Problem problem, std::mt19937_64& random) {
  problem.whole_pairs.clear();
  problem.input_pairs.clear();
  for (StageWork& stage : problem.stages) {
    std::vector<MicrobatchWork> each;
    for (int m = 0; m < stage.microbatches; ++m) {
      MicrobatchWork one{stage.time, stage.activation, stage.gradient};
      for (int64_t& time : one.time) time += Upto(random, 3);
      one.activation.transfer += Upto(random, 2);
      one.gradient.transfer += Upto(random, 2);
      each.push_back(one);
    }
    stage.SetEach(std::move(each));
  }
  return problem;
}

std::string Print(const Problem& problem) {
  std::string text = absl::StrCat(NameOf(problem.objective), problem.whole ? " B" : "",
                                  problem.split ? " I W" : "", ", ranks that hold ",
                                  absl::StrJoin(problem.capacity, " "), "\n");
  for (const StageWork& stage : problem.stages) {
    absl::StrAppend(&text, stage.previous < 0 ? "pipe\n" : "", "  rank ", stage.rank, " M ",
                    stage.microbatches, " F B I W ", absl::StrJoin(stage.time, " "), " messages ",
                    stage.activation.latency, "+", stage.activation.transfer, " ",
                    stage.gradient.latency, "+", stage.gradient.transfer, " during ",
                    absl::StrJoin(stage.during, " "), " after ", absl::StrJoin(stage.after, " "),
                    "\n");
    for (const MicrobatchWork& one : stage.each) {
      absl::StrAppend(&text, "    F B I W ", absl::StrJoin(one.time, " "), " transfers ",
                      one.activation.transfer, " ", one.gradient.transfer, "\n");
    }
  }
  if (!problem.whole_pairs.empty()) {
    absl::StrAppend(&text, "whole pairs ", absl::StrJoin(problem.whole_pairs, " "),
                    "\ninput pairs ", absl::StrJoin(problem.input_pairs, " "), "\n");
  }
  return text;
}

Words RandomWords(const Problem& problem, std::mt19937_64& random) {
  Words words(problem.ranks);
  Done done;
  done.letters.resize(problem.stages.size());
  for (;;) {
    std::vector<std::pair<int, Group>> can;
    bool is_all = true;
    for (int r = 0; r < problem.ranks; ++r) {
      Done own = done;  // only the held values of the rank count
      own.held = 0;
      for (int s = 0; s < problem.stage_count(); ++s) {
        if (problem.stages[s].rank != r) continue;
        for (size_t kind = 0; kind < 4; ++kind) {
          own.held += done.letters[s][kind] * problem.stages[s].after[kind];
        }
      }
      is_all = is_all && IsAll(problem, r, done);
      for (const Group group : GroupsOf(problem, r)) {
        if (!Fits(problem, r, group, own)) continue;
        bool is_there = true;
        for (const Letter letter : {group.first, group.second}) {
          if (letter == kNoLetter || KindOf(letter) == ActionKind::kWeightGradient) continue;
          const int s = StageOf(letter);
          const StageWork& stage = problem.stages[s];
          const auto& mine = done.letters[s];
          if (KindOf(letter) == ActionKind::kForward) {
            is_there =
                is_there && (stage.previous < 0 || done.letters[stage.previous][0] > mine[0]);
          } else if (stage.next >= 0) {
            const auto& next = done.letters[stage.next];
            is_there = is_there && next[1] + next[2] > mine[1] + mine[2];
          }
        }
        if (is_there) can.emplace_back(r, group);
      }
    }
    if (is_all) return words;
    if (can.empty()) return {};
    const auto& [rank, group] = can[random() % can.size()];
    Do(problem, group, 1, &done);
    words[rank].push_back(group);
  }
}

std::optional<int64_t> BestOfAll(const Problem& problem, int64_t most) {
  std::vector<std::vector<std::vector<Group>>> choices(problem.ranks);
  int64_t product = 1;
  for (int r = 0; r < problem.ranks; ++r) {
    Done done;
    done.letters.resize(problem.stages.size());
    std::vector<Group> word;
    if (!AddWords(problem, r, GroupsOf(problem, r), most, &done, &word, &choices[r])) return {};
    product *= static_cast<int64_t>(choices[r].size());
    if (product > most) return {};
  }
  if (product == 0) return kNoLimit;
  int64_t best = kNoLimit;
  Words words(problem.ranks);
  for (int64_t i = 0; i < product; ++i) {
    int64_t rest = i;
    for (int r = 0; r < problem.ranks; ++r) {
      const auto size = static_cast<int64_t>(choices[r].size());
      words[r] = choices[r][static_cast<size_t>(rest % size)];
      rest /= size;
    }
    best = std::min(best, ValueOf(problem, words));
  }
  return best;
}

}  // namespace stringline::search
