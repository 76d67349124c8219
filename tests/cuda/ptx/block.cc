// The threads of a group share an instruction, so a step costs one loop over them and no search.
// Where the group parts or waits, the next one is chosen: that looks at all threads.
#include "tests/cuda/ptx/block.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace stringline::ptx {
namespace {

constexpr int kLanes = BlockMemory::kLanes;

size_t RoundUp(size_t number, size_t to) { return (number + to - 1) / to * to; }

}  // namespace

BlockPlayer::BlockPlayer(const Launch& launch, Time* time)
    : launch_(launch),
      program_(*launch.program),
      time_(*time),
      threads_(static_cast<int>(launch.block.count())),
      memory_(launch_, time, RoundUp(static_cast<size_t>(threads_), kLanes)) {
  const size_t stride = RoundUp(static_cast<size_t>(threads_), kLanes);
  at_.pc.resize(stride, kIdle);
  at_.state.resize(stride);
  at_.waits_at.resize(stride);
  group_.list.resize(stride);
  registers_.resize(program_.register_bytes * stride / sizeof(uint64_t) + stride);
  group_.lanes.registers = reinterpret_cast<std::byte*>(registers_.data());
  group_.lanes.stride = stride;
  reached_.resize(stride);
  for (const Constant& constant : program_.constants) {
    for (size_t t = 0; t < stride; ++t) {
      std::memcpy(group_.lanes.registers + constant.at * stride + constant.bytes * t,
                  &constant.bits, constant.bytes);
    }
  }
}

void BlockPlayer::Begin(Size3 index) {
  memory_.Begin(index.x + int64_t{launch_.grid.x} * (index.y + int64_t{launch_.grid.y} * index.z));
  const Size3 &grid = launch_.grid, &block = launch_.block;
  for (const Special& special : program_.specials) {
    auto* const cells = group_.lanes.cells<uint32_t>(special.at);
    for (int i = 0; i < static_cast<int>(group_.lanes.stride); ++i) {
      const auto t = static_cast<unsigned>(i);
      const auto pick = [&](const Size3& size, size_t at) {
        const char axis = special.name[at];
        return axis == 'x' ? size.x : axis == 'y' ? size.y : size.z;
      };
      if (special.name == "%laneid") {
        cells[i] = t % kLanes;
      } else if (special.name == "%warpid") {
        cells[i] = t / kLanes;
      } else if (special.name.rfind("%tid.", 0) == 0) {
        cells[i] = pick({t % block.x, t / block.x % block.y, t / block.x / block.y}, 5);
      } else if (special.name.rfind("%ntid.", 0) == 0) {
        cells[i] = pick(block, 6);
      } else if (special.name.rfind("%ctaid.", 0) == 0) {
        cells[i] = pick(index, 7);
      } else {
        cells[i] = pick(grid, 8);
      }
    }
  }
  std::fill_n(at_.pc.begin(), threads_, 0);
  std::fill(at_.state.begin(), at_.state.end(), State::kExited);
  std::fill_n(at_.state.begin(), threads_, State::kRuns);
}

std::string BlockPlayer::Play(Size3 index) {
  Begin(index);
  while (memory_.fault().empty()) {
    if (Choose()) {
      PlayGroup();
    } else if (!ReleaseBarrier()) {
      break;
    }
  }
  return memory_.fault();
}

// The threads at the lowest instruction.
bool BlockPlayer::Choose() {
  int32_t lowest = kIdle;
  for (int t = 0; t < threads_; ++t) lowest = std::min(lowest, at_.pc[t]);
  if (lowest == kIdle) return false;
  Lanes& lanes = group_.lanes;
  lanes.count = 0;
  group_.next = kIdle;
  for (int t = 0; t < threads_; ++t) {
    if (at_.pc[t] == lowest) {
      group_.list[lanes.count++] = static_cast<uint16_t>(t);
    } else {
      group_.next = std::min(group_.next, at_.pc[t]);
    }
  }
  lanes.begin = group_.list[0];
  lanes.end = group_.list[lanes.count - 1] + 1;
  lanes.list = lanes.end - lanes.begin == lanes.count ? nullptr : group_.list.data();
  return true;
}

void BlockPlayer::Leave(int32_t pc) {
  ForEach(group_.lanes, [&](int t) { at_.pc[t] = pc; });
}

void BlockPlayer::PlayGroup() {
  int32_t pc = at_.pc[group_.lanes.begin];
  const Step* const steps = program_.steps.data();
  do {
    const Step& step = steps[pc];
    time_.instructions += group_.lanes.count;
    if (step.kind == Kind::kEach && step.guard < 0) {
      step.apply(step, group_.lanes);
      ++pc;
    } else if (!(step.guard < 0 || step.kind == Kind::kBranch ? Perform(step, &pc)
                                                              : Guarded(step, &pc))) {
      return;
    }
  } while (pc < group_.next && memory_.fault().empty());
  Leave(pc);
}

bool BlockPlayer::Perform(const Step& step, int32_t* pc) {
  switch (step.kind) {
    case Kind::kEach:
      step.apply(step, group_.lanes);
      break;
    case Kind::kLoad:
      Access<true>(step);
      break;
    case Kind::kStore:
      Access<false>(step);
      break;
    case Kind::kBranch:
      return Branch(step, pc);
    case Kind::kExit:
      ForEach(group_.lanes, [&](int t) { at_.state[t] = State::kExited; });
      Leave(kIdle);
      return false;
    case Kind::kBarrier:
      if (*pc != launch_.without && !Barrier(*pc)) return false;
      break;
    case Kind::kTogether:
    case Kind::kWarpBarrier:
    case Kind::kMatrices:
      if (*pc != launch_.without && !Together(step, *pc)) return false;
      break;
    case Kind::kTime:
      ForEach(group_.lanes, [&](int t) { group_.lanes.cells<int64_t>(step.at[0])[t] = time_.ns; });
      break;
    case Kind::kSleep:
      time_.ns += group_.lanes.cells<uint32_t>(step.at[0])[group_.lanes.begin];
      break;
    case Kind::kCopy:
      BeginCopies(step);
      break;
    case Kind::kCommit:
      ForEach(group_.lanes, [&](int t) { memory_.Commit(t); });
      break;
    case Kind::kWait:
      ForEach(group_.lanes, [&](int t) { memory_.EndCopies(step, t); });
      break;
  }
  ++*pc;
  return true;
}

bool BlockPlayer::Branch(const Step& step, int32_t* pc) {
  if (*pc >= step.target && time_.instructions > launch_.most_instructions) {
    memory_.Fault(step, group_.lanes.begin, "goes on without an end");
  }
  if (step.guard < 0) {
    *pc = step.target;
    return true;
  }
  const auto* const holds = group_.lanes.cells<uint8_t>(static_cast<uint32_t>(step.guard));
  const uint8_t wanted = step.guard_is ? 1 : 0;
  int taken = 0;
  ForEach(group_.lanes, [&](int t) { taken += holds[t] == wanted ? 1 : 0; });
  if (taken == 0 || taken == group_.lanes.count) {
    *pc = taken == 0 ? *pc + 1 : step.target;
    return true;
  }
  ForEach(group_.lanes, [&](int t) { at_.pc[t] = holds[t] == wanted ? step.target : *pc + 1; });
  return false;
}

// An instruction for those of the group whose predicate holds.
bool BlockPlayer::Guarded(const Step& step, int32_t* pc) {
  const auto* const holds = group_.lanes.cells<uint8_t>(static_cast<uint32_t>(step.guard));
  const Group whole = group_;
  std::vector<uint16_t> some;
  ForEach(whole.lanes, [&](int t) {
    if ((holds[t] != 0) == step.guard_is) some.push_back(static_cast<uint16_t>(t));
  });
  if (some.size() == static_cast<size_t>(whole.lanes.count)) return Perform(step, pc);
  Leave(*pc + 1);
  if (some.empty()) {
    ++*pc;
    return true;
  }
  Lanes& lanes = group_.lanes;
  lanes.begin = some.front();
  lanes.end = some.back() + 1;
  lanes.count = static_cast<int>(some.size());
  lanes.list = some.data();
  int32_t next = *pc;
  if (Perform(step, &next)) Leave(next);
  group_ = whole;
  group_.lanes.list = nullptr;  // chosen anew
  return false;
}

// Barriers of the block.

bool BlockPlayer::Barrier(int32_t pc) {
  if (group_.lanes.count == threads_) {
    memory_.PassBarrier();
    return true;
  }
  ForEach(group_.lanes, [&](int t) {
    at_.state[t] = State::kAtBarrier;
    at_.waits_at[t] = pc;
    at_.pc[t] = kIdle;
  });
  return false;
}

// Called when nobody can go on.
bool BlockPlayer::ReleaseBarrier() {
  int waiting = 0;
  bool same = true;
  int32_t at = -1;
  for (int t = 0; t < threads_; ++t) {
    if (at_.state[t] == State::kExited) continue;
    same = same && at_.state[t] == State::kAtBarrier && (at < 0 || at == at_.waits_at[t]);
    at = at_.waits_at[t];
    ++waiting;
  }
  if (waiting == 0) return false;
  if (!same || waiting < threads_) {
    Stuck();
    return false;
  }
  memory_.PassBarrier();
  for (int t = 0; t < threads_; ++t) {
    at_.state[t] = State::kRuns;
    at_.pc[t] = at + 1;
  }
  return true;
}

void BlockPlayer::Stuck() {
  const auto waits = [&](int t) {
    return at_.state[t] == State::kTogether || at_.state[t] == State::kAtBarrier;
  };
  int first = 0;
  while (!waits(first)) ++first;
  for (int t = 0; t < threads_; ++t) {  // lanes of a warp are named before a barrier
    if (at_.state[t] == State::kTogether && at_.state[first] != State::kTogether) first = t;
  }
  const bool of_warp = at_.state[first] == State::kTogether;
  const Step& step = program_.steps[at_.waits_at[first]];
  int other = of_warp ? first / kLanes * kLanes : 0;
  const int end = of_warp ? std::min(threads_, other + kLanes) : threads_;
  while (other < end && waits(other) && at_.waits_at[other] == at_.waits_at[first]) ++other;
  std::string where = "is elsewhere";
  if (other < end && at_.state[other] == State::kExited) where = "has exited";
  if (other < end && waits(other)) {
    where = absl::StrCat("waits at ", program_.TextOf(program_.steps[at_.waits_at[other]]));
  }
  memory_.Fault(step, first, absl::StrCat("waits in divergent code: thread ", other, " ", where));
}

// Instructions of warps.

bool BlockPlayer::Together(const Step& step, int32_t pc) {
  const Lanes& lanes = group_.lanes;
  bool whole = lanes.list == nullptr && lanes.begin % kLanes == 0 &&
               (lanes.end % kLanes == 0 || lanes.end == threads_);
  if (whole && step.number >= 0) {
    const auto* const masks = lanes.cells<uint32_t>(static_cast<uint32_t>(step.number));
    uint32_t all = ~0u;
    ForEach(lanes, [&](int t) { all &= masks[t]; });
    whole = all == ~0u;
  }
  if (whole) {
    PerformTogether(step);
    return true;
  }
  ForEach(lanes, [&](int t) {
    at_.state[t] = State::kTogether;
    at_.waits_at[t] = pc;
    at_.pc[t] = kIdle;
  });
  ReleaseWarps(step, pc);
  return false;
}

// For the lanes of the group, which are whole warps or all lanes of a mask.
void BlockPlayer::PerformTogether(const Step& step) {
  if (step.kind == Kind::kTogether) step.apply(step, group_.lanes);
  if (step.kind == Kind::kMatrices) LoadMatrices(step);
  if (step.kind != Kind::kWarpBarrier) return;
  for (int warp = group_.lanes.begin / kLanes; warp * kLanes < group_.lanes.end; ++warp) {
    memory_.PassWarpBarrier(step, warp);
  }
}

void BlockPlayer::ReleaseWarps(const Step& step, int32_t pc) {
  const Lanes group = group_.lanes;
  for (int begin = group.begin / kLanes * kLanes; begin < group.end; begin += kLanes) {
    uint32_t here = 0, wanted = 0;
    const int end = std::min(begin + kLanes, threads_);
    for (int t = begin; t < end; ++t) {
      if (at_.state[t] != State::kTogether || at_.waits_at[t] != pc) continue;
      here |= 1u << (t - begin);
      wanted |=
          step.number < 0 ? ~0u : group.cells<uint32_t>(static_cast<uint32_t>(step.number))[t];
    }
    if (end - begin < kLanes) wanted &= (1u << (end - begin)) - 1;
    if (here == 0 || here != wanted) continue;
    std::vector<uint16_t> some;
    for (int t = begin; t < end; ++t) {
      if ((here >> (t - begin) & 1) != 0) some.push_back(static_cast<uint16_t>(t));
    }
    Lanes& lanes = group_.lanes;
    lanes.begin = some.front();
    lanes.end = some.back() + 1;
    lanes.list = some.data();
    lanes.count = static_cast<int>(some.size());
    // Only a whole warp's barrier orders what its lanes do.
    if (step.kind == Kind::kWarpBarrier && lanes.count < end - begin) {
      memory_.Fault(step, lanes.begin, "is a barrier of a part of a warp, which is not played");
    }
    if (lanes.count == lanes.end - lanes.begin) lanes.list = nullptr;
    PerformTogether(step);
    for (const uint16_t t : some) {
      at_.state[t] = State::kRuns;
      at_.pc[t] = pc + 1;
    }
  }
  group_.lanes = group;
}

// Memory.

uint64_t BlockPlayer::AddressOf(const Step& step, int t) const {
  const uint64_t base = step.address_bytes == 4 ? group_.lanes.cells<uint32_t>(step.address)[t]
                                                : group_.lanes.cells<uint64_t>(step.address)[t];
  return base + static_cast<uint64_t>(step.offset);
}

template <typename T, typename Cell>
void BlockPlayer::Transfer(const Step& step, bool loads) {
  for (int i = 0; i < step.count; ++i) {
    auto* const cells = group_.lanes.cells<Cell>(step.at[i]);
    ForEach(group_.lanes, [&](int t) {
      std::byte* const at = reached_[t] + static_cast<size_t>(i) * sizeof(T);
      T value;
      if (loads) {
        std::memcpy(&value, at, sizeof value);
        cells[t] = static_cast<Cell>(value);
      } else {
        value = static_cast<T>(cells[t]);
        std::memcpy(at, &value, sizeof value);
      }
    });
  }
}

template <bool kLoads>
void BlockPlayer::Access(const Step& step) {
  const int bytes = step.element * step.count;
  ForEach(group_.lanes,
          [&](int t) { reached_[t] = memory_.Reach(step, t, AddressOf(step, t), bytes, !kLoads); });
  if (!memory_.fault().empty()) return;
  const auto transfer = [&]<typename T>(T) {
    if (step.cell == 2) return Transfer<T, uint16_t>(step, kLoads);
    if (step.cell == 4) return Transfer<T, uint32_t>(step, kLoads);
    Transfer<T, uint64_t>(step, kLoads);
  };
  const bool extends = step.is_signed && step.cell > step.element;
  switch (step.element) {
    case 1:
      return extends ? transfer(int8_t{}) : transfer(uint8_t{});
    case 2:
      return extends ? transfer(int16_t{}) : transfer(uint16_t{});
    case 4:
      return extends ? transfer(int32_t{}) : transfer(uint32_t{});
    default:
      return transfer(uint64_t{});
  }
}

// Matrix i of 8 rows of 16 bytes: lanes 8i to 8i + 7 have its rows' addresses. Lane l gets items
// 2 (l % 4) and the next of row l / 4; or, transposed, of column l / 4.
void BlockPlayer::LoadMatrices(const Step& step) {
  const Lanes& lanes = group_.lanes;
  for (int warp = lanes.begin; warp < lanes.end; warp += kLanes) {
    uint16_t items[4][8][8] = {};
    for (int t = warp; t < warp + 8 * step.count; ++t) {
      const std::byte* const row = memory_.Reach(step, t, AddressOf(step, t), 16, false);
      if (row == nullptr) return;
      std::memcpy(items[(t - warp) / 8][t % 8], row, 16);
    }
    for (int i = 0; i < step.count; ++i) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const int a = lane / 4, b = lane % 4 * 2;
        const uint16_t low = step.transposed ? items[i][b][a] : items[i][a][b];
        const uint16_t high = step.transposed ? items[i][b + 1][a] : items[i][a][b + 1];
        lanes.cells<uint32_t>(step.at[i])[warp + lane] = uint32_t{high} << 16 | low;
      }
    }
  }
}

void BlockPlayer::BeginCopies(const Step& step) {
  ForEach(group_.lanes, [&](int t) {
    if (!memory_.fault().empty()) return;
    const uint64_t from =
        group_.lanes.cells<uint64_t>(step.at[0])[t] + static_cast<uint64_t>(step.from_offset);
    memory_.BeginCopy(step, t, AddressOf(step, t), from,
                      static_cast<int>(group_.lanes.cells<uint32_t>(step.at[1])[t]));
  });
}

}  // namespace stringline::ptx
