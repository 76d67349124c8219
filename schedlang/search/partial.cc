// The next groups of partial orders; partial.h has the choice and its proof.
#include "schedlang/search/partial.h"

#include <algorithm>

namespace stringline::search {
namespace {

constexpr int64_t kNotYet = kNoLimit;  // for a start

bool IsBackSide(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kInputGradient;
}

uint64_t Bit(int group) { return uint64_t{1} << group; }

}  // namespace

Branching::Branching(const Relaxed& relaxed) : relaxed_(relaxed), problem_(*relaxed.problem) {
  kinds_.resize(problem_.ranks);
  for (int r = 0; r < problem_.ranks; ++r) {
    AddKinds(r);
    AddPairs(r);
    fits_ = fits_ && kinds_[r].size() <= 64;
  }
  for (const StageWork& stage : problem_.stages) all_steps_ += 3 * stage.microbatches;
}

void Branching::AddKinds(int rank) {
  for (int s = 0; s < problem_.stage_count(); ++s) {
    const StageWork& stage = problem_.stages[s];
    if (stage.rank != rank) continue;
    for (const ActionKind action : kLetterKinds) {
      const bool is_used = action == ActionKind::kForward    ? true
                           : action == ActionKind::kBackward ? problem_.whole
                                                             : problem_.split;
      if (!is_used) continue;
      const Letter letter = LetterOf(action, s);
      const auto at = static_cast<size_t>(action);
      kinds_[rank].push_back({.group = {letter},
                              .time = stage.time[at],
                              .during = stage.during[at],
                              .after = stage.after[at],
                              .is_movable = IsMovable(letter),
                              .is_weight = action == ActionKind::kWeightGradient});
    }
  }
}

void Branching::AddPairs(int rank) {
  const size_t singles = kinds_[rank].size();
  for (size_t a = 0; a < singles; ++a) {
    for (size_t b = 0; b < singles; ++b) {
      const Kind first = kinds_[rank][a], second = kinds_[rank][b];
      if (KindOf(first.group.first) != ActionKind::kForward) continue;
      if (!IsBackSide(KindOf(second.group.first))) continue;
      const Group group{first.group.first, second.group.first};
      if (problem_.TimeOf(group) < 0) continue;
      kinds_[rank].push_back({.group = group,
                              .time = problem_.TimeOf(group),
                              .during = first.during + second.during,
                              .after = first.after + second.after});
    }
  }
}

// True if another message of the rank may have to wait for the letter's message.
bool Branching::SharesQueue(Letter letter) const {
  const auto receiver = [&](int s, bool is_forward) {
    const StageWork& stage = problem_.stages[s];
    const int to = is_forward ? stage.next : stage.previous;
    return to < 0 || problem_.stages[to].rank == stage.rank ? -1 : problem_.stages[to].rank;
  };
  const int own = StageOf(letter);
  const bool own_forward = KindOf(letter) == ActionKind::kForward;
  const int to = receiver(own, own_forward);
  if (to < 0) return false;
  for (int s = 0; s < problem_.stage_count(); ++s) {
    if (problem_.stages[s].rank != problem_.stages[own].rank) continue;
    for (const bool is_forward : {true, false}) {
      if (s == own && is_forward == own_forward) continue;
      if (receiver(s, is_forward) == to) {
        const StageWork& stage = problem_.stages[own];
        if ((own_forward ? stage.activation : stage.gradient).transfer > 0) return true;
      }
    }
  }
  return false;
}

bool Branching::IsMovable(Letter letter) const {
  const StageWork& stage = problem_.stages[StageOf(letter)];
  if (problem_.split && (stage.during[kWeightAt] > 0 || stage.after[kWeightAt] > 0)) return false;
  if (KindOf(letter) == ActionKind::kWeightGradient) return true;
  // In its later place the letter may be in a pair, whose other letter would remain.
  for (int i = 0; i < problem_.stage_count() * problem_.stage_count(); ++i) {
    const StageWork& first = problem_.stages[i / problem_.stage_count()];
    const StageWork& second = problem_.stages[i % problem_.stage_count()];
    for (const bool is_whole : {true, false}) {
      const auto& pairs = is_whole ? problem_.whole_pairs : problem_.input_pairs;
      if (pairs.empty() || pairs[i] < 0) continue;
      const int64_t back = second.time[is_whole ? kWholeAt : kInputAt];
      if (pairs[i] < std::max(first.time[kForwardAt], back)) return false;
    }
  }
  if (SharesQueue(letter)) return false;
  if (KindOf(letter) == ActionKind::kForward) return problem_.capacity[stage.rank] >= kNoLimit;
  // B and I may stand for each other, which leaves a W less to do, or another W in its place.
  const bool is_limited = problem_.capacity[stage.rank] < kNoLimit;
  if (is_limited && !relaxed_.limited[stage.rank]) return false;
  if (KindOf(letter) == ActionKind::kBackward) return true;
  if (is_limited && stage.after[kInputAt] > 0) return false;
  return !problem_.whole ||
         (problem_.whole_pairs.empty() && stage.time[kWeightAt] <= stage.time[kWholeAt]);
}

Partial Branching::Empty() const {
  Partial partial;
  partial.frontier = BeginningOf(relaxed_, kAnyRank);
  const auto ranks = static_cast<size_t>(problem_.ranks);
  partial.frontier.now.assign(ranks, 0);
  partial.frontier.activations.assign(relaxed_.at(problem_.stage_count(), 0), 0);
  partial.frontier.gradients = partial.frontier.activations;
  partial.queues.assign(ranks * ranks, 0);
  partial.held.assign(ranks, 0);
  partial.barred.assign(ranks, 0);
  partial.before.assign(ranks, kNoLimit);
  return partial;
}

int Branching::Steps(const Partial& partial) const {
  int steps = 0;
  for (size_t s = 0; s < problem_.stages.size(); ++s) {
    steps +=
        partial.frontier.forwards[s] + partial.frontier.backs[s] + partial.frontier.releases[s];
  }
  return steps;
}

int64_t Branching::ReadyAt(const Partial& partial, Letter letter) const {
  const int s = StageOf(letter);
  const StageWork& stage = problem_.stages[s];
  const Frontier& done = partial.frontier;
  if (KindOf(letter) == ActionKind::kForward) {
    const int k = done.forwards[s];
    if (k == stage.microbatches) return kNotYet;
    if (stage.previous < 0) return 0;
    return k < done.forwards[stage.previous] ? done.activations[relaxed_.at(s, k)] : kNotYet;
  }
  const int k = done.backs[s];
  if (!IsBackSide(KindOf(letter))) return done.releases[s] < k ? 0 : kNotYet;
  if (k >= done.forwards[s]) return kNotYet;
  if (stage.next < 0) return 0;
  return k < done.backs[stage.next] ? done.gradients[relaxed_.at(s, k)] : kNotYet;
}

int64_t Branching::StartOf(const Partial& partial, int rank, const Kind& kind) const {
  if (partial.held[rank] + kind.during > problem_.capacity[rank]) return kNotYet;
  int64_t start = std::max(partial.frontier.now[rank], ReadyAt(partial, kind.group.first));
  if (kind.group.is_pair()) start = std::max(start, ReadyAt(partial, kind.group.second));
  return start;
}

// Chooses the rank, and its groups that can start before the first end; false if nothing is left to
// try.
bool Branching::Choose(Partial* partial, std::vector<Next>* nexts) const {
  nexts->clear();
  Next first;
  int64_t end = kNoLimit;
  bool first_moves = false;
  std::vector<char> has_some(problem_.ranks, false);
  for (int r = 0; r < problem_.ranks; ++r) {
    for (size_t g = 0; g < kinds_[r].size(); ++g) {
      const Kind& kind = kinds_[r][g];
      const int group = static_cast<int>(g);
      if ((partial->barred[r] & Bit(group)) != 0) continue;
      const int64_t start = StartOf(*partial, r, kind);
      if (start >= kNotYet || start >= partial->before[r]) continue;
      has_some[r] = true;
      const int64_t ends = start + kind.time;
      if (ends > end || (ends == end && (first_moves || !kind.is_movable))) continue;
      end = ends;
      first = {r, group, start};
      first_moves = kind.is_movable;
    }
  }
  if (end == kNoLimit) return false;
  // A rank waits longer than it may.
  for (int r = 0; r < problem_.ranks; ++r) {
    if (!has_some[r] && partial->before[r] <= end) return false;
  }
  for (size_t g = 0; g < kinds_[first.rank].size(); ++g) {
    const int group = static_cast<int>(g);
    if ((partial->barred[first.rank] & Bit(group)) != 0) continue;
    const int64_t start = StartOf(*partial, first.rank, kinds_[first.rank][g]);
    if (start >= partial->before[first.rank]) continue;
    if (start < end || group == first.group) nexts->push_back({first.rank, group, start});
  }
  return true;
}

bool Branching::Wait(Partial* partial, const std::vector<Next>& nexts) const {
  const int rank = nexts[0].rank;
  int64_t first_end = kNoLimit, movable_end = kNoLimit;
  for (const Next& next : nexts) {
    const Kind& kind = kinds_[rank][next.group];
    const int64_t end = next.start + kind.time;
    first_end = std::min(first_end, end);
    if (kind.is_movable) movable_end = std::min(movable_end, end);
    partial->barred[rank] |= Bit(next.group);
  }
  if (movable_end <= first_end) return false;
  partial->before[rank] = std::min(partial->before[rank], movable_end);
  return true;
}

uint64_t Branching::BarredBehind(const Partial& partial, const Next& weight) const {
  const Kind& done = kinds_[weight.rank][weight.group];
  if (done.time == 0) return 0;
  uint64_t barred = 0;
  for (size_t g = 0; g < kinds_[weight.rank].size(); ++g) {
    const Kind& kind = kinds_[weight.rank][g];
    const int group = static_cast<int>(g);
    if (group == weight.group || (partial.barred[weight.rank] & Bit(group)) != 0) continue;
    if (kind.is_weight ? group > weight.group || kind.time == 0
                       : partial.held[weight.rank] + kind.after + done.during >
                             problem_.capacity[weight.rank]) {
      continue;
    }
    if (StartOf(partial, weight.rank, kind) <= weight.start) barred |= Bit(group);
  }
  return barred;
}

void Branching::Do(const Next& next, Partial* partial) const {
  const Kind& kind = kinds_[next.rank][next.group];
  partial->barred[next.rank] = kind.is_weight ? BarredBehind(*partial, next) : 0;
  partial->before[next.rank] = kNoLimit;
  const int64_t end = next.start + kind.time;
  partial->frontier.now[next.rank] = end;
  partial->held[next.rank] += kind.after;
  Give(kind.group.first, end, partial);
  if (kind.group.is_pair()) Give(kind.group.second, end, partial);
}

void Branching::Give(Letter letter, int64_t end, Partial* partial) const {
  const int s = StageOf(letter);
  const StageWork& stage = problem_.stages[s];
  Frontier& done = partial->frontier;
  switch (KindOf(letter)) {
    case ActionKind::kForward: {
      const int k = done.forwards[s]++;
      if (stage.next >= 0)
        Send(s, stage.next, stage.activation, end, k, &done.activations, partial);
      return;
    }
    case ActionKind::kWeightGradient:
      ++done.releases[s];
      return;
    default:
      break;
  }
  const int k = done.backs[s]++;
  if (KindOf(letter) == ActionKind::kBackward) ++done.releases[s];
  if (stage.previous < 0) return;
  Send(s, stage.previous, stage.gradient, end, k, &done.gradients, partial);
}

void Branching::Send(int from, int to, const MessageTime& message, int64_t end, int k,
                     std::vector<int64_t>* arrivals, Partial* partial) const {
  const int a = relaxed_.rank(from), b = relaxed_.rank(to);
  if (a != b) {
    int64_t& queue =
        partial->queues[static_cast<size_t>(a) * partial->held.size() + static_cast<size_t>(b)];
    queue = std::max(queue, end) + message.transfer;
    end = queue + message.latency;
  }
  (*arrivals)[relaxed_.at(to, k)] = end;
}

}  // namespace stringline::search
