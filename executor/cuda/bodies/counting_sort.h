// A stable sort of small keys in three launches, without atomics: count each key in each chunk of
// the items, compute the first place of each key and chunk from the counts, then move every item.
//
// Sorts the experts' slots (dispatch.h), and numbers of several digits, a digit at a time.
#pragma once

#include "executor/cuda/bodies/vectors.h"

namespace stringline::cuda {

// The key of item i is digit (values[item] >> shift) of `keys` possible ones, where item is i, or
// items[i] if the items are sorted already. Items without a key in 0 .. keys-1 are dropped.
struct SortKeys {
  const int32_t* values;
  const int32_t* items = nullptr;
  int64_t count;
  int32_t keys;
  int shift = 0;
  bool is_digit = false;  // of a larger number: higher bits are another digit

  STRINGLINE_BODY int32_t item(int64_t i) const {
    return items == nullptr ? static_cast<int32_t>(i) : items[i];
  }
  STRINGLINE_BODY int32_t key(int64_t i) const {
    const int32_t value = values[item(i)] >> shift;
    return is_digit ? value & (keys - 1) : value;
  }
};

// Items of a chunk: every key scans all of them.
constexpr int kSortChunk = 512;
constexpr int64_t SortChunks(int64_t count) { return (count + kSortChunk - 1) / kSortChunk; }

template <class Block>
STRINGLINE_BODY int LoadChunk(const Block& block, const SortKeys& keys, int64_t chunk) {
  const int64_t begin = chunk * kSortChunk, left = keys.count - begin;
  const int size = static_cast<int>(left < kSortChunk ? left : kSortChunk);
  const auto own = block.template scratch<int32_t>(0);
  block.each(size, [&](int i) { own.put(i, keys.key(begin + i)); });
  block.sync();
  return size;
}

// counts[chunk,key] (chunks,keys): occurrences of the key in the chunk.
struct CountKeys {
  SortKeys keys;
  int32_t* counts;

  int64_t blocks() const { return SortChunks(keys.count); }
  int scratch_words() const { return kSortChunk; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int size = LoadChunk(block, keys, block.index());
    const auto own = block.template scratch<int32_t>(0);
    block.each(keys.keys, [&](int key) {
      int32_t count = 0;
      for (int i = 0; i < size; ++i) count += own.get(i) == key ? 1 : 0;
      counts[block.index() * keys.keys + key] = count;
    });
  }
};

// From the counts of the chunks, in place:
//
//   counts[chunk,key]  becomes the number of the key's items in earlier chunks
//   starts[key]        place of the key's first item; starts[keys]: number of items placed
//   totals[key]        number of items taken by each key: the first `capacity` (0: all)
//   dropped            number of items beyond capacity; may be null
//
// One task: chunks and keys are few.
struct PlaceKeys {
  int32_t* counts;
  int32_t* starts;
  int32_t* totals;
  float* dropped;
  int64_t chunks, count;
  int32_t keys;
  int32_t capacity = 0;

  int64_t blocks() const { return 1; }
  int scratch_words() const { return keys; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    constexpr int kBatch = 16;  // loads in flight at once
    const auto taken = block.template scratch<int32_t>(0);
    block.each(keys, [&](int key) {
      int32_t before = 0;
      for (int64_t chunk = 0; chunk < chunks; chunk += kBatch) {
        int32_t batch[kBatch];
        for (int k = 0; k < kBatch; ++k) {
          batch[k] = chunk + k < chunks ? counts[(chunk + k) * keys + key] : 0;
        }
        for (int k = 0; k < kBatch; ++k) {
          if (chunk + k < chunks) counts[(chunk + k) * keys + key] = before;
          before += batch[k];
        }
      }
      if (capacity > 0 && before > capacity) before = capacity;
      if (totals != nullptr) totals[key] = before;
      taken.put(key, before);
    });
    block.sync();
    block.each(keys + 1, [&](int key) {
      int32_t before = 0;
      for (int k = 0; k < key; ++k) before += taken.get(k);
      starts[key] = before;
      if (key == keys && dropped != nullptr) *dropped = static_cast<float>(count - before);
    });
  }
};

// order[place] = item for every item: by key, stably; then, stably too, the items beyond their
// key's capacity.
struct PlaceItems {
  SortKeys keys;
  const int32_t* counts;  // as PlaceKeys leaves them
  const int32_t* starts;
  int32_t* order;
  int32_t capacity = 0;

  int64_t blocks() const { return SortChunks(keys.count); }
  int scratch_words() const { return 2 * kSortChunk; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t chunk = block.index(), begin = chunk * kSortChunk;
    const auto own = block.template scratch<int32_t>(0);
    const auto is_left = block.template scratch<int32_t>(kSortChunk);
    block.each(kSortChunk, [&](int i) { is_left.put(i, 0); });
    const int size = LoadChunk(block, keys, chunk);
    block.each(keys.keys, [&](int key) {
      int32_t rank = counts[chunk * keys.keys + key];
      const int32_t start = starts[key];
      for (int i = 0; i < size; ++i) {
        if (own.get(i) != key) continue;
        if (capacity == 0 || rank < capacity) {
          order[start + rank] = keys.item(begin + i);
        } else {
          is_left.put(i, 1);
        }
        ++rank;
      }
    });
    if (capacity == 0) return;
    // Items beyond capacity in earlier chunks: the excess over capacity of each key's count there.
    // The reduction's barrier also stands between is_left's writers and readers.
    const Sums<1, int32_t> before = block.reduce(
        keys.keys, Sums<1, int32_t>{},
        [&](int key, Sums<1, int32_t>& s) {
          const int32_t rank = counts[chunk * keys.keys + key];
          s[0] += rank > capacity ? rank - capacity : 0;
        },
        AddSums());
    block.each(size, [&](int i) {
      if (is_left.get(i) == 0) return;
      int32_t place = starts[keys.keys] + before[0];
      for (int k = 0; k < i; ++k) place += is_left.get(k);
      order[place] = keys.item(begin + i);
    });
  }
};

constexpr int64_t SortCounts(int64_t count, int64_t keys) { return SortChunks(count) * keys; }

// Sorts by launches of run(body). `counts` has SortCounts(...) integers, `starts` keys + 1.
template <class Run>
void SortByKey(const Run& run, const SortKeys& keys, int32_t capacity, int32_t* counts,
               int32_t* starts, int32_t* order, int32_t* totals, float* dropped) {
  run(CountKeys{keys, counts});
  run(PlaceKeys{counts, starts, totals, dropped, SortChunks(keys.count), keys.count, keys.keys,
                capacity});
  run(PlaceItems{keys, counts, starts, order, capacity});
}

}  // namespace stringline::cuda
