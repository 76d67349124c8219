#include "executor/checkpoint/held_share.h"

#include <algorithm>

#include "executor/engine/packed_numbers.h"

namespace stringline {

std::string PackHeld(const HeldShare& share) {
  PackedNumbers packed;
  packed.Add<int64_t>(share.number);
  for (const std::vector<HeldRange>& ranges : share.tensors) {
    packed.Add<int64_t>(static_cast<int64_t>(ranges.size()));
    for (const HeldRange& range : ranges) {
      packed.Add(range.first);
      packed.Add(range.end());
      for (const std::vector<float>& values : range.of) packed.AddAll<float>(values);
    }
  }
  return packed.bytes();
}

HeldShare ReadHeld(absl::string_view bytes) {
  NumberReader reader(bytes);
  HeldShare share;
  share.number = static_cast<int>(reader.Take<int64_t>());
  while (!reader.done()) {
    std::vector<HeldRange>& ranges = share.tensors.emplace_back();
    ranges.resize(static_cast<size_t>(reader.Take<int64_t>()));
    for (HeldRange& range : ranges) {
      range.first = reader.Take<int64_t>();
      const auto size = static_cast<size_t>(reader.Take<int64_t>() - range.first);
      for (std::vector<float>& values : range.of) {
        values.resize(size);
        reader.TakeAll(absl::MakeSpan(values));
      }
    }
  }
  return share;
}

// FNV-1a over the numbers.
uint64_t PlacesSum(const HeldTensors& tensors) {
  uint64_t sum = 0xcbf29ce484222325;
  const auto add = [&sum](int64_t number) {
    for (int byte = 0; byte < 8; ++byte) {
      sum = (sum ^ (static_cast<uint64_t>(number) >> (8 * byte) & 0xff)) * 0x100000001b3;
    }
  };
  for (const std::vector<HeldRange>& ranges : tensors) {
    add(static_cast<int64_t>(ranges.size()));
    for (const HeldRange& range : ranges) {
      add(range.first);
      add(range.end());
    }
  }
  return sum;
}

std::vector<ValueSpan> Without(std::vector<ValueSpan> wanted, absl::Span<const ValueSpan> held) {
  for (const ValueSpan& one : held) {
    std::vector<ValueSpan> left;
    for (const ValueSpan& span : wanted) {
      const ValueSpan before = {span.first, std::min(span.end, one.first)};
      const ValueSpan behind = {std::max(span.first, one.end), span.end};
      if (before.first < before.end) left.push_back(before);
      if (behind.first < behind.end) left.push_back(behind);
    }
    wanted = std::move(left);
  }
  return wanted;
}

std::vector<ValueSpan> Among(absl::Span<const ValueSpan> wanted, absl::Span<const ValueSpan> held) {
  std::vector<ValueSpan> whole(wanted.begin(), wanted.end());
  const std::vector<ValueSpan> lacking = Without(whole, held);
  return Without(std::move(whole), lacking);
}

Gifts ChooseGifts(absl::Span<const HeldAndWanted> processes) {
  Gifts gifts;
  const size_t count = processes.size();
  for (size_t to = 0; to < count; ++to) {
    for (size_t t = 0; t < processes[to].wanted.size(); ++t) {
      std::vector<ValueSpan> lacking = Without(processes[to].wanted[t], processes[to].held[t]);
      for (size_t i = 1; i < count && !lacking.empty(); ++i) {
        const size_t from = (to + i) % count;
        for (const ValueSpan& span : Among(lacking, processes[from].held[t])) {
          gifts.all.push_back({static_cast<int>(from), static_cast<int>(to), t, span});
        }
        lacking = Without(std::move(lacking), processes[from].held[t]);
      }
      if (!lacking.empty()) gifts.lacking = static_cast<int>(t);
    }
  }
  return gifts;
}

}  // namespace stringline
