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
    const size_t count = (end - begin) / static_cast<uint64_t>(unit) + 1;
    void* const traces = std::calloc(count, sizeof(Trace));
    bytes_ += count * sizeof(Trace);
    SL_CHECK(traces != nullptr);
    kept = {end, unit, std::unique_ptr<Trace, Free>(static_cast<Trace*>(traces))};
  }
  return kept.traces.get();
}

Memory::Memory(std::vector<Piece> allocations, const std::vector<Piece>& declared, int unit,
               KeptTraces* kept, std::vector<Saved>* saved)
    : allocations_(std::move(allocations)), unit_(unit), kept_(kept), saved_(saved) {
  std::sort(allocations_.begin(), allocations_.end(),
            [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  for (Piece& piece : allocations_) {
    piece.base = piece.begin;
    piece.base_end = piece.end;
  }
  if (declared.empty()) {
    pieces_ = allocations_;
  } else {
    AddDeclared(declared);
  }
  used_.resize(pieces_.size());
}

void Memory::AddDeclared(const std::vector<Piece>& declared) {
  std::set<uint64_t> cuts;
  for (const Piece& piece : declared) cuts.insert({piece.begin, piece.end});
  for (const Piece& allocation : allocations_) {
    if (allocation.constant) pieces_.push_back(allocation);
    Piece* last = nullptr;
    const auto add = [&](uint64_t begin, uint64_t end, bool writes) {
      if (last != nullptr && last->end == begin && last->writable == writes) {
        last->end = end;
        return;
      }
      last = &pieces_.emplace_back(allocation);
      last->begin = begin;
      last->end = end;
      last->writable = writes;
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

const Piece* Memory::Search(uint64_t address, int bytes, int* last) {
  auto found = std::upper_bound(pieces_.begin(), pieces_.end(), address,
                                [](uint64_t at, const Piece& piece) { return at < piece.begin; });
  if (found == pieces_.begin()) return nullptr;
  --found;
  if (address + static_cast<uint64_t>(bytes) > found->end) return nullptr;
  const size_t index = static_cast<size_t>(found - pieces_.begin());
  *last = static_cast<int>(index);
  if (used_[index] == 0) {
    used_[index] = 1;
    if (!found->constant) found->traces = kept_->Of(found->base, found->base_end, unit_);
    if (saved_ != nullptr) {
      const char* const begin = reinterpret_cast<const char*>(found->begin);
      saved_->push_back({*found, std::vector<char>(begin, begin + (found->end - found->begin))});
    }
  }
  return &*found;
}

bool Memory::IsAllocated(uint64_t address, int bytes) const {
  return std::any_of(allocations_.begin(), allocations_.end(), [&](const Piece& piece) {
    return address >= piece.begin && address + static_cast<uint64_t>(bytes) <= piece.end;
  });
}

}  // namespace stringline::ptx
