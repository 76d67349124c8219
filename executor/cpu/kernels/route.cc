// The experts of a token, their weights, and the balance of the choices.
//
// A row of logits becomes a row of scores in scratch memory; the experts are found by K searches
// for the largest score: K and E are small.
#include <algorithm>
#include <cmath>

#include "executor/cpu/kernels/kernels.h"
#include "schedlang/base/sl_check.h"

namespace stringline::cpu {
namespace {

constexpr float kTiny = 1e-20f;  // keeps a sum of scores from being zero

enum class ScoreKind { kSoftmax, kSigmoid };

void SoftmaxOf(const float* logits, int64_t experts, float* scores) {
  const float most = *std::max_element(logits, logits + experts);
  float sum = 0;
  for (int64_t e = 0; e < experts; ++e) sum += scores[e] = std::exp(logits[e] - most);
  for (int64_t e = 0; e < experts; ++e) scores[e] /= sum;
}

void ScoresOf(const float* logits, int64_t experts, ScoreKind kind, float* scores) {
  if (kind == ScoreKind::kSoftmax) return SoftmaxOf(logits, experts, scores);
  for (int64_t e = 0; e < experts; ++e) scores[e] = 1.0f / (1.0f + std::exp(-logits[e]));
}

// The index of the largest score still open, the first of equals; closes it.
int64_t TakeLargest(const float* scores, int64_t count, int32_t* open) {
  int64_t best = -1;
  for (int64_t i = 0; i < count; ++i) {
    if (open[i] != 0 && (best < 0 || scores[i] > scores[best])) best = i;
  }
  SL_CHECK(best >= 0) << "no expert is left to choose";
  open[best] = 0;
  return best;
}

// Opens the experts of the `top` best of `groups` groups, whose score is the sum of their `best`
// largest. `group_scores` and `group_open` are scratch memory.
void OpenGroups(const float* scores, int64_t experts, int64_t groups, int64_t top, int64_t best,
                float* group_scores, int32_t* group_open, int32_t* open) {
  const int64_t size = experts / groups;
  std::fill_n(open, experts, 1);
  for (int64_t g = 0; g < groups; ++g) {
    float sum = 0;
    for (int64_t i = 0; i < best; ++i) {
      sum += scores[g * size + TakeLargest(scores + g * size, size, open + g * size)];
    }
    group_scores[g] = sum;
  }
  std::fill_n(group_open, groups, 1);
  std::fill_n(open, experts, 0);
  for (int64_t i = 0; i < top; ++i) {
    std::fill_n(open + TakeLargest(group_scores, groups, group_open) * size, size, 1);
  }
}

int32_t ExpertAt(const Tensor& choice, int64_t slot, int64_t experts) {
  const int32_t expert = choice.i32()[slot];
  SL_CHECK(expert >= 0 && expert < experts) << "expert " << expert << " of " << experts;
  return expert;
}

// The number of occurrences of each expert in `choice`, as floats.
void CountChoices(const Tensor& choice, int64_t experts, float* counts) {
  const int64_t slots = choice.type->elements();
  for (int64_t s = 0; s < slots; ++s) counts[ExpertAt(choice, s, experts)] += 1.0f;
}

// coefficient E / S
float BalanceFactor(const Node& node, int64_t experts, const Tensor& choice) {
  return static_cast<float>(node.attributes[0] * static_cast<double>(experts) /
                            static_cast<double>(choice.type->elements()));
}

}  // namespace

int64_t RouteWorkspace(const Type& logits) { return 5 * logits.shape.back() * 4; }

// The K experts of the largest score + bias, and their scores without the bias: see ops.def.
//
// logits (N,E), bias (E) or () -> weight (N,K), choice I32 (N,K), both overwritten.
void Run_kRoute(const Node& node, In in, Out out, Accumulate, void* workspace) {
  const int64_t rows = RowCount(in[0]), experts = RowLength(in[0]), choices = RowLength(out[0]);
  const auto kind = static_cast<ScoreKind>(node.attributes[1]);
  const bool normalise = node.attributes[2] != 0;
  const float scale = static_cast<float>(node.attributes[3]);
  const auto groups = static_cast<int64_t>(node.attributes[4]);
  const bool one_bias = in[1].type->shape.empty();
  float* scores = static_cast<float*>(workspace);
  float* biased = scores + experts;
  float* group_scores = biased + experts;
  int32_t* group_open = reinterpret_cast<int32_t*>(group_scores + experts);
  int32_t* open = group_open + experts;
  for (int64_t n = 0; n < rows; ++n) {
    ScoresOf(in[0].f32() + n * experts, experts, kind, scores);
    for (int64_t e = 0; e < experts; ++e) biased[e] = scores[e] + in[1].f32()[one_bias ? 0 : e];
    if (groups > 1) {
      OpenGroups(biased, experts, groups, static_cast<int64_t>(node.attributes[5]),
                 static_cast<int64_t>(node.attributes[6]), group_scores, group_open, open);
    } else {
      std::fill_n(open, experts, 1);
    }
    float* weight = out[0].f32() + n * choices;
    int32_t* choice = out[1].i32() + n * choices;
    float sum = kTiny;
    for (int64_t k = 0; k < choices; ++k) {
      choice[k] = static_cast<int32_t>(TakeLargest(biased, experts, open));
      sum += weight[k] = scores[choice[k]];
    }
    const float factor = normalise ? scale / sum : scale;
    for (int64_t k = 0; k < choices; ++k) weight[k] *= factor;
  }
}

int64_t RouteGradWorkspace(const Type& logits) { return 2 * logits.shape.back() * 4; }

// With s the scores of a row and dt[k] the gradient of s[choice[k]]:
//
// normalised: dt[k] = scale / sum (dweight[k] - sum over i of dweight[i] s[choice[i]] / sum),
// otherwise:  dt[k] = scale dweight[k];   ds[choice[k]] += dt[k]
// sigmoid: dlogits[e] = ds[e] s[e] (1 - s[e]);  softmax: dlogits[e] = s[e] (ds[e] - ds . s)
//
// dweight (N,K), logits (N,E), choice I32 (N,K) -> dlogits (N,E), overwritten.
void Run_kRouteGrad(const Node& node, In in, Out out, Accumulate, void* workspace) {
  const int64_t rows = RowCount(in[1]), experts = RowLength(in[1]), choices = RowLength(in[0]);
  const auto kind = static_cast<ScoreKind>(node.attributes[0]);
  const bool normalise = node.attributes[1] != 0;
  const float scale = static_cast<float>(node.attributes[2]);
  float* s = static_cast<float*>(workspace);
  float* ds = s + experts;
  for (int64_t n = 0; n < rows; ++n) {
    const float* dweight = in[0].f32() + n * choices;
    float* dlogits = out[0].f32() + n * experts;
    ScoresOf(in[1].f32() + n * experts, experts, kind, s);
    std::fill_n(ds, experts, 0.0f);
    float sum = kTiny, along = 0;
    for (int64_t k = 0; k < choices; ++k) {
      const float score = s[ExpertAt(in[2], n * choices + k, experts)];
      sum += score;
      along += dweight[k] * score;
    }
    for (int64_t k = 0; k < choices; ++k) {
      ds[in[2].i32()[n * choices + k]] +=
          normalise ? scale / sum * (dweight[k] - along / sum) : scale * dweight[k];
    }
    if (kind == ScoreKind::kSigmoid) {
      for (int64_t e = 0; e < experts; ++e) dlogits[e] = ds[e] * s[e] * (1.0f - s[e]);
      continue;
    }
    float mean = 0;
    for (int64_t e = 0; e < experts; ++e) mean += ds[e] * s[e];
    for (int64_t e = 0; e < experts; ++e) dlogits[e] = s[e] * (ds[e] - mean);
  }
}

// y[e] = number of occurrences of e in choice
//
// choice I32 (S) -> y (E), overwritten or added to.
void Run_kChoiceCounts(const Node&, In in, Out out, Accumulate accumulate, void*) {
  const int64_t experts = out[0].type->elements();
  if (!accumulate[0]) std::fill_n(out[0].f32(), experts, 0.0f);
  CountChoices(in[0], experts, out[0].f32());
}

int64_t BalanceWorkspace(const Type& logits) { return 2 * logits.shape.back() * 4; }

// loss = coefficient E / S sum over n, e of count[e] p[n,e]      p the softmax of a row's logits
//
// logits (N,E), choice I32 (N,K) -> loss (), overwritten; summed in double, ascending.
void Run_kBalanceLoss(const Node& node, In in, Out out, Accumulate, void* workspace) {
  const int64_t rows = RowCount(in[0]), experts = RowLength(in[0]);
  float* counts = static_cast<float*>(workspace);
  float* p = counts + experts;
  std::fill_n(counts, experts, 0.0f);
  CountChoices(in[1], experts, counts);
  double sum = 0;
  for (int64_t n = 0; n < rows; ++n) {
    SoftmaxOf(in[0].f32() + n * experts, experts, p);
    for (int64_t e = 0; e < experts; ++e) sum += static_cast<double>(counts[e]) * p[e];
  }
  *out[0].f32() = static_cast<float>(sum * BalanceFactor(node, experts, in[1]));
}

// dlogits[n,e] = dloss coefficient E / S p[n,e] (count[e] - sum over i of count[i] p[n,i])
//
// dloss (), logits (N,E), choice I32 (N,K) -> dlogits (N,E), overwritten.
void Run_kBalanceLossGrad(const Node& node, In in, Out out, Accumulate, void* workspace) {
  const int64_t rows = RowCount(in[1]), experts = RowLength(in[1]);
  float* counts = static_cast<float*>(workspace);
  float* p = counts + experts;
  std::fill_n(counts, experts, 0.0f);
  CountChoices(in[2], experts, counts);
  const float factor = *in[0].f32() * BalanceFactor(node, experts, in[2]);
  for (int64_t n = 0; n < rows; ++n) {
    float* dlogits = out[0].f32() + n * experts;
    SoftmaxOf(in[1].f32() + n * experts, experts, p);
    float mean = 0;
    for (int64_t e = 0; e < experts; ++e) mean += counts[e] * p[e];
    for (int64_t e = 0; e < experts; ++e) dlogits[e] = factor * p[e] * (counts[e] - mean);
  }
}

}  // namespace stringline::cpu
