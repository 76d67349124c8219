// The experts' kernels against their formulas in double, and their shape rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "stages/ops.h"
#include "tests/stages/experts_ops.h"
#include "tests/stages/run_kernel.h"

namespace stringline::cpu {
namespace {

using Doubles = std::vector<double>;

struct Router {
  int64_t experts, top_k;
  bool sigmoid, normalise;
  double scale = 1;
  int64_t groups = 1, top_groups = 1, group_best = 1;

  Doubles attributes() const {
    return {double(top_k),  double(sigmoid),    double(normalise), scale,
            double(groups), double(top_groups), double(group_best)};
  }
  Doubles grad_attributes() const { return {double(sigmoid), double(normalise), scale}; }
};

Doubles Scores(const Router& router, const Doubles& logits) {
  Doubles scores;
  for (double x : logits) scores.push_back(router.sigmoid ? 1 / (1 + std::exp(-x)) : std::exp(x));
  if (router.sigmoid) return scores;
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
  for (double& s : scores) s /= sum;
  return scores;
}

// Indices of the `count` largest; `gap` becomes the smallest distance between two of `numbers`.
std::vector<int32_t> Largest(const Doubles& numbers, int64_t count, double* gap) {
  std::vector<int32_t> order(numbers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return numbers[a] > numbers[b]; });
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    *gap = std::min(*gap, numbers[order[i]] - numbers[order[i + 1]]);
  }
  order.resize(count);
  return order;
}

std::vector<int32_t> Choose(const Router& router, Doubles scores, const Doubles& bias,
                            double* gap) {
  for (size_t e = 0; e < scores.size(); ++e) scores[e] += bias[e];
  const int64_t size = router.experts / router.groups;
  Doubles groups;
  for (int64_t g = 0; g < router.groups; ++g) {
    const Doubles own(scores.begin() + g * size, scores.begin() + (g + 1) * size);
    double sum = 0;
    for (int32_t i : Largest(own, router.group_best, gap)) sum += own[i];
    groups.push_back(sum);
  }
  const std::vector<int32_t> top = Largest(groups, router.top_groups, gap);
  for (size_t e = 0; e < scores.size(); ++e) {
    if (std::count(top.begin(), top.end(), e / size) == 0) scores[e] = -1e3 - double(e);
  }
  return Largest(scores, router.top_k, gap);
}

Doubles Weights(const Router& router, const Doubles& logits, const std::vector<int32_t>& choice) {
  const Doubles scores = Scores(router, logits);
  double sum = 0;
  for (int32_t e : choice) sum += scores[e];
  Doubles weights;
  for (int32_t e : choice)
    weights.push_back(router.scale * scores[e] / (router.normalise ? sum : 1));
  return weights;
}

class ExpertsTruth : public SeededTest {
 protected:
  // A row of logits without near ties among scores or groups' scores.
  Doubles RandomLogits(const Router& router, const Doubles& bias) {
    std::normal_distribution<float> normal;
    while (true) {
      Doubles logits;
      for (int64_t e = 0; e < router.experts; ++e) logits.push_back(normal(random_));
      double gap = 1;
      Choose(router, Scores(router, logits), bias, &gap);
      if (gap > 1e-5) return logits;
    }
  }
};

const Router kRouters[] = {
    {5, 1, false, false},
    {8, 2, false, true},
    {8, 3, true, false, 0.5},
    {12, 4, true, true, 2.5, 4, 2, 2},   // as DeepSeek-V3
    {12, 3, false, false, 16, 3, 2, 1},  // as DeepSeek-V2
    {6, 6, true, true},
};

TEST_F(ExpertsTruth, Route) {
  const int64_t rows = 23;
  for (const Router& router : kRouters) {
    for (const bool biased : {false, true}) {
      SCOPED_TRACE(absl::StrCat(router.experts, " experts, biased ", biased));
      const Array noise = Random({router.experts});
      Doubles bias(router.experts, 0);
      Array bias_array = MakeArray(biased ? noise.type : Type{});
      for (int64_t e = 0; biased && e < router.experts; ++e) {
        bias[e] = bias_array.f32()[e] = 0.1f * noise.f32()[e];
      }
      Array logits = MakeArray(F32({rows, router.experts}));
      Doubles weights;
      std::vector<int32_t> choices;
      for (int64_t n = 0; n < rows; ++n) {
        const Doubles row = RandomLogits(router, bias);
        std::copy(row.begin(), row.end(), logits.f32() + n * router.experts);
        double gap = 1;
        const std::vector<int32_t> choice = Choose(router, Scores(router, row), bias, &gap);
        choices.insert(choices.end(), choice.begin(), choice.end());
        for (double w : Weights(router, row, choice)) weights.push_back(w);
      }
      const std::vector<Array> out =
          RunKernel(Op::kRoute, {logits, bias_array}, router.attributes());
      ExpectClose(out[0], weights, 2e-6);
      EXPECT_EQ(IntegersOf(out[1]), choices);
    }
  }
}

TEST_F(ExpertsTruth, RouteTakesTheLowerOfTwoEquals) {
  Array logits = MakeArray(F32({2, 6})), bias = MakeArray(Type{});
  for (int e = 0; e < 6; ++e) logits.f32()[6 + e] = e == 4 ? 1 : 0;
  const std::vector<Array> out = RunKernel(Op::kRoute, {logits, bias}, {3, 1, 0, 1, 1, 1, 1});
  EXPECT_EQ(IntegersOf(out[1]), (std::vector<int32_t>{0, 1, 2, 4, 0, 1}));
  const std::vector<Array> grouped = RunKernel(Op::kRoute, {logits, bias}, {2, 1, 0, 1, 3, 1, 2});
  EXPECT_EQ(IntegersOf(grouped[1]), (std::vector<int32_t>{0, 1, 4, 5}));
}

// With NaN, the choice is still of distinct experts.
TEST_F(ExpertsTruth, RouteChoosesDistinctExpertsOfNotANumber) {
  const Array logits = NanArray(F32({1, 6}));
  const std::vector<Array> out =
      RunKernel(Op::kRoute, {logits, MakeArray(Type{})}, {3, 0, 1, 1, 3, 2, 2});
  EXPECT_EQ(IntegersOf(out[1]), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_TRUE(std::isnan(out[0].f32()[0]));
}

// Against central differences of the formula in double.
TEST_F(ExpertsTruth, RouteGrad) {
  const int64_t rows = 7;
  for (const Router& router : kRouters) {
    SCOPED_TRACE(absl::StrCat(router.experts, " experts"));
    const Array logits = Random({rows, router.experts}), dweight = Random({rows, router.top_k});
    Array choice = MakeArray(I32({rows, router.top_k}));
    Doubles expected;
    for (int64_t n = 0; n < rows; ++n) {
      std::vector<int32_t> all(router.experts);
      std::iota(all.begin(), all.end(), 0);
      std::shuffle(all.begin(), all.end(), random_);
      all.resize(router.top_k);
      std::copy(all.begin(), all.end(), choice.i32() + n * router.top_k);
      const float* row = logits.f32() + n * router.experts;
      for (int64_t e = 0; e < router.experts; ++e) {
        double sides[2] = {0, 0};
        for (int side = 0; side < 2; ++side) {
          Doubles moved(row, row + router.experts);
          moved[e] += (2 * side - 1) * 1e-4;
          const Doubles weights = Weights(router, moved, all);
          for (int64_t k = 0; k < router.top_k; ++k) {
            sides[side] += weights[k] * dweight.f32()[n * router.top_k + k];
          }
        }
        expected.push_back((sides[1] - sides[0]) / 2e-4);
      }
    }
    ExpectClose(RunKernel(Op::kRouteGrad, {dweight, logits, choice}, router.grad_attributes())[0],
                expected, 1e-5);
  }
}

// The counts are constants: the gradient is that of the mean probabilities alone.
TEST_F(ExpertsTruth, BalanceLoss) {
  for (const int64_t experts : {1, 3, 17}) {
    const int64_t rows = 9, choices = 2;
    const double coefficient = 0.3;
    const Array logits = Random({rows, experts});
    const Array choice = RandomArray(I32({rows, choices}), random_, static_cast<int32_t>(experts));
    Doubles counts(experts, 0);
    for (int32_t e : IntegersOf(choice)) ++counts[e];
    const auto loss_of = [&](const Doubles& x) {
      double loss = 0;  // coefficient N E sum over e of f_e P_e
      for (int64_t n = 0; n < rows; ++n) {
        const Doubles p = Scores({experts, 1, false, false},
                                 Doubles(x.begin() + n * experts, x.begin() + (n + 1) * experts));
        for (int64_t e = 0; e < experts; ++e) {
          const double f = counts[e] / double(rows * choices);
          loss += coefficient * double(rows * experts) * f * p[e] / double(rows);
        }
      }
      return loss;
    };
    Doubles x(logits.f32(), logits.f32() + rows * experts), grad;
    ExpectClose(RunKernel(Op::kBalanceLoss, {logits, choice}, {coefficient})[0], {loss_of(x)},
                1e-6);
    Array dloss = MakeArray(Type{});
    *dloss.f32() = -2;
    for (double& element : x) {
      const double kept = element;
      element = kept + 1e-4;
      const double above = loss_of(x);
      element = kept - 1e-4;
      grad.push_back(-2 * (above - loss_of(x)) / 2e-4);
      element = kept;
    }
    ExpectClose(RunKernel(Op::kBalanceLossGrad, {dloss, logits, choice}, {coefficient})[0], grad,
                2e-6);
    ExpectClose(RunKernel(Op::kChoiceCounts, {choice}, {double(experts)})[0], counts, 0);
  }
}

TEST_F(ExpertsTruth, DispatchPlan) {
  for (const int64_t experts : {1, 4, 40}) {
    for (const int32_t capacity : {0, 1, 3, 1000}) {
      SCOPED_TRACE(absl::StrCat(experts, " experts, capacity ", capacity));
      const Array choice = RandomArray(I32({7, 5}), random_, static_cast<int32_t>(experts));
      std::vector<int32_t> counts(experts, 0), order, dropped;
      for (int32_t e = 0; e < experts; ++e) {
        for (int32_t s = 0; s < 35; ++s) {
          if (choice.i32()[s] == e && (capacity == 0 || counts[e] < capacity)) {
            ++counts[e];
            order.push_back(s);
          }
        }
      }
      const size_t kept = order.size();
      for (int32_t s = 0; s < 35; ++s) {
        if (std::count(order.begin(), order.begin() + static_cast<int64_t>(kept), s) == 0) {
          order.push_back(s);
        }
      }
      const std::vector<Array> out =
          RunKernel(Op::kDispatchPlan, {choice}, {double(experts), double(capacity)});
      EXPECT_EQ(IntegersOf(out[0]), order);
      EXPECT_EQ(IntegersOf(out[1]), counts);
      EXPECT_EQ(*out[2].f32(), static_cast<float>(35 - kept));
    }
  }
}

TEST_F(ExpertsTruth, RowsAndWeightsGoThereAndBack) {
  const int64_t tokens = 6, choices = 3, width = 5, slots = tokens * choices;
  std::vector<int32_t> shuffled(slots);
  std::iota(shuffled.begin(), shuffled.end(), 0);
  std::shuffle(shuffled.begin(), shuffled.end(), random_);
  const Array order = Integers({tokens, choices}, shuffled);
  const Array x = Random({2, 3, width}), rows = Random({slots, width});
  const Array weight = Random({tokens, choices}), sorted = Random({slots});
  Array shaped = Integers({2, 3, choices}, shuffled);
  Doubles gathered, summed(tokens * width, 0), taken, put(slots, 0);
  for (int64_t j = 0; j < slots; ++j) {
    const int64_t token = shuffled[j] / choices;
    for (int64_t c = 0; c < width; ++c) {
      gathered.push_back(x.f32()[token * width + c]);
      summed[token * width + c] += rows.f32()[j * width + c];
    }
    taken.push_back(weight.f32()[shuffled[j]]);
    put[shuffled[j]] = sorted.f32()[j];
  }
  ExpectClose(RunKernel(Op::kGatherRows, {x, shaped}, {})[0], gathered, 0);
  const Array sums = RunKernel(Op::kSumRows, {rows, shaped}, {})[0];
  EXPECT_EQ(sums.type, x.type);
  ExpectClose(sums, summed, 1e-6);
  ExpectClose(RunKernel(Op::kGatherWeights, {weight, order}, {})[0], taken, 0);
  ExpectClose(RunKernel(Op::kScatterWeights, {sorted, order}, {})[0], put, 0);
}

// The k-th addend is that of the k-th choice, whatever the order: the same bits.
TEST_F(ExpertsTruth, RowsAreSummedInTheOrderOfTheSlots) {
  const float parts[] = {1e8f, 1, -1e8f, 1};
  std::vector<int32_t> shuffled = {0, 1, 2, 3};
  do {
    Array rows = MakeArray(F32({4, 1}));
    for (int j = 0; j < 4; ++j) rows.f32()[j] = parts[shuffled[j]];
    EXPECT_EQ(*RunKernel(Op::kSumRows, {rows, Integers({1, 4}, shuffled)}, {})[0].f32(),
              ((parts[0] + parts[1]) + parts[2]) + parts[3]);
  } while (std::next_permutation(shuffled.begin(), shuffled.end()));
}

TEST_F(ExpertsTruth, CollectivesOfOneRankAreCopies) {
  const Array counts = Integers({3}, {2, 0, 3}), received = Integers({1, 3}, {2, 0, 3});
  EXPECT_EQ(IntegersOf(RunKernel(Op::kAllToAllCounts, {counts}, {1})[0]), IntegersOf(counts));
  for (const bool wide : {false, true}) {
    const Array x = wide ? Random({7, 4}) : Random({7});
    const int64_t width = wide ? 4 : 1;
    const Array there = RunKernel(Op::kDispatch, {x, counts, received}, {9})[0];
    EXPECT_EQ(there.type.shape[0], 9);
    for (int64_t i = 0; i < 9 * width; ++i) {
      const float seen = there.f32()[i];  // NaN: not written
      EXPECT_TRUE(i < 5 * width ? seen == x.f32()[i] : std::isnan(seen)) << i;
    }
    const Array back = RunKernel(Op::kCombine, {there, counts, received}, {7})[0];
    for (int64_t i = 0; i < 7 * width; ++i) {
      EXPECT_EQ(back.f32()[i], i < 5 * width ? x.f32()[i] : 0);
    }
  }
}

using ExpertsDeathTest = ExpertsTruth;

TEST_F(ExpertsDeathTest, CollectivesOfSeveralRanksAreNoKernels) {
  const Array counts = Integers({4}, {1, 1, 0, 0}), received = Integers({2, 2}, {1, 1, 0, 0});
  EXPECT_DEATH(RunKernel(Op::kAllToAllCounts, {counts}, {2}), "2 ranks");
  EXPECT_DEATH(RunKernel(Op::kDispatch, {Random({2, 3}), counts, received}, {4}), "2 ranks");
  EXPECT_DEATH(RunKernel(Op::kCombine, {Random({4, 3}), counts, received}, {2}), "2 ranks");
}

// Rows past the sum hold NaN before and after: they are neither read nor written.
void ExpectRows(const Array& seen, int64_t rows, const Doubles& expected, double tolerance) {
  const int64_t width = seen.type.elements() / seen.type.shape[0];
  for (int64_t i = 0; i < seen.type.elements(); ++i) {
    if (i < rows * width) {
      ASSERT_NEAR(seen.f32()[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
    } else {
      ASSERT_TRUE(std::isnan(seen.f32()[i])) << "row " << i / width << " written";
    }
  }
}

void Forget(const Array& array, int64_t rows) {
  const int64_t width = array.type.elements() / array.type.shape[0];
  std::fill(array.f32() + rows * width, array.f32() + array.type.elements(),
            std::numeric_limits<float>::quiet_NaN());
}

struct Segments {
  int64_t ranks, experts;
  std::vector<int32_t> rows;
};
const Segments kSegments[] = {
    {1, 1, {5}}, {1, 4, {3, 0, 17, 1}}, {3, 2, {0, 4, 9, 0, 2, 2}}, {2, 2, {0, 0, 0, 0}}};

TEST_F(ExpertsTruth, GroupedProducts) {
  for (const Segments& segments : kSegments) {
    const int64_t total = std::accumulate(segments.rows.begin(), segments.rows.end(), 0);
    const int64_t most = total + 3, in = 19, out = 7, experts = segments.experts;
    SCOPED_TRACE(absl::StrCat(segments.ranks, " ranks, ", total, " rows"));
    const Array received = Integers({segments.ranks, experts}, segments.rows);
    const Array x = Random({most, in}), dy = Random({most, out}), w = Random({experts, out, in});
    Forget(x, total);
    Forget(dy, total);
    Doubles y(most * out), dx(most * in), dw(experts * out * in);
    int64_t r = 0;
    for (size_t i = 0; i < segments.rows.size(); ++i) {
      const int64_t j = static_cast<int64_t>(i) % experts;
      for (const int64_t end = r + segments.rows[i]; r < end; ++r) {
        for (int64_t o = 0; o < out; ++o) {
          for (int64_t k = 0; k < in; ++k) {
            const double weight = w.f32()[(j * out + o) * in + k];
            y[r * out + o] += x.f32()[r * in + k] * weight;
            dx[r * in + k] += dy.f32()[r * out + o] * weight;
            dw[(j * out + o) * in + k] += double{dy.f32()[r * out + o]} * x.f32()[r * in + k];
          }
        }
      }
    }
    ExpectRows(RunKernel(Op::kGroupedLinear, {x, w, received}, {})[0], total, y, 6e-5);
    ExpectRows(RunKernel(Op::kGroupedLinearInputGrad, {dy, w, received}, {})[0], total, dx, 6e-5);
    ExpectClose(RunKernel(Op::kGroupedLinearWeightGrad, {dy, x, received}, {})[0], dw, 6e-5);
  }
}

TEST_F(ExpertsTruth, ExpertSwiglu) {
  for (const int64_t width : {1, 16, 37, 70}) {
    for (const float spread : {1.0f, 60.0f}) {
      const int64_t total = 5, most = 8;
      const Array received = Integers({2, 2}, {1, 0, 0, 4});
      const Array both = Random({most, 2 * width}), weight = Random({most});
      const Array dy = Random({most, width});
      for (int64_t i = 0; i < both.type.elements(); ++i) both.f32()[i] *= spread;
      for (const Array& array : {both, weight, dy}) Forget(array, total);
      Doubles y(most * width), dboth(most * 2 * width), dweight(most);
      for (int64_t r = 0; r < total; ++r) {
        for (int64_t f = 0; f < width; ++f) {
          const double g = both.f32()[2 * r * width + f], u = both.f32()[(2 * r + 1) * width + f];
          const double p = weight.f32()[r], d = dy.f32()[r * width + f];
          const double s = 1 / (1 + std::exp(-g));
          y[r * width + f] = g * s * u * p;
          dboth[2 * r * width + f] = d * u * p * s * (1 + g * (1 - s));
          dboth[(2 * r + 1) * width + f] = d * g * s * p;
          dweight[r] += d * g * s * u;
        }
      }
      ExpectRows(RunKernel(Op::kExpertSwiglu, {both, weight, received}, {})[0], total, y, 2e-6);
      const std::vector<Array> grads =
          RunKernel(Op::kExpertSwigluGrad, {dy, both, weight, received}, {});
      ExpectRows(grads[0], total, dboth, 1e-5 * spread);
      ExpectRows(grads[1], total, dweight, 1e-5 * spread * spread);
    }
  }
}

TEST(ExpertsOps, CollectivesAndCuts) {
  for (const OpRow& row : AllOps()) {
    const std::string name = row.name;
    const bool cut = name == "dispatch" || name == "combine";
    EXPECT_EQ(IsCut(row.op), cut) << name;
    EXPECT_EQ(IsCollective(row.op), cut || name == "all_to_all_counts") << name;
  }
}

TEST(ExpertsOps, ShapeRulesRefuse) {
  const struct {
    Op op;
    std::vector<Type> inputs;
    std::vector<double> attributes;
    const char* message;
  } cases[] = {
      {Op::kRoute,
       {F32({2, 6}), F32({5})},
       {2, 0, 0, 1, 1, 1, 1},
       "route wants a bias (E) or (), seen: f32[2,6], f32[5]"},
      {Op::kRoute,
       {F32({2, 6}), F32({6})},
       {7, 0, 0, 1, 1, 1, 1},
       "top_k is 7, not a whole number in 1 .. 6"},
      {Op::kRoute,
       {F32({2, 6}), F32({6})},
       {2, 0, 0, 1, 4, 1, 1},
       "6 experts do not divide into 4 groups"},
      {Op::kRoute,
       {F32({2, 6}), F32({6})},
       {3, 0, 0, 1, 3, 1, 1},
       "3 choices from 1 groups of 2 experts"},
      {Op::kRouteGrad,
       {F32({2, 3}), F32({2, 6}), I32({2, 2})},
       {0, 0, 1},
       "route_grad wants dweight (..,K), logits (..,E) and choice (..,K), seen: f32[2,3], "
       "f32[2,6], i32[2,2]"},
      {Op::kChoiceCounts, {F32({2, 3})}, {4}, "choice_counts wants choice (..,K), seen: f32[2,3]"},
      {Op::kBalanceLoss,
       {F32({2, 6}), I32({3, 2})},
       {1},
       "balance_loss wants logits (..,E) and choice (..,K), seen: f32[2,6], i32[3,2]"},
      {Op::kBalanceLossGrad,
       {F32({1}), F32({2, 6}), I32({2, 2})},
       {1},
       "balance_loss_grad wants dloss (), logits (..,E) and choice (..,K), seen: f32[1], "
       "f32[2,6], i32[2,2]"},
      {Op::kDispatchPlan,
       {I32({2, 3})},
       {4, 0.5},
       "capacity is 0.5, not a whole number in 0 .. 1073741824"},
      {Op::kGatherRows,
       {F32({2, 6}), I32({3, 2})},
       {},
       "gather_rows wants x (..,C) and order (..,K), seen: f32[2,6], i32[3,2]"},
      {Op::kSumRows,
       {F32({5, 6}), I32({3, 2})},
       {},
       "sum_rows wants x (S,C) and order (..,K), S slots in all, seen: f32[5,6], i32[3,2]"},
      {Op::kGatherWeights,
       {F32({2, 3}), I32({3, 2})},
       {},
       "gather_weights wants x (..,K) and order (..,K), seen: f32[2,3], i32[3,2]"},
      {Op::kScatterWeights,
       {F32({5}), I32({3, 2})},
       {},
       "scatter_weights wants x (S) and order (..,K), S slots in all, seen: f32[5], i32[3,2]"},
      {Op::kAllToAllCounts, {I32({6})}, {4}, "6 experts do not divide among 4 ranks"},
      {Op::kDispatch,
       {F32({5, 2}), I32({6}), I32({2, 2})},
       {9},
       "dispatch wants x (S,C) or (S), counts (E) and received (X,e), seen: f32[5,2], i32[6], "
       "i32[2,2]"},
      {Op::kCombine,
       {F32({5, 2}), I32({6}), I32({2, 3})},
       {0},
       "rows is 0, not a whole number in 1 .. 1073741824"},
      {Op::kGroupedLinear,
       {F32({5, 2}), F32({3, 4, 2}), I32({2, 2})},
       {},
       "grouped_linear wants x (R,K), w (e,O,K) and received (X,e), seen: f32[5,2], f32[3,4,2], "
       "i32[2,2]"},
      {Op::kGroupedLinearInputGrad,
       {F32({5, 2}), F32({3, 4, 2}), I32({2, 3})},
       {},
       "grouped_linear_input_grad wants dy (R,O), w (e,O,K) and received (X,e), seen: f32[5,2], "
       "f32[3,4,2], i32[2,3]"},
      {Op::kGroupedLinearWeightGrad,
       {F32({5, 2}), F32({6, 3}), I32({2, 3})},
       {},
       "grouped_linear_weight_grad wants dy (R,O), x (R,K) and received (X,e), seen: f32[5,2], "
       "f32[6,3], i32[2,3]"},
      {Op::kExpertSwiglu,
       {F32({5, 3}), F32({5}), I32({2, 3})},
       {},
       "expert_swiglu wants gate and up (R,2F), weight (R) and received (X,e), seen: f32[5,3], "
       "f32[5], i32[2,3]"},
      {Op::kExpertSwigluGrad,
       {F32({5, 3}), F32({5, 4}), F32({5}), I32({2, 3})},
       {},
       "expert_swiglu_grad wants dy (R,F), gate and up (R,2F), weight (R) and received (X,e), "
       "seen: f32[5,3], f32[5,4], f32[5], i32[2,3]"},
  };
  std::vector<bool> met(AllOps().size(), false);
  for (const auto& test : cases) {
    met[static_cast<size_t>(test.op)] = true;
    EXPECT_EQ(InferTypes(test.op, test.inputs, test.attributes).status().message(), test.message);
  }
  for (const OpRow& row : AllOps()) {
    EXPECT_EQ(met[static_cast<size_t>(row.op)], IsOfExperts(row.op)) << row.name;
  }
}

}  // namespace
}  // namespace stringline::cpu
