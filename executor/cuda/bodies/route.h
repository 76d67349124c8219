// The experts of a token, their weights, and the balance of the choices.
//
// A task is a token: its row of scores is in scratch memory, and the experts are found by K
// searches for the largest score.
#pragma once

#include <cfloat>
#include <cmath>

#include "executor/cuda/bodies/vectors.h"

namespace stringline::cuda {

enum class Scores : int32_t { kSoftmax = 0, kSigmoid = 1 };

constexpr float kTinyScore = 1e-20f;  // keeps a sum of scores from being zero

// e^(logits - largest) or 1 / (1 + e^-logits) into scratch memory. Returns the factor by which
// softmax's scores must still be multiplied. Until the next sync() every thread reads its own words
// only.
template <class Block, typename T, class Scratch>
STRINGLINE_BODY float PutScores(const Block& block, const T* logits, int experts, Scores kind,
                                const Scratch& scores) {
  if (kind == Scores::kSigmoid) {
    block.each(experts,
               [&](int e) { scores.put(e, 1.0f / (1.0f + std::exp(-ToFloat(logits[e])))); });
    return 1;
  }
  const Sums<1> most = block.reduce(
      experts, Sums<1>{{-FLT_MAX}},
      [&](int e, Sums<1>& s) {
        const float x = ToFloat(logits[e]);
        s[0] = x > s[0] ? x : s[0];
      },
      [](Sums<1>& a, const Sums<1>& b) { a[0] = b[0] > a[0] ? b[0] : a[0]; });
  const Sums<1> sum = block.reduce(
      experts, Sums<1>{},
      [&](int e, Sums<1>& s) {
        const float score = std::exp(ToFloat(logits[e]) - most[0]);
        scores.put(e, score);
        s[0] += score;
      },
      AddSums());
  return 1.0f / sum[0];
}

// The largest of some numbers, and its index: of equals the first.
struct Best {
  float score = -INFINITY;
  int32_t index = INT32_MAX;

  STRINGLINE_BODY void Take(float other, int32_t at) {
    // NaN never wins, but a row always yields an index.
    if (other > score || (other == score && at < index) || index == INT32_MAX) {
      score = other;
      index = at;
    }
  }
};
struct BestOfTwo {
  STRINGLINE_BODY void operator()(Best& a, const Best& b) const {
    if (b.index != INT32_MAX) a.Take(b.score, b.index);
  }
};

// The K experts of the largest score + bias, and their scores without the bias: see route in
// stages/ops.def.
//
// logits (N,E), bias (E), or one float, or null -> weight (N,K), choice I32 (N,K)
template <typename T>
struct Route {
  const T* logits;
  const float* bias;
  float* weight;
  int32_t* choice;
  int64_t rows;
  int32_t experts, choices;
  Scores kind;
  bool one_bias, normalise;
  float scale = 1;
  int32_t groups = 1, top_groups = 1, group_best = 1;

  int64_t blocks() const { return rows; }
  // Scores, score + bias of the open experts, scores of groups, and the weights chosen.
  int scratch_words() const { return 2 * experts + groups + choices; }

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t n = block.index();
    const auto scores = block.template scratch<float>(0);
    const auto open = block.template scratch<float>(experts);
    const auto chosen = block.template scratch<float>(2 * experts + groups);
    const float factor = PutScores(block, logits + n * experts, experts, kind, scores);
    block.each(experts, [&](int e) {
      const float score = scores.get(e) * factor;
      scores.put(e, score);
      open.put(e, score + (bias == nullptr ? 0.0f : bias[one_bias ? 0 : e]));
    });
    block.sync();
    if (groups > 1) CloseGroups(block, open);
    float sum = kTinyScore;
    for (int k = 0; k < choices; ++k) {
      const Best best = TakeBest(block, open, experts);
      block.once([&] {
        // If no expert is left to choose, which the shapes exclude, the first is taken again.
        const int32_t expert = best.index < experts ? best.index : 0;
        choice[n * choices + k] = expert;
        chosen.put(k, scores.get(expert));
        open.put(expert, -INFINITY);
      });
      block.sync();
    }
    for (int k = 0; k < choices; ++k) sum += chosen.get(k);
    const float share = normalise ? scale / sum : scale;
    block.each(choices, [&](int k) { weight[n * choices + k] = chosen.get(k) * share; });
  }

  template <class Block, class Scratch>
  STRINGLINE_BODY Best TakeBest(const Block& block, const Scratch& open, int count) const {
    return block.reduce(
        count, Best(),
        [&](int i, Best& best) {
          if (open.get(i) != -INFINITY) best.Take(open.get(i), i);
        },
        BestOfTwo());
  }

  // Leaves the experts of the best groups open.
  template <class Block, class Scratch>
  STRINGLINE_BODY void CloseGroups(const Block& block, const Scratch& open) const {
    const int size = experts / groups;
    const auto of_group = block.template scratch<float>(2 * experts);
    block.each(groups, [&](int g) {
      // The largest, then the next by descending score and ascending index.
      Best last;
      float sum = 0;
      for (int i = 0; i < group_best; ++i) {
        Best best;
        for (int e = g * size; e < (g + 1) * size; ++e) {
          const float score = open.get(e);
          const bool is_after =
              i == 0 || score < last.score || (score == last.score && e > last.index);
          if (is_after) best.Take(score, e);
        }
        sum += best.score;
        last = best;
      }
      of_group.put(g, sum);
    });
    block.sync();
    for (int i = 0; i < top_groups; ++i) {
      const Best best = TakeBest(block, of_group, groups);
      block.once([&] {
        if (best.index < groups) of_group.put(best.index, -INFINITY);
      });
      block.sync();
    }
    // The groups taken are now at minus infinity: they stay open, the others close.
    block.each(experts, [&](int e) {
      if (of_group.get(e / size) != -INFINITY) open.put(e, -INFINITY);
    });
    block.sync();
  }
};

// dweight (N,K), logits (N,E), choice I32 (N,K) -> dlogits (N,E); see route_grad in the CPU's
// kernels. A choice outside the experts is left out.
template <typename T>
struct RouteGrad {
  const float* dweight;
  const T* logits;
  const int32_t* choice;
  T* dlogits;
  int64_t rows;
  int32_t experts, choices;
  Scores kind;
  bool normalise;
  float scale = 1;

  int64_t blocks() const { return rows; }
  int scratch_words() const { return experts; }

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t n = block.index();
    const auto s = block.template scratch<float>(0);
    const float factor = PutScores(block, logits + n * experts, experts, kind, s);
    block.sync();
    const float* const d = dweight + n * choices;
    const int32_t* const chosen = choice + n * choices;
    float sum = kTinyScore, along = 0;
    for (int k = 0; k < choices; ++k) {
      if (chosen[k] < 0 || chosen[k] >= experts) continue;
      const float score = s.get(chosen[k]) * factor;
      sum += score;
      along += d[k] * score;
    }
    const auto slope = [&](int e) {
      float total = 0;
      for (int k = 0; k < choices; ++k) {
        if (chosen[k] != e) continue;
        total += normalise ? scale / sum * (d[k] - along / sum) : scale * d[k];
      }
      return total;
    };
    float mean = 0;
    if (kind == Scores::kSoftmax) {
      mean = block.reduce(
          experts, Sums<1>{},
          [&](int e, Sums<1>& total) { total[0] += slope(e) * (s.get(e) * factor); }, AddSums())[0];
    }
    block.each(experts, [&](int e) {
      const float score = s.get(e) * factor;
      const float rest = kind == Scores::kSigmoid ? slope(e) * (1.0f - score) : slope(e) - mean;
      StoreOne(dlogits + n * experts + e, score * rest);
    });
  }
};

// y[e] (+)= number of occurrences of e in choice: the sum over the chunks counted by CountKeys.
// counts I32 (chunks,E) -> y (E)
struct ChoiceCounts {
  const int32_t* counts;
  float* y;
  int64_t chunks;
  int32_t experts;
  bool accumulate = false;

  int64_t blocks() const { return (experts + 31) / 32; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int32_t first = static_cast<int32_t>(block.index()) * 32;
    block.each(experts - first < 32 ? experts - first : 32, [&](int i) {
      int64_t count = 0;
      for (int64_t chunk = 0; chunk < chunks; ++chunk) count += counts[chunk * experts + first + i];
      y[first + i] = (accumulate ? y[first + i] : 0.0f) + static_cast<float>(count);
    });
  }
};

// along[n] = sum over e of count[e] p[n,e], p the softmax of a row's logits; with `dlogits`
//
// dlogits[n,e] = dloss factor p[n,e] (count[e] - along[n])        factor = coefficient E / S
//
// logits (N,E), counts (E) -> along (N) or null, dlogits (N,E) or null. The loss is `factor` times
// the sum of `along`: SumOfAll.
template <typename T>
struct Balance {
  const T* logits;
  const float* counts;
  float* along;
  T* dlogits;
  const float* dloss;
  int64_t rows;
  int32_t experts;
  float factor;

  int64_t blocks() const { return rows; }
  int scratch_words() const { return experts; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t n = block.index();
    const auto p = block.template scratch<float>(0);
    const float share = PutScores(block, logits + n * experts, experts, Scores::kSoftmax, p);
    const Sums<1> sum = block.reduce(
        experts, Sums<1>{}, [&](int e, Sums<1>& s) { s[0] += counts[e] * (p.get(e) * share); },
        AddSums());
    block.once([&] {
      if (along != nullptr) along[n] = sum[0];
    });
    if (dlogits == nullptr) return;
    const float by = *dloss * factor;
    block.each(experts, [&](int e) {
      StoreOne(dlogits + n * experts + e, by * (p.get(e) * share) * (counts[e] - sum[0]));
    });
  }
};

}  // namespace stringline::cuda
