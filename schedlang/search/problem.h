// The optimiser's problem in flat numbers: the stages of every rank, with the times and the memory
// of their actions.
//
// Only letters matter: the k-th F of a stage is for microbatch k, the k-th of its B and I together
// likewise, and a W takes the oldest I of its stage. Where microbatches are alike nothing is lost:
// the k-th letter of a stage in an order can take microbatch k, and every value is then available
// at least as early (of k available values, the k-th is). An order is a word of letters for every
// rank, numbered by the counters of the language.
//
// Unequal microbatches have times of their own (StageWork::each), and go through all stages in the
// order of their numbers. Bounds are on any order of them: those of the least times, and of sums.
//
// Time is counted as in the simulator for the layout `edge` (sim/simulate.h), without receive
// buffers, shared links and collectives: a message waits for the message before it with the same
// sender and receiver, occupies their queue for its transfer, and arrives a latency later.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedlang/base/stop.h"
#include "schedlang/plan/plan.h"

namespace stringline::search {

inline constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max() / 4;
inline constexpr int64_t kNotThere = -1;  // the arrival time of a value that has not arrived

// An action kind of a stage. The parts of a group `F a & B b` are letters too.
using Letter = uint16_t;
inline constexpr Letter kNoLetter = 0xFFFF;
inline constexpr int kMostStages = 0x3FFE;
constexpr Letter LetterOf(ActionKind kind, int stage) {
  return static_cast<Letter>(stage * 4 + static_cast<int>(kind));
}
constexpr ActionKind KindOf(Letter letter) { return static_cast<ActionKind>(letter & 3); }
constexpr int StageOf(Letter letter) { return letter >> 2; }

// A group of a rank: a single action, or the two parts of a pair (the F first).
struct Group {
  Letter first = kNoLetter;
  Letter second = kNoLetter;
  bool is_pair() const { return second != kNoLetter; }
  friend bool operator==(Group a, Group b) { return a.first == b.first && a.second == b.second; }
};

// By rank.
using Words = std::vector<std::vector<Group>>;

enum class Objective : uint8_t {
  kMakespan,  // the end of the last rank
  kSpan,      // the longest time of a rank from the start of its first action to its end. Useful
              // only if the optimizer's step of a rank need not wait for other ranks
  kPeriod,    // the time of a further step, when many follow each other and every rank begins the
              // next at the end of its own: the maximum over ranks, per step, of the third and
              // fourth. At least the work of a rank. Useful as kSpan is
};
const char* NameOf(Objective objective);  // "makespan"
// The objective of that name; nothing for an unknown name.
std::optional<Objective> ObjectiveOf(absl::string_view name);

// Places in the tables of StageWork, in the order of ActionKind.
inline constexpr size_t kForwardAt = 0, kWholeAt = 1, kInputAt = 2, kWeightAt = 3;
constexpr size_t Index(ActionKind kind) { return static_cast<size_t>(kind); }
inline constexpr std::array<ActionKind, 4> kLetterKinds = {
    ActionKind::kForward, ActionKind::kBackward, ActionKind::kInputGradient,
    ActionKind::kWeightGradient};

// A message between ranks; zero if both stages are on one rank.
struct MessageTime {
  int64_t latency = 0;
  int64_t transfer = 0;
  int64_t all() const { return latency + transfer; }
};

// The times of one of several unequal microbatches, as in StageWork.
struct MicrobatchWork {
  std::array<int64_t, 4> time = {};
  MessageTime activation;
  MessageTime gradient;
};

struct StageWork {
  int rank = 0;
  int previous = -1;  // stage of the same pipe, or -1
  int next = -1;
  int microbatches = 0;
  // The times of each microbatch, or the least of unequal ones:
  std::array<int64_t, 4> time = {};  // by ActionKind F, B, I, W: nanoseconds
  MessageTime activation;            // from F, to `next`
  MessageTime gradient;              // from B and I, to `previous`
  std::vector<MicrobatchWork> each;  // by microbatch, where they are unequal; else empty
  // The change of the rank's held memory, in activations or bytes, while the action runs, and from
  // its end on. B holds the memory of its F until its end.
  std::array<int64_t, 4> during = {};
  std::array<int64_t, 4> after = {};

  int64_t TimeOf(ActionKind kind, size_t microbatch) const {
    return (each.empty() ? time : each[microbatch].time)[Index(kind)];
  }
  const MessageTime& ActivationOf(size_t microbatch) const {
    return each.empty() ? activation : each[microbatch].activation;
  }
  const MessageTime& GradientOf(size_t microbatch) const {
    return each.empty() ? gradient : each[microbatch].gradient;
  }
  // Gives the stage unequal microbatches, and the least of their times.
  void SetEach(std::vector<MicrobatchWork> microbatches);
};

struct Problem {
  int ranks = 0;
  std::vector<StageWork> stages;
  std::vector<int64_t> capacity;  // by rank: the most that it may hold; kNoLimit
  bool whole = false;             // B may be used
  bool split = true;              // I and W may be used
  // The times of `F a & B b` and `F a & I b`, at [a * stages + b]; -1: not allowed. Empty: no
  // pairs, as with unequal microbatches.
  std::vector<int64_t> whole_pairs;
  std::vector<int64_t> input_pairs;
  Objective objective = Objective::kMakespan;
  // On this wish all work on the problem ends soon: with complete orders or none, and with bounds
  // that hold. May be null.
  const Stop* stop = nullptr;

  int stage_count() const { return static_cast<int>(stages.size()); }
  bool is_unequal() const { return !stages.empty() && !stages[0].each.empty(); }
  // The group's time, for a pair by the tables above; -1 if the pair is not allowed. Of unequal
  // microbatches the least.
  int64_t TimeOf(Group group) const;
};

// The times of F of stage a beside a B or I of stage b, for every two stages of a rank: a table of
// pairs, as above.
std::vector<int64_t> PairTimes(const Problem& problem,
                               const std::function<int64_t(int a, int b)>& time);

// The change of held memory by a group's letters together: while it runs, and from its end on.
struct GroupMemory {
  int64_t during = 0;
  int64_t after = 0;
};
inline GroupMemory MemoryOf(const Problem& problem, Group group) {
  GroupMemory memory;
  for (const Letter letter : {group.first, group.second}) {
    if (letter == kNoLetter) break;
    const StageWork& work = problem.stages[static_cast<size_t>(StageOf(letter))];
    memory.during += work.during[Index(KindOf(letter))];
    memory.after += work.after[Index(KindOf(letter))];
  }
  return memory;
}

// The most letters of the problem's words.
int64_t LettersOf(const Problem& problem);

// The reason why the optimiser refuses so many stages or letters; empty if it takes them. (The
// table of pairs is quadratic in the stages.)
std::string WhyTooLarge(int64_t stages, int64_t letters);

// The number of stages before the stage in its pipe.
int DepthOf(const Problem& problem, int stage);

// The least time of a microbatch of these times (StageWork::time): its F, and its B or I and W.
int64_t LeastTimeOf(const Problem& problem, const std::array<int64_t, 4>& time);

// A lower bound on the rank's computation: its actions alone, or in pairs if shorter.
int64_t LeastWork(const Problem& problem, int rank);

// The start and end of every group. Empty `starts` if the words never end: ranks wait for each
// other, or a letter precedes its needs on its rank.
struct Times {
  std::vector<std::vector<int64_t>> starts;  // by rank and place in its word
  std::vector<std::vector<int64_t>> ends;
  int64_t makespan = 0;
  int64_t span = 0;
  bool whole() const { return !starts.empty(); }
};

// The plain evaluation, against which every faster method is tested. `steps` words of every rank
// follow each other. Cost: linear in letters.
Times TimesOf(const Problem& problem, const Words& words, int steps = 1);

// The value of the problem's objective; kNoLimit for words that never end. Cost: that of TimesOf,
// and for kPeriod some four times as much.
int64_t ValueOf(const Problem& problem, const Words& words);

// By how much a value is above a bound, as a share of the bound; 0 where there is none.
inline double GapOf(int64_t value, int64_t bound) {
  return bound <= 0 ? 0 : static_cast<double>(value - bound) / static_cast<double>(bound);
}

// True if all groups of the words are allowed, every letter occurs as often as required, on its
// rank, behind its needs, and no rank exceeds its capacity. Accepts any words.
bool IsComplete(const Problem& problem, const Words& words);

}  // namespace stringline::search
