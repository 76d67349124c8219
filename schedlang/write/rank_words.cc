#include "schedlang/write/rank_words.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stringline::search {
namespace {

// Numbers signs in the order of their appearance.
class Alphabet {
 public:
  explicit Alphabet(std::vector<Sign>* signs) : signs_(signs) {
    for (size_t i = 0; i < signs->size(); ++i) number_.emplace((*signs)[i], static_cast<int>(i));
  }
  int NumberOf(const Sign& sign) {
    const auto [it, is_new] = number_.emplace(sign, static_cast<int>(signs_->size()));
    if (is_new) signs_->push_back(sign);
    return it->second;
  }

 private:
  std::vector<Sign>* signs_;
  std::map<Sign, int> number_;
};

// The language's counters along a plan's actions.
class Counting {
 public:
  explicit Counting(const Plan& plan)
      : forward_(plan.stages.size()),
        back_(plan.stages.size()),
        again_(plan.stages.size()),
        offloads_(plan.stages.size()) {}

  void StartRank() {
    deferred_.clear();
    offloaded_.clear();
  }
  // Takes the action. True if it is the next of its kind and stage by the counters.
  bool Take(const Action& action) {
    const auto stage = static_cast<size_t>(action.stage.value);
    const int microbatch = action.microbatch.value;
    if (action.kind == ActionKind::kForward) return forward_[stage].Take(microbatch);
    if (action.kind == ActionKind::kRecompute) return again_[stage].Take(microbatch);
    if (action.kind == ActionKind::kOffload) {
      offloaded_.push_back(action);
      return offloads_[stage].Take(microbatch);
    }
    if (action.kind == ActionKind::kFetch) return TakeOldest(action, &offloaded_);
    if (action.kind != ActionKind::kWeightGradient) return back_[stage].Take(microbatch);
    return TakeOldest(action, &deferred_);
  }
  // True if the last weight gradient taken was the oldest of the rank.
  bool is_oldest_of_rank() const { return is_oldest_of_rank_; }
  void EndGroup(absl::Span<const Action> parts) {
    for (const Action& part : parts) {
      if (part.kind == ActionKind::kInputGradient) deferred_.push_back(part);
    }
  }

 private:
  struct Numbers {
    int next = 0;
    std::vector<int> ahead;
    bool Take(int number) {
      const bool is_next = number == next;
      if (!is_next) ahead.push_back(number);
      if (is_next) ++next;
      for (auto it = ahead.end(); (it = std::find(ahead.begin(), ahead.end(), next)) != ahead.end();
           ++next) {
        ahead.erase(it);
      }
      return is_next;
    }
  };
  // Takes the entry of the action's stage and microbatch. True if it is the stage's oldest.
  bool TakeOldest(const Action& action, std::vector<Action>* entries) {
    const auto is_stage = [&](const Action& a) { return a.stage == action.stage; };
    const auto oldest = std::find_if(entries->begin(), entries->end(), is_stage);
    const auto at = std::find_if(oldest, entries->end(), [&](const Action& a) {
      return is_stage(a) && a.microbatch == action.microbatch;
    });
    if (at == entries->end()) return false;
    is_oldest_of_rank_ = at == entries->begin();
    const bool is_next = at == oldest;
    entries->erase(at);
    return is_next;
  }

  std::vector<Numbers> forward_, back_, again_, offloads_;
  std::vector<Action> deferred_, offloaded_;  // oldest first
  bool is_oldest_of_rank_ = false;
};

}  // namespace

RankWords RankWordsOf(const Plan& plan, const StageText& stages, bool may_be_bare) {
  RankWords out{.signs = {}, .words = std::vector<std::vector<int>>(plan.ranks())};
  std::vector<std::vector<Sign>> words(static_cast<size_t>(plan.ranks()));
  Counting counting(plan);
  bool is_bare = may_be_bare;
  for (int r = 0; r < plan.ranks(); ++r) {
    counting.StartRank();
    const auto actions = plan.of(RankId(r));
    for (size_t i = 0; i < actions.size();) {
      const auto parts = GroupAt(actions, i);
      Sign sign;
      for (const Action& part : parts) {
        SignPart& written = sign.emplace_back(
            SignPart{part.kind, stages.role_of_stage[static_cast<size_t>(part.stage.value)], -1});
        if (IsCollective(part.kind)) continue;
        const bool is_next = counting.Take(part);
        if (!is_next) written.microbatch = part.microbatch.value;
        if (part.kind == ActionKind::kWeightGradient) {
          is_bare = is_bare && is_next && counting.is_oldest_of_rank();
        }
      }
      counting.EndGroup(parts);
      words[static_cast<size_t>(r)].push_back(std::move(sign));
      i += parts.size();
    }
  }
  Alphabet alphabet(&out.signs);
  for (size_t r = 0; r < words.size(); ++r) {
    for (Sign& sign : words[r]) {
      for (SignPart& part : sign) {
        if (is_bare && part.kind == ActionKind::kWeightGradient) part.role = kOldest;
      }
      out.words[r].push_back(alphabet.NumberOf(sign));
    }
  }
  return out;
}

OrderedWords OrderedWordsOf(const RankWords& words) {
  OrderedWords out;
  const size_t ranks = words.words.size();
  out.words = {.signs = words.signs, .words = {}};
  out.forward.resize(ranks);
  out.backward.resize(ranks);
  Alphabet alphabet(&out.words.signs);
  for (size_t r = 0; r < ranks; ++r) {
    std::vector<int>& word = out.words.words.emplace_back();
    for (const int number : words.words[r]) {
      Sign sign = words.signs[static_cast<size_t>(number)];
      for (SignPart& part : sign) {
        if (part.kind == ActionKind::kWeightGradient || part.kind == ActionKind::kRecompute ||
            IsCopy(part.kind) || IsCollective(part.kind)) {
          continue;
        }
        const bool is_forward = part.kind == ActionKind::kForward;
        (is_forward ? out.forward : out.backward)[r].push_back(alphabet.NumberOf({part}));
        part = {is_forward ? ActionKind::kForward : ActionKind::kBackward, kFromOrder, -1};
      }
      word.push_back(alphabet.NumberOf(sign));
    }
  }
  return out;
}

std::string TextOfSign(const Sign& sign, const StageText& stages) {
  return absl::StrJoin(sign, " & ", [&](std::string* out, const SignPart& part) {
    if (part.role == kFromOrder) {
      absl::StrAppend(out, part.kind == ActionKind::kForward ? "forward" : "backward");
      return;
    }
    const std::string verb = part.kind == ActionKind::kUnshard   ? "unshard"
                             : part.kind == ActionKind::kReshard ? "reshard"
                             : IsCollective(part.kind)           ? "reduce"
                                                                 : PrintedKind(part.kind);
    absl::StrAppend(out, verb);
    if (part.role >= 0) absl::StrAppend(out, " ", stages.roles[static_cast<size_t>(part.role)]);
    if (part.microbatch >= 0) absl::StrAppend(out, " @ ", part.microbatch);
  });
}

}  // namespace stringline::search
