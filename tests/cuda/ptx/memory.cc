// Declared uses overlap and touch: they are cut at all their ends, and neighbours of the same kind
// become one piece again.
#include "tests/cuda/ptx/memory.h"

#include <algorithm>
#include <set>

#include "schedlang/base/sl_check.h"

namespace stringline::ptx {

Trace* KeptTraces::Of(uint64_t begin, uint64_t end, int unit) {
  Kept& kept = kept_[begin];
  if (kept.end != end || kept.unit > unit || kept.unit == 0) {
    // Memory that nobody touches stays with the system.
    void* const traces = std::calloc((end - begin) / static_cast<uint64_t>(unit) + 1, sizeof(Trace));
    SL_CHECK(traces != nullptr);
    kept = {end, unit, std::unique_ptr<Trace, Free>(static_cast<Trace*>(traces))};
  }
  return kept.traces.get();
}

Memory::Memory(std::vector<Piece> allocations, const std::vector<Piece>& declared, int unit,
               KeptTraces* kept)
    : allocations_(std::move(allocations)) {
  std::sort(allocations_.begin(), allocations_.end(),
            [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  for (Piece& piece : allocations_) {
    piece.base = piece.begin;
    if (piece.writable) piece.traces = kept->Of(piece.begin, piece.end, unit);
  }
  if (declared.empty()) {
    pieces_ = allocations_;
    return;
  }
  std::set<uint64_t> cuts;
  for (const Piece& piece : declared) cuts.insert({piece.begin, piece.end});
  for (const Piece& allocation : allocations_) {
    if (!allocation.writable) pieces_.push_back(allocation);  // constants
    Piece* last = nullptr;
    const auto add = [&](uint64_t begin, uint64_t end, bool writes) {
      if (last != nullptr && last->end == begin && last->writable == writes) {
        last->end = end;
        return;
      }
      pieces_.push_back({begin, end, writes, allocation.traces, allocation.begin});
      last = &pieces_.back();
    };
    for (auto cut = cuts.lower_bound(allocation.begin);
         cut != cuts.end() && std::next(cut) != cuts.end() && *std::next(cut) <= allocation.end;
         ++cut) {
      bool reads = false, writes = false;
      for (const Piece& piece : declared) {
        const bool covers = piece.begin <= *cut && piece.end >= *std::next(cut);
        reads = reads || covers;
        writes = writes || (covers && piece.writable);
      }
      if (reads) add(*cut, *std::next(cut), writes);
    }
  }
}

const Piece* Memory::Search(uint64_t address, int bytes, int* last) const {
  auto found = std::upper_bound(pieces_.begin(), pieces_.end(), address,
                                [](uint64_t at, const Piece& piece) { return at < piece.begin; });
  if (found == pieces_.begin()) return nullptr;
  --found;
  if (address + static_cast<uint64_t>(bytes) > found->end) return nullptr;
  *last = static_cast<int>(found - pieces_.begin());
  return &*found;
}

bool Memory::IsAllocated(uint64_t address, int bytes) const {
  return std::any_of(allocations_.begin(), allocations_.end(), [&](const Piece& piece) {
    return address >= piece.begin && address + static_cast<uint64_t>(bytes) <= piece.end;
  });
}

}  // namespace stringline::ptx
