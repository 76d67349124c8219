#include "schedlang/elaborate/counters.h"

#include <algorithm>

namespace stringline {

bool Counter::Take(int64_t number) {
  if (number < next_) return false;
  if (number > next_) return ahead_.insert(number).second;
  ++next_;
  while (!ahead_.empty() && *ahead_.begin() == next_) {
    ahead_.erase(ahead_.begin());
    ++next_;
  }
  return true;
}

SliceNumber WorkCounter::NextOfSlices(std::optional<int64_t> microbatch,
                                      std::optional<int64_t> slice, bool backward) const {
  if (slice) {
    const Counter& counter = slices_[static_cast<size_t>(*slice)];
    return {microbatch.value_or(counter.lowest_free()), *slice};
  }
  SliceNumber next{microbatch.value_or(slices_[0].lowest_free()), 0};
  if (!microbatch) {
    for (const Counter& counter : slices_) {
      next.microbatch = std::min(next.microbatch, counter.lowest_free());
    }
  }
  const auto last = static_cast<int64_t>(slices_.size()) - 1;
  for (int64_t k = 0; k <= last; ++k) {
    next.slice = backward ? last - k : k;
    if (!slices_[static_cast<size_t>(next.slice)].IsTaken(next.microbatch)) break;
  }
  return next;
}

void Deferred::StartRank() {
  entries_.clear();
  oldest_ = 0;
  index_.clear();
  indexed_ = false;
}

void Deferred::Add(int32_t stage, int64_t microbatch) {
  const auto id = static_cast<int32_t>(entries_.size());
  entries_.push_back({.stage = stage, .microbatch = microbatch});
  if (first_[stage] < 0) {
    first_[stage] = id;
  } else {
    entries_[last_[stage]].next = id;
  }
  last_[stage] = id;
  if (indexed_) index_[{stage, microbatch}] = id;
}

const Deferred::Entry* Deferred::TakeOldest() {
  while (oldest_ < entries_.size() && entries_[oldest_].done) ++oldest_;
  if (oldest_ == entries_.size()) return nullptr;
  Entry& entry = entries_[oldest_];
  entry.done = true;
  return &entry;
}

const Deferred::Entry* Deferred::OldestOf(int32_t stage) {
  int32_t& first = first_[stage];
  while (first >= 0 && entries_[first].done) first = entries_[first].next;
  return first < 0 ? nullptr : &entries_[first];
}

const Deferred::Entry* Deferred::TakeOldestOf(int32_t stage) {
  if (OldestOf(stage) == nullptr) return nullptr;
  Entry& entry = entries_[first_[stage]];
  entry.done = true;
  return &entry;
}

const Deferred::Entry* Deferred::Take(int32_t stage, int64_t microbatch) {
  if (!indexed_) {
    indexed_ = true;
    for (size_t i = 0; i < entries_.size(); ++i) {
      index_[{entries_[i].stage, entries_[i].microbatch}] = static_cast<int32_t>(i);
    }
  }
  const auto it = index_.find({stage, microbatch});
  if (it == index_.end() || entries_[it->second].done) return nullptr;
  entries_[it->second].done = true;
  return &entries_[it->second];
}

}  // namespace stringline
