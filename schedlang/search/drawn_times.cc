// Ranks advance one after the other, each as far as its needs are there: which order of advances
// does not matter, as a value once there has its time in all draws.
#include "schedlang/search/drawn_times.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

namespace stringline::search {

DrawnTimes::DrawnTimes(const Problem& problem, Draws draws)
    : problem_(problem), draws_(std::move(draws)) {
  int all = 0;
  for (const StageWork& stage : problem_.stages) {
    first_.push_back(all);
    all += stage.microbatches;
  }
  const auto count = static_cast<size_t>(draws_.count);
  times_.resize(4 * static_cast<size_t>(all) * count);
  for (int s = 0; s < problem_.stage_count(); ++s) {
    const StageWork& stage = problem_.stages[s];
    for (const ActionKind kind : kLetterKinds) {
      for (int m = 0; m < stage.microbatches; ++m) {
        const auto time = static_cast<double>(stage.TimeOf(kind, static_cast<size_t>(m)));
        for (size_t k = At(s, kind, m) * count, end = k + count; k < end; ++k) {
          times_[k] = std::llround(draws_.factors.empty() ? time : time * draws_.factors[k]);
        }
      }
    }
  }
  const auto values = 2 * static_cast<size_t>(all);
  const auto ranks = static_cast<size_t>(problem_.ranks);
  there_.resize(values * count);
  is_there_.resize(values);
  now_.resize(ranks * count);
  queues_.resize(ranks * ranks * count);
  length_.resize(count);
  counts_.resize(problem_.stages.size());
  deferred_.resize(static_cast<size_t>(all));
  place_.resize(ranks);
}

bool DrawnTimes::Run(const Words& words) {
  std::fill(now_.begin(), now_.end(), 0);
  std::fill(queues_.begin(), queues_.end(), 0);
  ends_.clear();
  for (int step = 0; step < draws_.steps; ++step) {
    if (!Step(words)) return false;
    for (size_t r = 0; r < draws_.update.size(); ++r) {
      for (int k = 0; k < draws_.count; ++k) now_[r * draws_.count + k] += draws_.update[r];
    }
    ends_.push_back(now_);
  }
  return true;
}

bool DrawnTimes::Step(const Words& words) {
  std::fill(is_there_.begin(), is_there_.end(), 0);
  std::fill(counts_.begin(), counts_.end(), std::array<int, 4>{});
  std::fill(place_.begin(), place_.end(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < problem_.ranks; ++r) moved = Advance(r, words[r]) || moved;
  }
  for (size_t r = 0; r < words.size(); ++r) {
    if (place_[r] != words[r].size()) return false;
  }
  return true;
}

bool DrawnTimes::Advance(int rank, const std::vector<Group>& word) {
  const size_t before = place_[rank];
  int64_t* const now = &now_[static_cast<size_t>(rank) * static_cast<size_t>(draws_.count)];
  for (size_t& place = place_[rank]; place < word.size(); ++place) {
    const Group group = word[place];
    const int64_t* needs[] = {nullptr, nullptr};
    const int first = Ready(group.first, &needs[0]);
    if (first < 0) break;
    const int second = group.is_pair() ? Ready(group.second, &needs[1]) : -1;
    if (group.is_pair() && second < 0) break;
    for (const int64_t* const need : needs) {
      if (need == nullptr) continue;
      for (int k = 0; k < draws_.count; ++k) now[k] = std::max(now[k], need[k]);
    }
    FindLength(group, first);
    for (int k = 0; k < draws_.count; ++k) now[k] += length_[k];
    Give(group.first, first, rank);
    if (group.is_pair()) Give(group.second, second, rank);
  }
  return place_[rank] != before;
}

int DrawnTimes::Ready(Letter letter, const int64_t** need) const {
  const int s = StageOf(letter);
  const StageWork& stage = problem_.stages[s];
  const auto [forwards, backs, inputs, weights] = counts_[s];
  const ActionKind kind = KindOf(letter);
  if (kind == ActionKind::kWeightGradient) {
    return weights < inputs ? deferred_[first_[s] + weights] : -1;
  }
  const bool forward = kind == ActionKind::kForward;
  const int microbatch = forward ? forwards : backs;
  if (microbatch >= (forward ? stage.microbatches : forwards)) return -1;
  if ((forward ? stage.previous : stage.next) < 0) return microbatch;
  const size_t value = first_[s] + microbatch + (forward ? 0 : deferred_.size());
  *need = &there_[value * draws_.count];
  return is_there_[value] != 0 ? microbatch : -1;
}

void DrawnTimes::FindLength(Group group, int microbatch) {
  const size_t at = At(StageOf(group.first), KindOf(group.first), microbatch) * draws_.count;
  if (!group.is_pair()) {
    std::copy_n(times_.begin() + static_cast<std::ptrdiff_t>(at), draws_.count, length_.begin());
    return;
  }
  const int64_t both = problem_.TimeOf(group);
  for (int k = 0; k < draws_.count; ++k) {
    length_[k] = draws_.factors.empty()
                     ? both
                     : std::llround(static_cast<double>(both) * draws_.factors[at + k]);
  }
}

void DrawnTimes::Give(Letter letter, int microbatch, int rank) {
  const int s = StageOf(letter);
  const StageWork& stage = problem_.stages[s];
  const ActionKind kind = KindOf(letter);
  const bool forward = kind == ActionKind::kForward;
  auto& [forwards, backs, inputs, weights] = counts_[s];
  if (kind == ActionKind::kWeightGradient) {
    ++weights;
    return;
  }
  if (kind == ActionKind::kInputGradient) deferred_[first_[s] + inputs++] = microbatch;
  ++(forward ? forwards : backs);
  const int to = forward ? stage.next : stage.previous;
  if (to < 0) return;
  const size_t value = first_[to] + microbatch + (forward ? 0 : deferred_.size());
  is_there_[value] = 1;
  int64_t* const there = &there_[value * draws_.count];
  const int64_t* const now = &now_[static_cast<size_t>(rank) * static_cast<size_t>(draws_.count)];
  const int other = problem_.stages[to].rank;
  if (other == rank) {
    std::copy_n(now, draws_.count, there);
    return;
  }
  const auto m = static_cast<size_t>(microbatch);
  const MessageTime& message = forward ? stage.ActivationOf(m) : stage.GradientOf(m);
  int64_t* const queue = &queues_[static_cast<size_t>(rank * problem_.ranks + other) *
                                  static_cast<size_t>(draws_.count)];
  for (int k = 0; k < draws_.count; ++k) {
    queue[k] = std::max(queue[k], now[k]) + message.transfer;
    there[k] = queue[k] + message.latency;
  }
}

std::vector<int64_t> DrawnTimes::Makespans() const {
  std::vector<int64_t> makespans(static_cast<size_t>(draws_.count), 0);
  for (size_t i = 0; i < now_.size(); ++i) {
    int64_t& makespan = makespans[i % makespans.size()];
    makespan = std::max(makespan, now_[i]);
  }
  return makespans;
}

int64_t DrawnTimes::Period() const {
  const int last = draws_.steps - 2;
  int64_t longest = 0;
  for (size_t i = 0; i < now_.size(); ++i) {
    longest = std::max(longest, (ends_[last][i] - ends_[0][i] + last - 1) / last);
  }
  return longest;
}

template <typename OfDraws>
Problem DrawnTimes::With(OfDraws of) const {
  Problem problem = problem_;
  for (int s = 0; s < problem_.stage_count(); ++s) {
    const StageWork& stage = problem_.stages[s];
    std::vector<MicrobatchWork> each;
    for (int m = 0; m < stage.microbatches; ++m) {
      const auto index = static_cast<size_t>(m);
      MicrobatchWork& work = each.emplace_back();
      work.activation = stage.ActivationOf(index);
      work.gradient = stage.GradientOf(index);
      for (const ActionKind kind : kLetterKinds) {
        work.time[Index(kind)] = of(&times_[At(s, kind, m) * draws_.count]);
      }
    }
    problem.stages[s].SetEach(std::move(each));
  }
  return problem;
}

Problem DrawnTimes::OfDraw(int draw) const {
  return With([draw](const int64_t* times) { return times[draw]; });
}

Problem DrawnTimes::OfMeans() const {
  return With([count = draws_.count](const int64_t* times) {
    return std::accumulate(times, times + count, int64_t{0}) / count;
  });
}

double DrawnTimes::LeastMean() const {
  double least = 1;
  if (draws_.factors.empty()) return least;
  for (size_t i = 0; i < draws_.factors.size(); i += draws_.count) {
    const float* const of = &draws_.factors[i];
    least = std::min(least, std::accumulate(of, of + draws_.count, 0.0) / draws_.count);
  }
  return least;
}

}  // namespace stringline::search
