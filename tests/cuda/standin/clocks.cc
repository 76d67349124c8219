#include "clocks.h"

#include <algorithm>
#include <utility>

namespace standin {

uint32_t Clock::Tick(int line) {
  const auto at = static_cast<size_t>(line);
  if (at >= times_.size()) times_.resize(at + 1);
  return ++times_[at];
}

bool Clock::Merge(const Clock& other) {
  if (times_.size() < other.times_.size()) times_.resize(other.times_.size());
  bool changed = false;
  for (size_t i = 0; i < other.times_.size(); ++i) {
    if (other.times_[i] <= times_[i]) continue;
    times_[i] = other.times_[i];
    changed = true;
  }
  return changed;
}

void Uses::Begin(int line, const Clock& clock, const char* what) {
  now_ = {line, clock.At(line), what};
  clock_ = &clock;
}

void Uses::Check(const Stamp& before, bool wrote, const Use& use) {
  if (before.line < 0 || before.time <= clock_->At(before.line) || !race_.empty()) return;
  race_ = std::string(now_.what) + " on line " + std::to_string(now_.line) +
          (use.writes ? " writes" : " reads") + " what " + before.what + " on line " +
          std::to_string(before.line) + (wrote ? " writes" : " reads") +
          ", and nothing orders the two";
}

void Uses::Split(const char* at) {
  auto found = pieces_.upper_bound(at);
  if (found == pieces_.begin()) return;
  --found;
  if (found->first == at || found->second.end <= at) return;
  Piece tail = found->second;
  found->second.end = at;
  pieces_.emplace(at, std::move(tail));
}

void Uses::Add(const Use& use) {
  if (use.bytes == 0 || use.begin == nullptr) return;
  const char* const begin = static_cast<const char*>(use.begin);
  const char* const end = begin + use.bytes;
  Split(begin);
  Split(end);
  auto piece = pieces_.lower_bound(begin);
  for (const char* at = begin; at < end;) {
    if (piece == pieces_.end() || piece->first != at) {
      const char* const until = piece == pieces_.end() ? end : std::min(end, piece->first);
      piece = pieces_.emplace_hint(piece, at, Piece{until, {}, {}});
    }
    Piece& own = piece->second;
    Check(own.written, true, use);
    if (use.writes) {
      for (const Stamp& read : own.read) Check(read, false, use);
      own.read.clear();
      own.written = now_;
    } else {
      // Reads that precede this op need not be kept.
      own.read.erase(
          std::remove_if(own.read.begin(), own.read.end(),
                         [this](const Stamp& read) { return read.time <= clock_->At(read.line); }),
          own.read.end());
      own.read.push_back(now_);
    }
    at = own.end;
    ++piece;
  }
}

void Uses::Forget(const void* begin, size_t bytes) {
  const char* const from = static_cast<const char*>(begin);
  Split(from);
  Split(from + bytes);
  pieces_.erase(pieces_.lower_bound(from), pieces_.lower_bound(from + bytes));
}

}  // namespace standin
