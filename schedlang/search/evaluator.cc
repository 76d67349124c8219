// Ranks advance, each until it waits for a value that has not arrived; the producer wakes the rank
// up. A trial begins at a front behind which nothing can have changed, and takes everything before
// it from the base.
#include "schedlang/search/evaluator.h"

#include <algorithm>

namespace stringline::search {
namespace {

// A queue of messages without transfer time delays nothing.
void LeaveOutIdleQueues(int ranks, const UnequalTimes& unequal, std::vector<OfLetter>* letters) {
  std::vector<bool> holds_up(static_cast<size_t>(ranks) * static_cast<size_t>(ranks), false);
  for (size_t i = 0; i < letters->size(); ++i) {
    const OfLetter& letter = (*letters)[i];
    const bool takes_time =
        unequal.empty() ? letter.transfer > 0 : unequal.AnyTransfers(static_cast<Letter>(i));
    if (letter.queue >= 0 && takes_time) holds_up[letter.queue] = true;
  }
  for (OfLetter& letter : *letters) {
    if (letter.queue >= 0 && !holds_up[letter.queue]) letter.queue = -1;
  }
}

// By letter.
std::vector<OfLetter> OfLetters(const Problem& problem, const UnequalTimes& unequal) {
  std::vector<int32_t> activations, gradients;
  int32_t values = 0;
  for (const StageWork& work : problem.stages) {
    activations.push_back(values);
    gradients.push_back(values + work.microbatches);
    values += 2 * work.microbatches;
  }
  std::vector<OfLetter> letters(4 * problem.stages.size());
  for (int s = 0; s < problem.stage_count(); ++s) {
    const StageWork& work = problem.stages[s];
    for (const ActionKind kind : kLetterKinds) {
      OfLetter& letter = letters[LetterOf(kind, s)];
      letter.time = work.time[Index(kind)];
      if (kind == ActionKind::kWeightGradient) continue;
      const bool forward = kind == ActionKind::kForward;
      letter.counter = 2 * s + (forward ? 0 : 1);
      letter.needs = forward ? activations[s] : gradients[s];
      const int to = forward ? work.next : work.previous;
      letter.to = to < 0 ? work.rank : problem.stages[to].rank;
      if (to >= 0) letter.gives = forward ? activations[to] : gradients[to];
      // The last stage begins its own way back.
      if (to < 0 && forward) letter.gives = gradients[s];
      if (letter.to == work.rank) continue;
      const MessageTime& message = forward ? work.activation : work.gradient;
      letter.queue = work.rank * problem.ranks + letter.to;
      letter.latency = message.latency;
      letter.transfer = message.transfer;
    }
  }
  LeaveOutIdleQueues(problem.ranks, unequal, &letters);
  return letters;
}

// Exchanges all[begin, behind) with `others`; what is behind it, up to `end`, makes room.
template <typename T>
void Exchange(size_t begin, size_t behind, size_t end, std::vector<T>* all,
              std::vector<T>* others) {
  const size_t count = others->size(), old = behind - begin;
  const auto at = [all](size_t place) { return all->begin() + static_cast<std::ptrdiff_t>(place); };
  if (count == old) {
    std::swap_ranges(at(begin), at(behind), others->begin());
    return;
  }
  others->insert(others->end(), at(begin), at(behind));
  if (count < old) std::move(at(behind), at(end), at(begin + count));
  if (count > old) std::move_backward(at(behind), at(end), at(end + count - old));
  const auto middle = others->begin() + static_cast<std::ptrdiff_t>(count);
  std::copy(others->begin(), middle, at(begin));
  others->erase(others->begin(), middle);
}

}  // namespace

Evaluator::Evaluator(const Problem& problem)
    : problem_(problem),
      unequal_(problem),
      letters_(OfLetters(problem, unequal_)),
      given_(2 * problem.stages.size(), {-1, -1}),
      rank_stages_(static_cast<size_t>(problem.ranks)) {
  const int stages = problem.stage_count();
  int32_t values = 0;
  for (int s = 0; s < stages; ++s) {
    const StageWork& work = problem.stages[s];
    values += 2 * work.microbatches;
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
      const OfLetter& letter = letters_[LetterOf(kind, s)];
      if (letter.gives < 0) continue;
      given_[letter.counter] = {letter.gives, letter.gives + work.microbatches};
    }
    local_.push_back(static_cast<int32_t>(rank_stages_[work.rank].size()));
    rank_stages_[work.rank].push_back(s);
  }
  there_.assign(static_cast<size_t>(values), kNotThere);
  trial_there_ = there_;
  const auto ranks = static_cast<size_t>(problem.ranks);
  front_ = {
      std::vector<int32_t>(ranks),         std::vector<int64_t>(ranks),
      std::vector<int64_t>(ranks),         std::vector<int32_t>(static_cast<size_t>(2 * stages)),
      std::vector<int64_t>(ranks * ranks), std::vector<int32_t>(ranks)};
  prefix_counts_.resize(ranks);
}

int64_t Evaluator::TimeOf(Group group) const {
  return group.is_pair() ? problem_.TimeOf(group) : letters_[group.first].time;
}

bool Evaluator::Load(const Words& words) {
  first_ = {0};
  length_.clear();
  word_.clear();
  for (const std::vector<Group>& word : words) {
    word_.insert(word_.end(), word.begin(), word.end());
    length_.push_back(static_cast<int32_t>(word.size()));
    for (const Group group : word) {
      if (group.is_pair()) word_.emplace_back();
      const Letter back = group.is_pair() ? group.second : group.first;
      if (problem_.split && KindOf(back) == ActionKind::kBackward) word_.emplace_back();
    }
    first_.push_back(static_cast<int32_t>(word_.size()));
  }
  for (auto* const times :
       {&start_, &end_, &trial_start_, &trial_end_, &prefix_work_, &prefix_held_}) {
    times->assign(word_.size(), 0);
  }
  slots_.assign(word_.size(), {});
  std::fill(trial_there_.begin(), trial_there_.end(), kNotThere);
  for (int s = 0; s < problem_.stage_count(); ++s) {
    if (problem_.stages[s].previous >= 0) continue;
    const int32_t at = letters_[LetterOf(ActionKind::kForward, s)].needs;
    std::fill_n(trial_there_.begin() + at, problem_.stages[s].microbatches, 0);
  }
  std::fill(front_.counts.begin(), front_.counts.end(), 0);
  touched_ = front_.counts;
  for (int r = 0; r < ranks(); ++r) {
    const auto first = static_cast<size_t>(first_[r]);
    FindSlots(word_.data() + first, static_cast<size_t>(length(r)), front_.counts.data(),
              slots_.data() + first);
    CountPrefixes(r, 0);
    front_.place[r] = 0;
    front_.now[r] = 0;
    front_.left[r] = 0;
    for (int i = 0; i < length(r); ++i) front_.left[r] += TimeOf(At(r, i));
  }
  began_ = front_.place;
  std::fill(front_.queues.begin(), front_.queues.end(), 0);
  for (int s = 0; s < problem_.stage_count() && !unequal_.empty(); ++s) unequal_.SetDone(s, 0, 0);
  unequal_.BeginTrial();
  window_.is_tried = is_to_be_forgotten_ = false;
  there_ = trial_there_;
  const bool ends = Run(kNoLimit);
  tried_ = ends ? Measure() : Score{};
  TakeTrial();
  return ends;
}

Words Evaluator::words(bool tried) {
  Words words;
  if (tried) ExchangeWindow();
  for (int r = 0; r < ranks(); ++r) {
    const auto begin = word_.begin() + first_[r];
    words.emplace_back(begin, begin + length_[r]);
  }
  if (tried) ExchangeWindow();
  return words;
}

void Evaluator::CountPrefixes(int rank, int from) {
  std::vector<int32_t>& prefix = prefix_counts_[rank];
  const size_t width = 4 * rank_stages_[rank].size();
  prefix.resize((static_cast<size_t>(length(rank)) + 1) * width);
  int64_t work = 0, held = 0;
  if (from == 0) {
    std::fill_n(prefix.begin(), width, 0);
  } else {
    work = prefix_work_[first_[rank] + from];
    held = prefix_held_[first_[rank] + from];
  }
  for (int i = from; i < length(rank); ++i) {
    const Group group = At(rank, i);
    int32_t* const now = prefix.data() + static_cast<size_t>(i) * width;
    std::copy_n(now, width, now + width);
    prefix_work_[first_[rank] + i] = work;
    prefix_held_[first_[rank] + i] = held;
    work += TimeOf(group);
    for (const Letter letter : {group.first, group.second}) {
      if (letter == kNoLetter) break;
      int32_t* const counts = now + width + 4 * local_[StageOf(letter)];
      const ActionKind kind = KindOf(letter);
      held += problem_.stages[StageOf(letter)].after[Index(kind)];
      if (kind == ActionKind::kForward) ++counts[0];
      if (kind == ActionKind::kBackward || kind == ActionKind::kInputGradient) ++counts[1];
      if (kind == ActionKind::kInputGradient) ++counts[2], ++counts[3];
      if (kind == ActionKind::kWeightGradient) --counts[2];
    }
  }
}

void Evaluator::CountsBefore(int rank, int place) {
  for (const int32_t s : rank_stages_[rank]) {
    const int32_t* const counts = PrefixOf(rank, place, s);
    front_.counts[2 * s] = counts[0];
    front_.counts[2 * s + 1] = counts[1];
    if (!unequal_.empty()) unequal_.SetDone(s, counts[3], counts[3] - counts[2]);
  }
}

void Evaluator::FrontBefore(int rank, int place) {
  const int64_t since = place > 0 ? EndOf(rank, place - 1) : 0;
  for (int r = 0; r < ranks(); ++r) {
    const auto begin = start_.begin() + first_[r];
    const int at =
        r == rank ? place
                  : static_cast<int>(std::lower_bound(begin, begin + length_[r], since) - begin);
    front_.place[r] = at;
    front_.now[r] = at > 0 ? EndOf(r, at - 1) : 0;
    const int last = length(r) - 1;
    const int64_t all = last < 0 ? 0 : prefix_work_[first_[r] + last] + TimeOf(At(r, last));
    front_.left[r] = all - (at <= last ? prefix_work_[first_[r] + at] : all);
    CountsBefore(r, at);
  }
  // The last message of every queue gives the end of its transfer.
  std::fill(front_.queues.begin(), front_.queues.end(), 0);
  for (const OfLetter& letter : letters_) {
    if (letter.queue < 0) continue;
    const int32_t sent = front_.counts[letter.counter];
    if (sent == 0) continue;
    int64_t& queue = front_.queues[letter.queue];
    queue = std::max(queue, there_[letter.gives + sent - 1] - letter.latency);
  }
}

void Evaluator::FindSlots(const Group* groups, size_t size, int32_t* counts, Slot* slots) const {
  for (size_t i = 0; i < size; ++i) {
    Slot& slot = slots[i];
    slot = {TimeOf(groups[i]), {-1, -1}, {-1, -1}, {0, 0}};
    const std::array<Letter, 2> names = {groups[i].first, groups[i].second};
    for (size_t part = 0; part < names.size() && names[part] != kNoLetter; ++part) {
      const OfLetter& letter = letters_[names[part]];
      if (letter.counter < 0) break;
      const int32_t k = counts[letter.counter]++;
      slot.counts[part] = k;
      slot.needs[part] = letter.needs + k;
      if (letter.gives >= 0) slot.gives[part] = letter.gives + k;
    }
  }
}

inline void Evaluator::Give(const OfLetter& letter, int64_t transfer, int32_t at, int rank,
                            int64_t end) {
  int64_t arrives = end;
  if (letter.queue >= 0) {
    int64_t& queue = front_.queues[letter.queue];
    arrives = queue = std::max(queue, end) + transfer;
  }
  trial_there_[at] = arrives + letter.latency;
  int32_t& blocked = front_.blocked[letter.to];
  if (letter.to == rank || blocked != at) return;
  blocked = -1;
  ready_.push_back(letter.to);
}

bool Evaluator::Run(int64_t limit) {
  return unequal_.empty() ? RunOf<false>(limit) : RunOf<true>(limit);
}

template <bool kUnequal>
bool Evaluator::RunOf(int64_t limit) {
  const int64_t* const there = trial_there_.data();
  const Slot* const slots = slots_.data();
  int64_t* const starts = trial_start_.data();
  int64_t* const ends = trial_end_.data();
  std::fill(front_.blocked.begin(), front_.blocked.end(), -1);
  ready_.clear();
  for (int r = ranks() - 1; r >= 0; --r) ready_.push_back(r);
  while (!ready_.empty()) {
    const int r = ready_.back();
    ready_.pop_back();
    int32_t i = first_[r] + front_.place[r];
    const int32_t last = first_[r] + length_[r];
    int64_t now = front_.now[r];
    int64_t left = front_.left[r];
    for (; i < last; ++i) {
      const Slot& slot = slots[i];
      int64_t start = now;
      int32_t waits = -1;
      for (const int32_t at : slot.needs) {
        if (at < 0) break;
        if (there[at] < 0) waits = at;
        start = std::max(start, there[at]);
      }
      if (waits >= 0) {
        front_.blocked[r] = waits;
        break;
      }
      if (start + left > limit) return false;
      left -= slot.time;
      const Group group = word_[i];
      const int64_t time = kUnequal ? unequal_.TimeOfNext(group.first, slot.counts[0]) : slot.time;
      now = start + time;
      starts[i] = start;
      ends[i] = now;
      const std::array<Letter, 2> names = {group.first, group.second};
      for (size_t part = 0; part < names.size(); ++part) {
        const int32_t at = slot.gives[part];
        if (at < 0) continue;
        const OfLetter& letter = letters_[names[part]];
        const int64_t transfer =
            kUnequal ? unequal_.TransferOf(names[part], slot.counts[part]) : letter.transfer;
        Give(letter, transfer, at, r, now);
      }
    }
    front_.place[r] = i - first_[r];
    front_.now[r] = now;
    front_.left[r] = left;
  }
  for (int r = 0; r < ranks(); ++r) {
    if (front_.place[r] != length(r)) return false;
  }
  return true;
}

void Evaluator::TakeTrial() {
  for (int r = 0; r < ranks(); ++r) {
    const int32_t from = first_[r] + began_[r], to = first_[r] + length_[r];
    std::copy(trial_start_.begin() + from, trial_start_.begin() + to, start_.begin() + from);
    std::copy(trial_end_.begin() + from, trial_end_.begin() + to, end_.begin() + from);
  }
  for (size_t c = 0; c < touched_.size(); ++c) {
    if (given_[c].first < 0) continue;
    std::copy(trial_there_.begin() + given_[c].first + touched_[c],
              trial_there_.begin() + given_[c].second,
              there_.begin() + given_[c].first + touched_[c]);
  }
  unequal_.Keep();
  base_ = tried_;
}

Score Evaluator::Measure() const {
  Score score{0, 0};
  const bool spans = problem_.objective != Objective::kMakespan;
  for (int r = 0; r < ranks(); ++r) {
    if (length(r) == 0) continue;
    const int64_t first = began_[r] == 0 ? trial_start_[first_[r]] : start_[first_[r]];
    const int64_t took = front_.now[r] - (spans ? first : 0);
    score.value = std::max(score.value, took);
    score.ends += took;
  }
  return score;
}

bool Evaluator::GoBack(int* rank, int* place) const {
  const int64_t start = StartOf(*rank, *place);
  if (*place > 0 && EndOf(*rank, *place - 1) == start) {
    --*place;
    return true;
  }
  const Group group = At(*rank, *place);
  for (const Letter name : {group.first, group.second}) {
    if (name == kNoLetter || letters_[name].needs < 0) continue;
    const int s = StageOf(name);
    const int side = KindOf(name) == ActionKind::kForward ? 0 : 1;
    const int32_t k = PrefixOf(*rank, *place, s)[side];
    if (there_[letters_[name].needs + k] != start) continue;
    const int from = side == 0 ? problem_.stages[s].previous : problem_.stages[s].next;
    if (from < 0) continue;
    const int other = problem_.stages[from].rank;
    // The place at which the count of `from` goes from k to k + 1.
    int low = 0, high = length(other);
    while (low < high) {
      const int middle = (low + high) / 2;
      if (PrefixOf(other, middle + 1, from)[side] <= k) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    *rank = other;
    *place = low;
    return true;
  }
  return false;
}

void Evaluator::ExchangeWindow() {
  const auto first = static_cast<size_t>(first_[window_.rank()]);
  const size_t begin = first + static_cast<size_t>(window_.low);
  const size_t behind = begin + static_cast<size_t>(window_.count);
  const size_t end = first + static_cast<size_t>(length_[window_.rank()]);
  const auto count = static_cast<int>(window_.groups.size());
  Exchange(begin, behind, end, &word_, &window_.groups);
  Exchange(begin, behind, end, &slots_, &window_.slots);
  length_[window_.rank()] += count - window_.count;
  window_.count = count;
}

bool Evaluator::IsPossible(const Move& move) {
  if (!HasGroups(move, WordOf(move.rank), problem_)) return false;
  window_.Find(move, WordOf(move.rank));
  const Group moved = At(move.rank, move.from);
  if (move.kind != Move::Kind::kTakeBack && !KeepsOrder(StageOf(moved.first))) return false;
  const bool moves_second = moved.is_pair() && move.kind != Move::Kind::kTakeForward;
  if (moves_second && !KeepsOrder(StageOf(moved.second))) return false;
  return KeepsCapacity();
}

bool Evaluator::KeepsOrder(int stage) const {
  const int32_t* const before = PrefixOf(window_.rank(), window_.low, stage);
  int32_t forwards = before[0], inputs = before[1], deferred = before[2];
  for (const Group group : window_.groups) {
    for (const Letter name : {group.first, group.second}) {
      if (name == kNoLetter || StageOf(name) != stage) continue;
      switch (KindOf(name)) {
        case ActionKind::kForward:
          ++forwards;
          break;
        case ActionKind::kWeightGradient:
          if (--deferred < 0) return false;
          break;
        case ActionKind::kInputGradient:
          ++deferred;
          [[fallthrough]];
        default:
          if (++inputs > forwards) return false;
      }
    }
  }
  return true;
}

bool Evaluator::KeepsCapacity() const {
  const int64_t capacity = problem_.capacity[window_.rank()];
  if (capacity >= kNoLimit) return true;
  int64_t held = prefix_held_[first_[window_.rank()] + window_.low];
  for (const Group group : window_.groups) {
    const auto [during, after] = MemoryOf(problem_, group);
    if (held + during > capacity) return false;
    held += after;
  }
  return true;
}

void Evaluator::ForgetBehindFront() {
  for (size_t c = 0; c < front_.counts.size(); ++c) {
    if (given_[c].first < 0) continue;
    std::fill(trial_there_.begin() + given_[c].first + front_.counts[c],
              trial_there_.begin() + given_[c].second, kNotThere);
  }
}

void Evaluator::ForgetTrial() {
  if (!is_to_be_forgotten_) return;
  is_to_be_forgotten_ = false;
  for (size_t c = 0; c < touched_.size(); ++c) {
    if (given_[c].first < 0) continue;
    std::copy(there_.begin() + given_[c].first + touched_[c], there_.begin() + given_[c].second,
              trial_there_.begin() + given_[c].first + touched_[c]);
  }
  unequal_.Restore();
}

Score Evaluator::Try(const Move& move, int64_t limit) {
  ForgetTrial();
  FrontBefore(move.rank, std::min(move.from, move.to));
  touched_ = front_.counts;
  began_ = front_.place;
  unequal_.BeginTrial();
  ForgetBehindFront();
  window_.Find(move, WordOf(move.rank));
  window_.slots.resize(window_.groups.size());
  FindSlots(window_.groups.data(), window_.groups.size(), front_.counts.data(),
            window_.slots.data());
  ExchangeWindow();
  if (move.kind != Move::Kind::kShift) {
    int64_t& left = front_.left[move.rank];
    const int32_t begin = first_[move.rank] + window_.low;
    for (int32_t i = begin; i < begin + window_.count; ++i) left += slots_[i].time;
    for (const Slot& slot : window_.slots) left -= slot.time;
  }
  // With spans a later start may make up for a rank's later end.
  const bool spans = problem_.objective != Objective::kMakespan;
  const bool ends = Run(spans ? kNoLimit : limit);
  ExchangeWindow();
  is_to_be_forgotten_ = true;
  window_.is_tried = ends;
  tried_ = ends ? Measure() : Score{};
  return tried_;
}

void Evaluator::Keep(const Move& move) {
  if (!window_.is_tried || !(window_.move == move)) Try(move, kNoLimit);
  is_to_be_forgotten_ = window_.is_tried = false;
  ExchangeWindow();
  TakeTrial();
  CountPrefixes(window_.rank(), window_.low);
}

}  // namespace stringline::search
