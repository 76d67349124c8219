// All texts are tried as they are written; then the best of each family are varied: mostly one or
// two parameters get other values, as functions of P. Texts are made by the seed, and valued on all
// cores. A text that is better than the best so far is proven before it takes its place.
#include "schedlang/ask/any_size_search.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/family_texts.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/ask/rounds.h"
#include "schedlang/ask/sized_problems.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/order_fit.h"
#include "schedlang/search/random.h"

namespace stringline {
namespace {

struct TriedText {
  size_t family = 0;
  FamilyChoice choice;
  std::optional<SizesScore> score;
};

class SizesSearch {
 public:
  SizesSearch(const AnySizeQuestion& question, const Stop* stop,
              const std::function<void(const AnySizeProgress&)>& watch)
      : question_(question),
        stop_(stop),
        watch_(watch),
        end_ns_(NowNs() + static_cast<int64_t>(question.search.seconds * 1e9)),
        random_(static_cast<uint64_t>(question.search.seed)) {}

  absl::StatusOr<FoundForSizes> Run() {
    SL_ASSIGN_OR_RETURN(costs_, FindCosts(question_.search.costs));
    SL_ASSIGN_OR_RETURN(sizes_, SizedProblemsOf(question_, costs_, stop_));
    for (const SizedProblem& size : sizes_) {
      const int64_t ranks = size.stages.ranks();
      fewest_ = fewest_ == 0 ? ranks : std::min(fewest_, ranks);
      most_ = std::max(most_, ranks);
    }
    SL_RETURN_IF_ERROR(FindTexts());
    std::vector<TriedText> round;
    AddFirst(&round);
    Try(&round);
    while (!IsOver()) {
      round = Variations();
      if (round.empty()) break;
      Try(&round);
    }
    return Finish();
  }

 private:
  static constexpr size_t kRound = 24;      // texts that are tried at once
  static constexpr size_t kOfFamily = 12;   // best texts of a family that are varied
  static constexpr int kMostRepeats = 500;  // variations that were tried before, in a row

  absl::Status FindTexts() {
    if (question_.search.begin) {
      SL_ASSIGN_OR_RETURN(Source source, OpenSource(question_.search.begin->file));
      SL_ASSIGN_OR_RETURN(FamilyText text, FamilyTextOf(question_.search.begin->file,
                                                        std::move(source), sizes_[0].parameters));
      texts_.push_back(std::move(text));
      return absl::OkStatus();
    }
    FamilyWish wish{.place = question_.search.place.empty() ? "line" : question_.search.place,
                    .whole = question_.search.whole,
                    .split = question_.search.split,
                    .costs = {}};
    if (const auto costs = OrderCostsFrom(sizes_[0].stages, sizes_[0].placed.costs)) {
      wish.costs = *costs;
    }
    texts_ = FamilyTextsFor(wish);
    return absl::OkStatus();
  }

  bool IsOver() const {
    if (IsWished(stop_)) return true;
    const int64_t most = question_.search.iterations;
    if (most > 0 && iterations_ >= most) return true;
    return best_ && best_->score->worst <= 0 && proof_.within == proof_.plans;
  }

  // The family and its values at the sizes.
  std::string KeyOf(const TriedText& text) const {
    std::string key = absl::StrCat(text.family);
    for (const std::optional<ValueOfRanks>& value : text.choice) {
      absl::StrAppend(&key, " -");
      for (const SizedProblem& size : sizes_) {
        if (value) absl::StrAppend(&key, ",", value->At(size.stages.ranks()));
      }
    }
    return key;
  }

  // All texts as written, and then with a small value of each parameter: so many stages a rank may
  // be what puts them where the question asks.
  void AddFirst(std::vector<TriedText>* round) {
    constexpr int64_t kSmall = 4;
    for (int64_t value = 0; value <= kSmall; ++value) {
      for (size_t i = 0; i < texts_.size(); ++i) {
        TriedText text{i, FamilyChoice(texts_[i].open.size()), {}};
        if (value == 0) AddNew(text, round);
        for (size_t at = 0; value > 0 && at < text.choice.size(); ++at) {
          TriedText small = text;
          small.choice[at] = ValueOfRanks{.plus = value};
          AddNew(std::move(small), round);
        }
      }
    }
    const auto most = static_cast<size_t>(question_.search.iterations);
    if (most > 0 && round->size() > most) round->resize(most);
  }

  // Adds a text whose values were not tried. One with the values of the best may be better between
  // the sizes.
  void AddNew(TriedText text, std::vector<TriedText>* round) {
    const std::string key = KeyOf(text);
    if (known_.insert(key).second) {
      round->push_back(std::move(text));
    } else if (best_ && proof_.within < proof_.plans && key == KeyOf(*best_)) {
      text.score = best_->score;
      if (known_.insert(TextWith(texts_[text.family], text.choice)).second) Prove(text, stop_);
    }
  }

  ValueOfRanks AnyValue() {
    constexpr int64_t kBy[] = {1, 1, 2, 2, 3, 4, 8};
    ValueOfRanks value;
    if (random_.OneIn(3)) {
      value.plus = random_.Below(5);
      return value;
    }
    value.by = kBy[random_.Below(std::size(kBy))];
    value.times = 1 + random_.Below(2 * value.by);
    for (const int64_t factor : {2, 3}) {
      while (value.by % factor == 0 && value.times % factor == 0) {
        value.by /= factor;
        value.times /= factor;
      }
    }
    if (random_.OneIn(2)) value.plus = random_.Below(5) - 2;
    return value;
  }

  // Another value at the fewest ranks, or at the most, with a line through both.
  ValueOfRanks NearValue(const ValueOfRanks& value) {
    constexpr int64_t kMostBy = 8;
    const int64_t at_least = value.At(fewest_) + random_.Below(3) - 1;
    const int64_t at_most = value.At(most_) + random_.Below(3) - 1;
    if (at_least < 0 || at_most < at_least) return AnyValue();
    if (fewest_ == most_) return {.plus = at_least};
    const int64_t common = std::gcd(at_most - at_least, most_ - fewest_);
    ValueOfRanks near{.times = (at_most - at_least) / common, .by = (most_ - fewest_) / common};
    if (near.by > kMostBy) return AnyValue();
    near.plus = at_least - near.At(fewest_);
    return near;
  }

  void Vary(std::optional<ValueOfRanks>* value) {
    if (random_.OneIn(4)) {
      *value = AnyValue();
    } else if (*value && random_.OneIn(12)) {
      value->reset();
    } else {
      *value = NearValue(value->value_or(ValueOfRanks{}));
    }
  }

  std::vector<TriedText> Variations() {
    std::vector<TriedText> round;
    const auto left = question_.search.iterations > 0
                          ? static_cast<size_t>(question_.search.iterations - iterations_)
                          : kRound;
    if (kept_.empty()) return round;
    for (int repeats = 0; round.size() < std::min(kRound, left) && repeats < kMostRepeats;) {
      TriedText text = kept_[AnyKept()];
      const size_t before = round.size();
      if (!text.choice.empty()) AddNew(Varied(std::move(text)), &round);
      repeats = round.size() > before ? 0 : repeats + 1;
    }
    return round;
  }

  // The text with one or two of its parameters changed, or now and then all of them.
  TriedText Varied(TriedText text) {
    text.score.reset();
    const auto count = static_cast<int64_t>(text.choice.size());
    if (random_.OneIn(12)) {
      for (std::optional<ValueOfRanks>& value : text.choice) value = AnyValue();
      return text;
    }
    const int changes = random_.OneIn(2) ? 2 : 1;
    for (int i = 0; i < changes; ++i) {
      Vary(&text.choice[static_cast<size_t>(random_.Below(count))]);
    }
    return text;
  }

  // Rather one of the best.
  size_t AnyKept() {
    const auto count = static_cast<int64_t>(kept_.size());
    return static_cast<size_t>(random_.Below(1 + random_.Below(count)));
  }

  void Try(std::vector<TriedText>* round) {
    OnAllCores(static_cast<int>(round->size()), [&](int i) {
      TriedText& text = (*round)[static_cast<size_t>(i)];
      if (IsWished(stop_)) return;
      text.score = ScoreOf(sizes_, texts_[text.family], text.choice, stop_);
    });
    iterations_ += static_cast<int64_t>(round->size());
    for (TriedText& text : *round) {
      if (text.score) Keep(std::move(text));
    }
    AnySizeProgress progress;
    progress.gap = best_ ? best_->score->worst : -1;
    progress.iterations = iterations_;
    progress.seconds_left = static_cast<double>(end_ns_ - NowNs()) / 1e9;
    watch_(progress);
  }

  void Keep(TriedText text) {
    Prove(text, stop_);
    const auto after = std::upper_bound(
        kept_.begin(), kept_.end(), text,
        [](const TriedText& a, const TriedText& b) { return *a.score < *b.score; });
    const size_t family = text.family;
    kept_.insert(after, std::move(text));
    size_t of_family = 0;
    for (size_t i = 0; i < kept_.size(); ++i) {
      if (kept_[i].family != family || ++of_family <= kOfFamily) continue;
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }

  // Less is better: texts that are right for the whole range go before others; of equally good ones
  // those go first that keep the limit of memory at more of its sizes.
  static auto RankOf(const SizesScore& score, const SizesProof& proof) {
    return std::tuple(!proof.is_whole(), score.worst, score.sum, proof.plans - proof.within,
                      score.held, score.chosen);
  }

  // Takes the text as the best if it is better, and proven at its sizes at least.
  void Prove(const TriedText& text, const Stop* stop) {
    if (text.score->beyond > 0) return;
    const bool is_longer = best_ && std::tie(text.score->worst, text.score->sum) >
                                        std::tie(best_->score->worst, best_->score->sum);
    if (is_longer && proof_.is_whole()) return;
    const absl::StatusOr<SizesProof> proof =
        ProveText(question_, costs_, sizes_, TextWith(texts_[text.family], text.choice), stop);
    if (!proof.ok()) return;
    if (!proof->at_sizes) {
      last_wrong_ = proof->first_wrong.empty() ? proof->first_beyond : proof->first_wrong;
      return;
    }
    if (best_ && RankOf(*text.score, *proof) >= RankOf(*best_->score, proof_)) return;
    best_ = text;
    proof_ = *proof;
  }

  absl::StatusOr<FoundForSizes> Finish() {
    if (!best_ && IsWished(stop_) && kept_.empty()) {
      return absl::NotFoundError(
          "the search was stopped before it had tried a text; give it more time (`seconds`)");
    }
    if (!best_ && !last_wrong_.empty()) {
      return absl::NotFoundError(absl::StrCat("no text is right at all sizes; ", last_wrong_));
    }
    if (!best_) return absl::NotFoundError(WhyNoneFits());
    SimplifyBest();
    const FamilyText& text = texts_[best_->family];
    FoundForSizes found;
    found.family = text.name;
    for (size_t i = 0; i < best_->choice.size(); ++i) {
      if (best_->choice[i]) found.chosen.emplace_back(text.NameOf(i), best_->choice[i]->Text());
    }
    found.text = TextWith(text, best_->choice);
    found.objective = question_.search.minimize;
    SL_ASSIGN_OR_RETURN(found.sizes, TextAtSizes(sizes_, found.text, question_.search.parameters));
    found.families = texts_.size();
    found.iterations = iterations_;
    found.proof = proof_;
    return found;
  }

  // Leaves as written what is not the better for its choice; after the end of the search, too.
  void SimplifyBest() {
    constexpr int64_t kSimplifyingNs = 500'000'000;
    const Stop soon(NowNs() + kSimplifyingNs);
    for (size_t i = 0; i < best_->choice.size(); ++i) {
      if (!best_->choice[i]) continue;
      TriedText plainer = *best_;
      plainer.choice[i].reset();
      plainer.score = ScoreOf(sizes_, texts_[plainer.family], plainer.choice, nullptr);
      if (plainer.score && *plainer.score < *best_->score) Prove(plainer, &soon);
    }
  }

  std::string WhyNoneFits() const {
    if (kept_.empty()) {
      return "no text has an order of these actions on these stages at all sizes; give another "
             "place, other kinds, or a text of yours (`begin`)";
    }
    const TriedText& nearest = kept_.front();
    for (const SizedProblem& size : sizes_) {
      const auto score = ScoreOf({size}, texts_[nearest.family], nearest.choice, nullptr);
      if (!score || score->beyond <= 0) continue;
      return absl::StrCat("no text that was tried keeps the limit of memory at all sizes: at ",
                          NameOfSize(size.parameters), " the nearest (",
                          texts_[nearest.family].name,
                          ") needs more; give more memory or time, or search for that size alone");
    }
    return "no text that was tried keeps the limits of all sizes";
  }

  const AnySizeQuestion& question_;
  const Stop* const stop_;
  const std::function<void(const AnySizeProgress&)>& watch_;
  const int64_t end_ns_;
  search::Random random_;
  StepCosts costs_;
  std::vector<SizedProblem> sizes_;
  int64_t fewest_ = 0, most_ = 0;  // ranks of the sizes
  std::vector<FamilyText> texts_;
  std::vector<TriedText> kept_;  // the best first
  std::set<std::string> known_;  // values, and texts, that were tried
  std::optional<TriedText> best_;
  SizesProof proof_;  // of the best
  std::string last_wrong_;
  int64_t iterations_ = 0;
};

}  // namespace

double FoundAtSize::gap() const { return search::GapOf(value, least()); }

double FoundForSizes::worst_gap() const {
  double worst = 0;
  for (const FoundAtSize& size : sizes) worst = std::max(worst, size.gap());
  return worst;
}

absl::StatusOr<FoundForSizes> SearchForSizes(
    const AnySizeQuestion& question, const Stop* stop,
    const std::function<void(const AnySizeProgress&)>& watch) {
  return SizesSearch(question, stop, watch).Run();
}

}  // namespace stringline
