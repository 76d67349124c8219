// Barriers start new intervals (traces.h). An access looks up its piece of memory where the same
// instruction found its last one.
#include "tests/cuda/ptx/block_memory.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace stringline::ptx {

BlockMemory::BlockMemory(const Launch& launch, Time* time, size_t threads)
    : launch_(launch), program_(*launch.program), time_(*time) {
  const int64_t shared = program_.shared_bytes + launch.dynamic_shared;
  shared_.resize(static_cast<size_t>(shared));
  traces_.resize(static_cast<size_t>(shared / program_.shared_unit + 1));
  local_.resize(static_cast<size_t>(program_.local_bytes) * threads);
  warp_barriers_.resize(threads / kLanes);
  guesses_.resize(program_.steps.size(), -1);
  copies_.resize(threads);
  groups_.resize(threads);
}

void BlockMemory::Begin(int64_t block) {
  block_ = block;
  time_.interval.block = time_.interval.now + 1;
  time_.blocks.push_back(time_.interval.block);
  PassBarrier();
  std::fill(groups_.begin(), groups_.end(), 0);
  for (auto& copies : copies_) copies.clear();
}

void BlockMemory::PassBarrier() {
  ++time_.interval.now;
  std::fill(warp_barriers_.begin(), warp_barriers_.end(), uint16_t{0});
}

void BlockMemory::PassWarpBarrier(const Step& step, int warp) {
  if (warp_barriers_[warp]++ < Trace::kMostWarpBarriers) return;
  Fault(step, warp * kLanes, "is one barrier of a warp too many between two of the block");
}

std::byte* BlockMemory::Reach(const Step& step, int t, uint64_t address, int bytes, bool writes) {
  if (address % static_cast<uint64_t>(bytes) != 0) {
    Fault(step, t, absl::StrCat("address 0x", absl::Hex(address), " is not a multiple of ", bytes));
    return nullptr;
  }
  Space space = step.space;
  if (space == Space::kGeneric && (address & kWindows) != 0) {
    space = (address & kSharedWindow) != 0 ? Space::kShared : Space::kLocal;
    address &= ~(kSharedWindow | kLocalWindow);
  }
  if (space == Space::kGeneric || space == Space::kGlobal) {
    return ReachGlobal(step, t, address, bytes, writes);
  }
  if (space == Space::kShared) return ReachShared(step, t, address, bytes, writes);
  const uint64_t end = address + static_cast<uint64_t>(bytes);
  if (space == Space::kLocal && end <= static_cast<uint64_t>(program_.local_bytes)) {
    return local_.data() + t * program_.local_bytes + address;
  }
  if (space == Space::kParam && !writes &&
      (end & ~kParamWindow) <= static_cast<uint64_t>(program_.param_bytes)) {
    return const_cast<std::byte*>(launch_.params) + (address & ~kParamWindow);
  }
  Fault(step, t, absl::StrCat("is outside of the thread's own memory, at ", absl::Hex(address)));
  return nullptr;
}

std::byte* BlockMemory::ReachShared(const Step& step, int t, uint64_t address, int bytes,
                                    bool writes) {
  if (address + static_cast<uint64_t>(bytes) > shared_.size()) {
    Fault(step, t,
          absl::StrCat("is outside of shared memory: byte ", address, " of ", shared_.size()));
    return nullptr;
  }
  Traced(step, t, traces_.data(), address, bytes, writes, true);
  return shared_.data() + address;
}

std::byte* BlockMemory::ReachGlobal(const Step& step, int t, uint64_t address, int bytes,
                                    bool writes) {
  int& guess = guesses_[static_cast<size_t>(&step - program_.steps.data())];
  const Piece* const piece = launch_.memory->Find(address, bytes, &guess);
  if (piece == nullptr || (writes && !piece->writable)) {
    const char* const what = piece != nullptr ? "writes to what the kernel declared that it reads"
                             : launch_.memory->IsAllocated(address, bytes)
                                 ? "is outside of what the kernel declared"
                                 : "is outside of all memory";
    Fault(step, t, absl::StrCat(what, ": address 0x", absl::Hex(address)));
    return nullptr;
  }
  if (piece->traces != nullptr) {
    Traced(step, t, piece->traces, address - piece->base, bytes, writes, false);
  }
  return reinterpret_cast<std::byte*>(address);
}

void BlockMemory::Traced(const Step& step, int t, Trace* traces, uint64_t at, int bytes,
                         bool writes, bool shared) {
  const int unit = shared ? program_.shared_unit : program_.global_unit;
  const uint16_t barriers = warp_barriers_[t / kLanes];
  const uint64_t first = at / static_cast<uint64_t>(unit);
  const uint64_t last = (at + static_cast<uint64_t>(bytes) - 1) / static_cast<uint64_t>(unit);
  Interval time = time_.interval;
  if (shared) time.launch = time.block;  // every block has its own
  for (uint64_t i = first; i <= last; ++i) {
    const Trace before = traces[i];
    const Trace::Found found =
        writes ? traces[i].Write(t, barriers, time) : traces[i].Read(t, barriers, time, shared);
    if (found == Trace::Found::kNothing) continue;
    Race(step, t, before, found, writes,
         absl::StrCat(shared ? "shared byte " : "byte ", i * static_cast<uint64_t>(unit)));
    return;
  }
}

void BlockMemory::Race(const Step& step, int t, const Trace& trace, Trace::Found found, bool writes,
                       const std::string& where) {
  const char* const does = writes ? "writes " : "reads ";
  if (found == Trace::Found::kNeverWritten) {
    return Fault(step, t, absl::StrCat("reads ", where, ", which nothing has written"));
  }
  if (found == Trace::Found::kInFlight) {
    return Fault(step, t, absl::StrCat("reads ", where, ", which a copy has not filled yet"));
  }
  const bool by_writer = found == Trace::Found::kWriter;
  const uint32_t then = by_writer ? trace.wrote() : trace.read();
  const auto block = std::upper_bound(time_.blocks.begin(), time_.blocks.end(), then);
  const std::string who = !by_writer && trace.read_by_several_blocks()
                              ? "threads of several blocks"
                              : absl::StrCat("thread ", by_writer ? trace.writer() : trace.reader(),
                                             " of block ", block - time_.blocks.begin() - 1);
  Fault(step, t,
        absl::StrCat(does, where, ", which ", who, by_writer ? " wrote" : " read",
                     ", with no order between them"));
}

void BlockMemory::BeginCopy(const Step& step, int t, uint64_t to, uint64_t from, int given) {
  Copy copy = {to, step.number, groups_[t], {}};
  if (Reach(step, t, to, step.number, true) == nullptr) return;
  if (given > 0) {
    int last = -1;
    const Piece* const piece = launch_.memory->Find(from, given, &last);
    if (piece == nullptr || from % static_cast<uint64_t>(step.number) != 0) {
      return Fault(step, t,
                   absl::StrCat("copies from outside of all memory, or from an address ",
                                "that is not aligned: 0x", absl::Hex(from)));
    }
    if (piece->traces != nullptr) {
      Traced(step, t, piece->traces, from - piece->base, given, false, false);
    }
    std::memcpy(copy.values, reinterpret_cast<const std::byte*>(from), static_cast<size_t>(given));
  }
  const auto unit = static_cast<uint64_t>(program_.shared_unit);
  const uint64_t last = (to + static_cast<uint64_t>(copy.bytes) - 1) / unit;
  for (uint64_t at = to / unit; at <= last; ++at) traces_[at].BeginFlight();
  copies_[t].push_back(copy);
}

void BlockMemory::EndCopies(const Step& step, int t) {
  std::deque<Copy>& copies = copies_[t];
  while (!copies.empty() && (step.transposed || copies.front().group < groups_[t] - step.number)) {
    const Copy& copy = copies.front();
    std::memcpy(shared_.data() + copy.to, copy.values, static_cast<size_t>(copy.bytes));
    Traced(step, t, traces_.data(), copy.to, copy.bytes, true, true);
    copies.pop_front();
  }
}

void BlockMemory::Fault(const Step& step, int t, const std::string& what) {
  if (!fault_.empty()) return;
  fault_ = absl::StrCat(program_.shown, ", block ", block_, ", thread ", t, ": ",
                        program_.TextOf(step), " ", what);
}

}  // namespace stringline::ptx
