// A trial is drawn, its score compared with the energy that the temperature allows now, and kept or
// dropped; with a judgement it is judged in between. The best words of all are the result.
#include "schedlang/search/improve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "schedlang/search/random.h"

namespace stringline::search {
namespace {

// The weight of the mean end of the ranks relative to the value.
constexpr double kEnds = 0.1;
// The price of words that exceed a limit by all that it is, in values of the best words.
constexpr double kExcess = 0.3;
// A trial may look at all of them.
constexpr int64_t kManyGroups = 10'000;

class Annealing {
 public:
  Annealing(const Problem& problem, const Words& words, uint64_t seed, const Judgement* judgement)
      : problem_(problem), judgement_(judgement), evaluator_(problem), random_(seed) {
    evaluator_.Load(words);
    now_ = evaluator_.base();
    best_ = judgement != nullptr ? judgement->best : now_;
    energy_ = Judge([&words]() -> const Words& { return words; }, kNoEnergy);
    if (judgement == nullptr) best_words_ = words;
    if (judgement != nullptr && fits_ && now_ < best_) TakeAsBest();
    has_pairs_ = !problem.whole_pairs.empty() || !problem.input_pairs.empty();
    has_splits_ = problem.whole && problem.split;
    for (const std::vector<Group>& word : words) groups_ += static_cast<int64_t>(word.size());
    for (int r = 0; r < problem.ranks; ++r) least_ends_ += LeastWork(problem, r);
  }

  Improved Run(int64_t trials, double heat, int64_t bound) && {
    const double hottest = heat * MeanTime();
    int64_t trial = 0;
    FindPath();
    SparseStop stop(problem_.stop, groups_ > kManyGroups || HasValue() ? 1 : 32);
    for (; trial < trials && best_.value > bound && groups_ > 1; ++trial) {
      if (stop.IsWished()) break;
      const double left = 1.0 - static_cast<double>(trial) / static_cast<double>(trials);
      const double temperature = hottest * left * left;
      Move move;
      if (!Draw(&move) || !evaluator_.IsPossible(move)) continue;
      const double most = energy_ - temperature * std::log(1.0 - random_.Share());
      const bool is_lower = !HasValue() || judgement_->is_above;
      const Score score = evaluator_.Try(move, is_lower ? LimitOf(most) : kNoLimit);
      if (score.value >= kNoLimit || (is_lower && Energy(score) > most)) continue;
      if (HasValue() && LooksTooBad(score, most)) continue;
      if (!Keep(move, score, most)) continue;
      path_is_old_ = true;
      if (fits_ && now_ < best_) TakeAsBest();
    }
    return {std::move(best_words_), best_, trial};
  }

 private:
  static constexpr double kNoEnergy = std::numeric_limits<double>::infinity();

  bool HasValue() const { return judgement_ != nullptr && judgement_->value; }

  // A change of the problem's count that is as large in the value would be too much.
  bool LooksTooBad(const Score& score, double most) {
    return Energy(score) - Energy(evaluator_.base()) > most - energy_ &&
           !random_.OneIn(judgement_->takes);
  }

  // The energy of words with the score now_, which gets their value, and whether they fit: those
  // that do not count as no better than the best that do. Words that are no better, or have an
  // energy above `most`, are not looked at.
  template <typename WordsOf>
  double Judge(WordsOf words, double most) {
    fits_ = true;
    if (HasValue()) now_.value = judgement_->value(words());
    const double energy = Energy(now_);
    const bool is_limited = judgement_ != nullptr && judgement_->excess;
    if (!is_limited || energy > most || !(now_ < best_)) return energy;
    const double excess = judgement_->excess(words());
    fits_ = excess <= 0;
    return fits_ ? energy : Energy(best_) * (1 + kExcess * excess);
  }

  // Makes the move, which was just tried, unless the energy of its words is above `most`.
  bool Keep(const Move& move, const Score& score, double most) {
    const Score before = std::exchange(now_, score);
    const bool fitted = fits_;
    std::optional<Words> after;
    const auto words = [&]() -> const Words& {
      if (!after) after = evaluator_.words(true);
      return *after;
    };
    const double energy = Judge(words, most);
    if (energy <= most) {
      energy_ = energy;
      evaluator_.Keep(move);
      return true;
    }
    fits_ = fitted;
    now_ = before;
    return false;
  }

  void TakeAsBest() {
    best_ = now_;
    best_words_ = evaluator_.words();
  }

  double MeanTime() const {
    double all = 0;
    for (int r = 0; r < evaluator_.ranks(); ++r) {
      for (int i = 0; i < evaluator_.length(r); ++i) {
        all += static_cast<double>(evaluator_.EndOf(r, i) - evaluator_.StartOf(r, i));
      }
    }
    return all / static_cast<double>(std::max<int64_t>(1, groups_));
  }
  double Energy(const Score& score) const {
    return static_cast<double>(score.value) +
           kEnds * static_cast<double>(score.ends) / problem_.ranks;
  }
  // A value above the limit has a higher energy: no rank ends before its work is done.
  int64_t LimitOf(double energy) const {
    if (energy >= static_cast<double>(kNoLimit)) return kNoLimit;
    const double ends = kEnds * static_cast<double>(least_ends_) / problem_.ranks;
    return static_cast<int64_t>(energy - ends) + 1;
  }

  // The groups on a longest path to the end of a rank with the latest end.
  void FindPath() {
    path_.clear();
    path_is_old_ = false;
    int rank = -1;
    int64_t longest = -1;
    int ties = 0;
    const bool spans = problem_.objective != Objective::kMakespan;
    for (int r = 0; r < evaluator_.ranks(); ++r) {
      const int length = evaluator_.length(r);
      if (length == 0) continue;
      const int64_t took = evaluator_.EndOf(r, length - 1) - (spans ? evaluator_.StartOf(r, 0) : 0);
      if (took > longest) ties = 0;
      if (took < longest || (took == longest && !random_.OneIn(++ties + 1))) continue;
      longest = took;
      rank = r;
    }
    int place = evaluator_.length(rank) - 1;
    do {
      path_.push_back({rank, place});
    } while (evaluator_.GoBack(&rank, &place));
  }

  // A distance: mostly short, sometimes long.
  int DrawDistance(int length) {
    int far = 1;
    while (far < length && random_.OneIn(2)) far += 1 + static_cast<int>(random_.Below(far + 1));
    return far;
  }

  // A move that parts a pair, or joins the group with another nearby.
  bool DrawOfPair(int rank, int place, Move* move) {
    const int length = evaluator_.length(rank);
    const Group group = evaluator_.At(rank, place);
    const bool is_up = random_.OneIn(2);
    if (group.is_pair()) {
      const int far = DrawDistance(length) - 1;
      const int to = is_up ? place - far : place + 1 + far;
      const auto kind = random_.OneIn(2) ? Move::Kind::kTakeForward : Move::Kind::kTakeBack;
      *move = {rank, place, to, kind};
      return to >= 0 && to <= length;
    }
    if (KindOf(group.first) == ActionKind::kWeightGradient) return false;
    const bool is_forward = KindOf(group.first) == ActionKind::kForward;
    for (int to = is_up ? place - 1 : place + 1; to >= 0 && to < length; to += is_up ? -1 : 1) {
      const Group other = evaluator_.At(rank, to);
      if (other.is_pair() || KindOf(other.first) == ActionKind::kWeightGradient) continue;
      if ((KindOf(other.first) == ActionKind::kForward) == is_forward || random_.OneIn(4)) continue;
      *move = {rank, place, to, Move::Kind::kJoin};
      if (random_.OneIn(2)) std::swap(move->from, move->to);
      return true;
    }
    return false;
  }

  // A move that makes a B an I and a W, or an I with the next W of its stage a B.
  bool DrawSplit(int rank, int place, Move* move) {
    const Group group = evaluator_.At(rank, place);
    if (group.is_pair()) return false;
    const int stage = StageOf(group.first);
    if (KindOf(group.first) == ActionKind::kBackward) {
      *move = {rank, place, place, Move::Kind::kSplit};
      return true;
    }
    if (KindOf(group.first) != ActionKind::kInputGradient) return false;
    const Group weight{LetterOf(ActionKind::kWeightGradient, stage)};
    for (int to = place + 1; to < evaluator_.length(rank); ++to) {
      if (!(evaluator_.At(rank, to) == weight)) continue;
      *move = {rank, place, to, Move::Kind::kMerge};
      return true;
    }
    return false;
  }

  bool Draw(Move* move) {
    if (path_is_old_) {
      kept_ = (kept_ + 1) % 4;
      if (kept_ == 0) FindPath();
    }
    int rank, place;
    if (random_.OneIn(6)) {
      rank = static_cast<int>(random_.Below(evaluator_.ranks()));
      if (evaluator_.length(rank) < 2) return false;
      place = static_cast<int>(random_.Below(evaluator_.length(rank)));
    } else {
      std::tie(rank, place) =
          path_[static_cast<size_t>(random_.Below(static_cast<int64_t>(path_.size())))];
      // Moves since the path was found may have made the word shorter.
      if (place >= evaluator_.length(rank)) return false;
    }
    if (has_pairs_ && random_.OneIn(3)) return DrawOfPair(rank, place, move);
    if (has_splits_ && random_.OneIn(16)) return DrawSplit(rank, place, move);
    const int length = evaluator_.length(rank);
    const int far = DrawDistance(length);
    const int to = place + (random_.OneIn(2) ? far : -far);
    if (to < 0 || to >= length) return false;
    if (random_.OneIn(3)) {  // the other group moves past this one
      *move = {rank, to, place};
    } else {
      *move = {rank, place, to};
    }
    return !(evaluator_.At(rank, move->from) == evaluator_.At(rank, move->to)) || far > 1;
  }

  const Problem& problem_;
  const Judgement* const judgement_;
  Evaluator evaluator_;
  Random random_;
  std::vector<std::pair<int, int>> path_;
  bool path_is_old_ = false;
  int kept_ = 0;
  int64_t groups_ = 0;
  int64_t least_ends_ = 0;  // of all ranks together, in any order
  bool has_pairs_ = false;
  bool has_splits_ = false;
  Score now_;          // of the words now
  double energy_ = 0;  // the same
  bool fits_ = true;   // they do not exceed the limit, or are not better than the best
  Score best_;
  Words best_words_;
};

}  // namespace

Improved Improve(const Problem& problem, const Words& words, int64_t trials, double heat,
                 int64_t bound, uint64_t seed, const Judgement* judgement) {
  return Annealing(problem, words, seed, judgement).Run(trials, heat, bound);
}

}  // namespace stringline::search
