// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3",
// 2011): four words of 32 bits from a counter of four words and a key of two. No state: a word can
// be had again from its place alone.
//
// The mask of a dropout: the number at place i of the tensor, in memory order, has word i % 4 of
// the counter
//
//   i / 4, the op's site, low and high word of the microbatch's first sample (MaskKey)
//
// under the key of the low and the high word of the run's seed. It is kept if the word is at least
// p 2^32.
#pragma once

#include <array>
#include <cstdint>

namespace stringline::cpu {

using PhiloxWords = std::array<uint32_t, 4>;

inline PhiloxWords Philox(PhiloxWords words, uint32_t key0, uint32_t key1) {
  constexpr int kRounds = 10;
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t a = kMultiplier0 * words[0], b = kMultiplier1 * words[2];
    words = {static_cast<uint32_t>(b >> 32) ^ words[1] ^ key0, static_cast<uint32_t>(b),
             static_cast<uint32_t>(a >> 32) ^ words[3] ^ key1, static_cast<uint32_t>(a)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return words;
}

}  // namespace stringline::cpu
