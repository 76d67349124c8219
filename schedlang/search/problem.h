// What the optimiser orders, in flat numbers: the stages of every rank, what their actions take,
// and what they hold.
//
// Microbatches are alike. So only letters matter: the k-th F of a stage is that of microbatch k,
// the k-th of its B and I together likewise, and a W takes the oldest I of its stage. Nothing is
// lost by it: whatever comes k-th of a stage in an order can be given to microbatch k, and every
// value is then there at least as early (of k values that are there, the k-th one is). An order is
// a word of letters for every rank, and the counters of the language number it.
//
// Time is counted as the simulator does for the layout `edge` (sim/simulate.h), without receive
// buffers, shared links and collectives: a message waits for the one before it of the same sender
// and receiver, occupies that queue for its transfer, and arrives a latency later.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedlang/plan.h"

namespace stringline::search {

inline constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max() / 4;
inline constexpr int64_t kNotThere = -1;  // as the time at which a value is there

// A kind of a stage. Of groups `F a & B b` the parts are letters too.
using Letter = uint16_t;
inline constexpr Letter kNoLetter = 0xFFFF;
inline constexpr int kMostStages = 0x3FFE;
constexpr Letter LetterOf(ActionKind kind, int stage) {
  return static_cast<Letter>(stage * 4 + static_cast<int>(kind));
}
constexpr ActionKind KindOf(Letter letter) { return static_cast<ActionKind>(letter & 3); }
constexpr int StageOf(Letter letter) { return letter >> 2; }

// What a rank does at once: one action, or the two parts of a pair (the F first).
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
  kSpan,      // the most of: a rank's end less the start of its first action. Of use only where the
              // optimizer's step of a rank need not wait for those of others
  kPeriod,    // the time that a further step takes, where many follow each other and every rank
              // begins the next one as soon as it has ended its own: the most of a rank, a step of
              // the third and fourth. Never less than a rank computes. Of use as kSpan is
};
const char* NameOf(Objective objective);  // "makespan"
// By its name; nothing for a word that is none.
std::optional<Objective> ObjectiveOf(absl::string_view name);

// Places in the tables of StageWork, as ActionKind counts.
inline constexpr size_t kForwardAt = 0, kWholeAt = 1, kInputAt = 2, kWeightAt = 3;
constexpr size_t Index(ActionKind kind) { return static_cast<size_t>(kind); }

// A message from one rank to another; nothing where both stages are on one rank.
struct MessageTime {
  int64_t latency = 0;
  int64_t transfer = 0;
  int64_t all() const { return latency + transfer; }
};

struct StageWork {
  int rank = 0;
  int previous = -1;  // stage of the same pipe, or -1
  int next = -1;
  int microbatches = 0;
  std::array<int64_t, 4> time = {};  // by ActionKind F, B, I, W: nanoseconds
  MessageTime activation;            // of F, to `next`
  MessageTime gradient;              // of B and I, to `previous`
  // What its rank holds more while the action runs, and from its end on: activations, or bytes. B
  // holds what F took until its end.
  std::array<int64_t, 4> during = {};
  std::array<int64_t, 4> after = {};
};

struct Problem {
  int ranks = 0;
  std::vector<StageWork> stages;
  std::vector<int64_t> capacity;  // by rank: the most that it may hold; kNoLimit
  bool whole = false;             // B may be used
  bool split = true;              // I and W may be used
  // What `F a & B b` and `F a & I b` take, at [a * stages + b]; -1 where they are not allowed.
  // Empty: no pairs.
  std::vector<int64_t> whole_pairs;
  std::vector<int64_t> input_pairs;
  Objective objective = Objective::kMakespan;

  int stage_count() const { return static_cast<int>(stages.size()); }
  // Of a pair, by the tables above; -1 if it may not be one.
  int64_t TimeOf(Group group) const;
};

// What F of stage a and a B or I of stage b take together, for all two stages of one rank: a table
// of pairs, as above.
std::vector<int64_t> PairTimes(const Problem& problem,
                               const std::function<int64_t(int a, int b)>& time);

// How many letters its words have at the most.
int64_t LettersOf(const Problem& problem);

// How many stages of its pipe come before the stage.
int DepthOf(const Problem& problem, int stage);

// What the rank computes at the least: its actions alone, or better in pairs.
int64_t LeastWork(const Problem& problem, int rank);

// When every group starts and ends. An empty `starts` means that the words never end: ranks wait
// for each other, or a letter comes before what it needs on its rank.
struct Times {
  std::vector<std::vector<int64_t>> starts;  // by rank and place in its word
  std::vector<std::vector<int64_t>> ends;
  int64_t makespan = 0;
  int64_t span = 0;
  bool whole() const { return !starts.empty(); }
};

// The plain evaluation, by which everything faster is tested. `steps` words of every rank follow
// each other. Cost: linear in letters.
Times TimesOf(const Problem& problem, const Words& words, int steps = 1);

// What the problem wants small; kNoLimit for words that never end. Cost: that of TimesOf, and for
// kPeriod some four times as much.
int64_t ValueOf(const Problem& problem, const Words& words);

// Whether the words are made of groups that the problem allows, every letter comes as often as it
// has to, on its rank, behind what it needs there, and no rank holds more than it may. Any words
// may be asked about.
bool IsComplete(const Problem& problem, const Words& words);

}  // namespace stringline::search
