// A Block simulated by a loop, thread after thread; see block.h.
//
// Finds accesses that would be a race on a GPU: two threads use the same word of scratch memory, at
// least one of them writes, and no sync() lies between. Code of a body outside each, once and
// reduce is run by every thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "schedlang/base/sl_check.h"

namespace stringline::cuda {

// The scratch memory of one task, and the users of each word since the last sync().
class HostScratchMemory {
 public:
  explicit HostScratchMemory(int64_t words) : words_(static_cast<size_t>(words)) {}

  static constexpr int kEvery = -1;  // for a thread

  void Sync() { ++round_; }
  void SetThread(int thread) { thread_ = thread; }

  template <typename T>
  T Read(int64_t at) {
    Word& word = At(at);
    SL_CHECK(word.written != round_ || word.writer == thread_)
        << Reader() << " reads word " << at << ", which thread " << word.writer
        << " has just written";
    word.reader = word.read == round_ && word.reader != thread_ ? kEvery : thread_;
    word.read = round_;
    T value;
    std::memcpy(&value, &word.bits, sizeof value);
    return value;
  }

  template <typename T>
  void Write(int64_t at, T value) {
    Word& word = At(at);
    SL_CHECK(thread_ != kEvery) << "every thread writes word " << at;
    SL_CHECK(word.written != round_ || word.writer == thread_)
        << "threads " << thread_ << " and " << word.writer << " write word " << at;
    SL_CHECK(word.read != round_ || word.reader == thread_)
        << "thread " << thread_ << " writes word " << at << ", which others have just read";
    word.written = round_;
    word.writer = thread_;
    std::memcpy(&word.bits, &value, sizeof value);
  }

 private:
  struct Word {
    uint32_t bits = 0x7fc00000;  // NaN, and no sensible integer either
    int writer = 0, reader = 0;
    int64_t written = -1, read = -1;  // by round
  };

  std::string Reader() const {
    return thread_ == kEvery ? "every thread" : "thread " + std::to_string(thread_);
  }
  Word& At(int64_t at) {
    SL_CHECK(at >= 0 && at < static_cast<int64_t>(words_.size())) << "word " << at;
    return words_[static_cast<size_t>(at)];
  }

  std::vector<Word> words_;
  int64_t round_ = 0;
  int thread_ = kEvery;
};

template <typename T>
class HostScratch {
 public:
  static_assert(sizeof(T) == 4);
  HostScratch(HostScratchMemory* memory, int64_t from) : memory_(memory), from_(from) {}
  T get(int i) const { return memory_->template Read<T>(from_ + i); }
  void put(int i, T value) const { memory_->Write(from_ + i, value); }
  void add(int i, T value) const { put(i, get(i) + value); }

  template <class V>
  V take(int i) const {
    T words[sizeof(V) / sizeof(T)];
    CheckAligned(i, sizeof(V));
    for (size_t k = 0; k < std::size(words); ++k) words[k] = get(i + static_cast<int>(k));
    V value;
    std::memcpy(&value, words, sizeof value);
    return value;
  }
  template <class V>
  void place(int i, const V& value) const {
    T words[sizeof(V) / sizeof(T)];
    CheckAligned(i, sizeof(V));
    std::memcpy(words, &value, sizeof value);
    for (size_t k = 0; k < std::size(words); ++k) put(i + static_cast<int>(k), words[k]);
  }

 private:
  void CheckAligned(int i, size_t bytes) const {
    SL_CHECK(bytes == 16 && (from_ + i) % 4 == 0) << "word " << from_ + i;
  }

  HostScratchMemory* memory_;
  int64_t from_;
};

class HostBlock {
 public:
  HostBlock(int64_t index, int64_t count, int threads, HostScratchMemory* memory)
      : index_(index), count_(count), threads_(threads), memory_(memory) {
    SL_CHECK(threads > 0 && threads % kLanes == 0 && threads <= kLanes * kLanes) << threads;
  }

  int64_t index() const { return index_; }
  int64_t count() const { return count_; }

  template <class F>
  void each(int n, F f) const {
    for (int t = 0; t < threads_; ++t) {
      memory_->SetThread(t);
      for (int i = t; i < n; i += threads_) f(i);
    }
    memory_->SetThread(HostScratchMemory::kEvery);
  }

  template <class S, int N>
  struct Own {
    std::vector<S> at = std::vector<S>(N);
  };
  template <class S, int N>
  Own<S, N> own() const {
    return {};
  }
  template <class S, int N, class F>
  void each(Own<S, N>& own, F f) const {
    each(N, [&](int i) { f(i, own.at[static_cast<size_t>(i)]); });
  }

  template <class F>
  void once(F f) const {
    memory_->SetThread(0);
    f();
    memory_->SetThread(HostScratchMemory::kEvery);
  }

  void sync() const { memory_->Sync(); }

  template <class S, class Step, class Combine>
  S reduce(int n, S start, Step step, Combine combine) const {
    std::vector<S> threads(static_cast<size_t>(threads_), start);
    each(n, [&](int i) { step(i, threads[static_cast<size_t>(i % threads_)]); });
    return Joined(std::move(threads), start, combine);
  }
  template <class S, int N, class R, class Step, class Combine>
  R reduce(Own<S, N>& own, R start, Step step, Combine combine) const {
    return reduce(
        N, start, [&](int i, R& s) { step(i, own.at[static_cast<size_t>(i)], s); }, combine);
  }

  template <typename T>
  HostScratch<T> scratch(int at) const {
    return {memory_, at};
  }

 private:
  static constexpr int kLanes = 32;

  template <class S, class Combine>
  S Joined(std::vector<S> threads, S start, Combine combine) const {
    std::vector<S> warps(kLanes, start);
    for (int t = 0; t < threads_; t += kLanes) {
      OverLanes(combine, threads.data() + t);
      warps[t / kLanes] = threads[t];
    }
    if (threads_ > kLanes) OverLanes(combine, warps.data());
    sync();
    return warps[0];
  }

  template <class Combine, class S>
  static void OverLanes(Combine combine, S* lanes) {
    for (int step = kLanes / 2; step > 0; step /= 2) {
      for (int lane = 0; lane < step; ++lane) combine(lanes[lane], lanes[lane + step]);
    }
  }

  const int64_t index_, count_;
  const int threads_;
  HostScratchMemory* const memory_;
};

// Does all tasks of a body, one after the other.
template <class Body>
void RunOnHost(const Body& body, int threads) {
  int64_t words = 0;
  if constexpr (requires { body.scratch_words(); }) words = body.scratch_words();
  for (int64_t i = 0; i < body.blocks(); ++i) {
    HostScratchMemory memory(words);
    body(HostBlock(i, body.blocks(), threads, &memory));
  }
}

}  // namespace stringline::cuda
