// Ranks act in the order of time, so all arrivals up to now are known. The next action of a rank is
// chosen again whenever a message reaches the rank; the rank whose action starts first goes on.
#include "schedlang/search/list_orders.h"

#include <algorithm>
#include <utility>

#include "schedlang/search/mirrored.h"

namespace stringline::search {
namespace {

class ListRun {
 public:
  ListRun(const Problem& problem, const Policy& policy)
      : problem_(problem), policy_(policy), ranks_(static_cast<size_t>(problem.ranks)) {
    stages_.resize(problem.stages.size());
    for (size_t s = 0; s < stages_.size(); ++s) {
      const StageWork& work = problem.stages[s];
      StageState& stage = stages_[s];
      const auto count = static_cast<size_t>(work.microbatches);
      stage.activations.assign(count, kNotThere);
      stage.gradients.assign(count, kNotThere);
      if (work.previous < 0) {
        for (size_t k = 0; k < count; ++k) {
          const auto behind = static_cast<int64_t>(k) - policy.burst;
          stage.activations[k] = behind < 0 ? 0 : (behind + 1) * policy.interval;
        }
      }
      RankState& rank = ranks_[static_cast<size_t>(work.rank)];
      rank.stages.push_back(static_cast<int>(s));
      rank.left += 2 * work.microbatches;
      for (const ActionKind kind : {ActionKind::kBackward, ActionKind::kInputGradient}) {
        rank.stash = std::max(rank.stash, work.during[Index(kind)]);
      }
    }
    std::vector<int> depth;
    for (int s = 0; s < problem.stage_count(); ++s) depth.push_back(DepthOf(problem, s));
    for (size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].capacity = problem.capacity[r];
      // Stages in the order in which a microbatch reaches them.
      std::sort(ranks_[r].stages.begin(), ranks_[r].stages.end(), [&depth](int a, int b) {
        return depth[a] != depth[b] ? depth[a] < depth[b] : a < b;
      });
    }
    queues_.assign(ranks_.size() * ranks_.size(), 0);
    words_.resize(ranks_.size());
  }

  // F, and B or I, of every rank in this order.
  void Follow(std::vector<std::vector<Letter>> sequences) { sequences_ = std::move(sequences); }

  Words Run() && {
    for (size_t r = 0; r < ranks_.size(); ++r) Choose(static_cast<int>(r));
    SparseStop stop(problem_.stop, 1024);
    while (true) {
      if (stop.IsWished()) return {};
      int first = -1;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        if (ranks_[r].choice.first == kNoLetter) continue;
        if (first < 0 || ranks_[r].start < ranks_[static_cast<size_t>(first)].start) {
          first = static_cast<int>(r);
        }
      }
      if (first < 0) break;
      Perform(first);
    }
    for (const RankState& rank : ranks_) {
      if (rank.left > 0) return {};
    }
    return std::move(words_);
  }

 private:
  struct StageState {
    std::vector<int64_t> activations, gradients;  // by microbatch: arrival times
    int32_t forwards = 0, inputs = 0, deferred = 0;
    int64_t first_end = 0;  // its first forward's
  };
  struct RankState {
    std::vector<int> stages;
    int64_t now = 0;
    int64_t held = 0;
    int64_t capacity = 0;
    int64_t stash = 0;  // the most that a running I or B adds to the held memory
    int64_t left = 0;   // input and weight sides still to do
    Group choice;       // its next group, from `start` on; none: it waits
    int64_t start = 0;
    size_t place = 0;  // in its sequence
  };
  struct Candidate {
    Letter letter = kNoLetter;
    int64_t start = 0;
    int64_t score = 0;
  };

  // True if behind an F of the rank's `index`-th stage something can always be finished.
  bool LeavesRoom(const RankState& rank, size_t index) const {
    const StageWork& work = problem_.stages[static_cast<size_t>(rank.stages[index])];
    if (rank.held + work.during[kForwardAt] > rank.capacity) return false;
    // The furthest microbatch under way needs these too; with several pipes each of them.
    int64_t free = rank.capacity - rank.held - work.after[kForwardAt] - rank.stash;
    for (size_t i = rank.stages.size(); i-- > 0;) {
      const StageState& stage = stages_[static_cast<size_t>(rank.stages[i])];
      if (i == index || stage.inputs < stage.forwards || stage.deferred > 0) return free >= 0;
      free -= problem_.stages[static_cast<size_t>(rank.stages[i])].during[kForwardAt];
    }
    return free >= 0;
  }

  void Consider(const Candidate& candidate, Candidate* best) const {
    if (best->letter == kNoLetter || candidate.score < best->score) *best = candidate;
  }

  // The next letter of the rank's sequence, if it has one and can be done; `*blocked`: an F that
  // has arrived has no room.
  Candidate NextInSequence(int r, bool* blocked) const {
    const RankState& rank = ranks_[static_cast<size_t>(r)];
    const std::vector<Letter>& sequence = sequences_[static_cast<size_t>(r)];
    if (rank.place == sequence.size()) return {};
    const Letter letter = sequence[rank.place];
    const StageState& stage = stages_[static_cast<size_t>(StageOf(letter))];
    const bool is_forward = KindOf(letter) == ActionKind::kForward;
    const int64_t there = is_forward ? stage.activations[static_cast<size_t>(stage.forwards)]
                                     : stage.gradients[static_cast<size_t>(stage.inputs)];
    if (there == kNotThere) return {};
    if (!HasRoom(rank, letter)) {
      *blocked = true;
      return {};
    }
    const int64_t start = std::max(rank.now, there);
    return {letter, start, start + policy_.delay[letter]};
  }

  // Chooses the rank's next group by the arrivals known now, in the order of its sequence.
  void ChooseInSequence(int r) {
    RankState& rank = ranks_[static_cast<size_t>(r)];
    bool blocked = false;
    Candidate best = NextInSequence(r, &blocked);
    ConsiderWeights(rank, blocked, &best);
    rank.choice = {best.letter};
    rank.start = best.start;
  }

  // The rank's W, of its furthest stage first, with their delay or at once.
  void ConsiderWeights(const RankState& rank, bool at_once, Candidate* best) const {
    for (auto it = rank.stages.rbegin(); it != rank.stages.rend(); ++it) {
      const int s = *it;
      if (stages_[static_cast<size_t>(s)].deferred == 0) continue;
      const Letter letter = LetterOf(ActionKind::kWeightGradient, s);
      Consider({letter, rank.now, rank.now + (at_once ? 0 : policy_.delay[letter])}, best);
    }
  }

  // Chooses the rank's next group by the arrivals known now.
  void Choose(int r) {
    if (!sequences_.empty()) return ChooseInSequence(r);
    RankState& rank = ranks_[static_cast<size_t>(r)];
    Candidate best, best_forward, best_input;
    bool blocked = false;  // an F that has arrived has no room
    const ActionKind input_kind = BackOf(problem_, policy_);
    for (size_t i = rank.stages.size(); i-- > 0;) {  // among equals the furthest on its way
      const int s = rank.stages[i];
      const StageState& stage = stages_[static_cast<size_t>(s)];
      const StageWork& work = problem_.stages[static_cast<size_t>(s)];
      if (stage.inputs < stage.forwards) {
        const int64_t there = stage.gradients[static_cast<size_t>(stage.inputs)];
        const Letter letter = LetterOf(input_kind, s);
        if (there != kNotThere && HasRoom(rank, letter)) {
          const int64_t start = std::max(rank.now, there);
          Consider({letter, start, start + policy_.delay[letter]}, &best_input);
        }
      }
      if (stage.forwards == work.microbatches) continue;
      const int64_t there = stage.activations[static_cast<size_t>(stage.forwards)];
      if (there == kNotThere) continue;
      const auto index = static_cast<size_t>(s);
      if (stage.forwards - stage.inputs >= policy_.hold[index]) continue;
      if (stage.inputs == 0 && stage.forwards >= policy_.warm_up[index]) continue;
      if (!LeavesRoom(rank, i)) {
        blocked = blocked || there <= rank.now;
        continue;
      }
      const Letter letter = LetterOf(ActionKind::kForward, s);
      const int64_t start = std::max(rank.now, there);
      Consider({letter, start, start + policy_.delay[letter]}, &best_forward);
    }
    if (best_input.letter != kNoLetter) Consider(best_input, &best);
    if (best_forward.letter != kNoLetter) Consider(best_forward, &best);
    ConsiderWeights(rank, blocked, &best);
    rank.choice = {best.letter};
    rank.start = best.start;
    if (best.letter == kNoLetter || !policy_.pairs) return;
    if (best_forward.letter == kNoLetter || best_input.letter == kNoLetter) return;
    if (KindOf(best.letter) == ActionKind::kWeightGradient) return;
    const Group pair{best_forward.letter, best_input.letter};
    const int64_t start = std::max(best_forward.start, best_input.start);
    const int64_t time = problem_.TimeOf(pair);
    if (time < 0 || !PairHasRoom(rank, pair)) return;
    // Pair only if the pair ends no later than the two in sequence.
    const Group other{best.letter == pair.first ? pair.second : pair.first};
    const int64_t apart =
        std::max(rank.start + problem_.TimeOf(rank.choice), start) + problem_.TimeOf(other);
    if (start + time > apart) return;
    rank.choice = pair;
    rank.start = start;
  }

  bool HasRoom(const RankState& rank, Letter letter) const {
    const StageWork& work = problem_.stages[static_cast<size_t>(StageOf(letter))];
    return rank.held + work.during[Index(KindOf(letter))] <= rank.capacity;
  }
  bool PairHasRoom(const RankState& rank, Group pair) const {
    return rank.held + MemoryOf(problem_, pair).during <= rank.capacity;
  }

  void Perform(int r) {
    RankState& rank = ranks_[static_cast<size_t>(r)];
    const Group group = rank.choice;
    const int64_t end = rank.start + (group.is_pair() ? problem_.TimeOf(group) : TimeAlone(group));
    words_[static_cast<size_t>(r)].push_back(group);
    rank.now = end;
    if (KindOf(group.first) != ActionKind::kWeightGradient) ++rank.place;
    Give(group.first, end, &rank);
    if (group.is_pair()) Give(group.second, end, &rank);
    Choose(r);
  }

  // The time of the letter for its microbatch; a W is taken for the microbatch of its own number.
  int64_t TimeAlone(Group group) const {
    const int s = StageOf(group.first);
    const StageState& stage = stages_[static_cast<size_t>(s)];
    const ActionKind kind = KindOf(group.first);
    const int32_t k = kind == ActionKind::kForward          ? stage.forwards
                      : kind == ActionKind::kWeightGradient ? stage.inputs - stage.deferred
                                                            : stage.inputs;
    return problem_.stages[static_cast<size_t>(s)].TimeOf(kind, static_cast<size_t>(k));
  }

  void Give(Letter letter, int64_t end, RankState* rank) {
    const int s = StageOf(letter);
    const ActionKind kind = KindOf(letter);
    const StageWork& work = problem_.stages[static_cast<size_t>(s)];
    StageState& stage = stages_[static_cast<size_t>(s)];
    rank->held += work.after[Index(kind)];
    if (kind == ActionKind::kForward) {
      const auto k = static_cast<size_t>(stage.forwards++);
      if (work.next < 0) stage.gradients[k] = TurnOf(s, k, end);
      if (work.next >= 0) Send(s, work.next, work.ActivationOf(k), end, true, k);
      return;
    }
    --rank->left;
    if (kind == ActionKind::kWeightGradient) {
      --stage.deferred;
      return;
    }
    const auto k = static_cast<size_t>(stage.inputs++);
    if (kind == ActionKind::kInputGradient) ++stage.deferred;
    if (kind == ActionKind::kBackward) --rank->left;
    if (work.previous >= 0) Send(s, work.previous, work.GradientOf(k), end, false, k);
  }

  // The earliest start of the way back of a microbatch whose last forward ends at `end`.
  int64_t TurnOf(int s, size_t k, int64_t end) {
    StageState& stage = stages_[static_cast<size_t>(s)];
    if (k == 0) stage.first_end = end;
    const int64_t behind = static_cast<int64_t>(k) - policy_.turn_burst;
    if (behind < 0) return end;
    return std::max(end, stage.first_end + (behind + 1) * policy_.turn_interval);
  }

  void Send(int from, int to, const MessageTime& message, int64_t end, bool activation, size_t k) {
    const int a = problem_.stages[static_cast<size_t>(from)].rank;
    const int b = problem_.stages[static_cast<size_t>(to)].rank;
    if (a != b) {
      int64_t& queue = queues_[static_cast<size_t>(a) * ranks_.size() + static_cast<size_t>(b)];
      queue = std::max(queue, end) + message.transfer;
      end = queue + message.latency;
    }
    StageState& stage = stages_[static_cast<size_t>(to)];
    (activation ? stage.activations : stage.gradients)[k] = end;
    if (a != b) Choose(b);
  }

  const Problem& problem_;
  const Policy& policy_;
  std::vector<RankState> ranks_;
  std::vector<StageState> stages_;
  std::vector<int64_t> queues_;
  std::vector<std::vector<Letter>> sequences_;  // by rank; empty: the rule chooses freely
  Words words_;
};

std::vector<std::vector<Letter>> LettersIn(const Words& words) {
  std::vector<std::vector<Letter>> letters(words.size());
  for (size_t r = 0; r < words.size(); ++r) {
    for (const Group group : words[r]) letters[r].push_back(group.first);
  }
  return letters;
}

}  // namespace

ActionKind BackOf(const Problem& problem, const Policy& policy) {
  if (!problem.split) return ActionKind::kBackward;
  return problem.whole && policy.whole ? ActionKind::kBackward : ActionKind::kInputGradient;
}

Words ListOrders(const Problem& problem, const Policy& policy) {
  const ActionKind back = BackOf(problem, policy);
  ListRun run(problem, policy);
  if (policy.mirrored) {
    const Problem mirrored = Mirrored(problem, back);
    Policy turned = policy;
    turned.mirrored = turned.pairs = false;
    Words words = ListOrders(mirrored, turned);
    if (words.empty()) return {};
    words = Reversed(std::move(words), back);
    if (back == ActionKind::kBackward) return words;
    run.Follow(LettersIn(words));
  } else if (policy.block) {
    std::vector<std::vector<Letter>> sequences = SequencesOf(problem, *policy.block, back);
    if (sequences.empty()) return {};
    run.Follow(std::move(sequences));
  }
  return std::move(run).Run();
}

}  // namespace stringline::search
