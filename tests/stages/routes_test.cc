// The ways of values through stages that are no chain: each value goes over the edge that joins its
// stages, or over the fewest edges, and the programs of those stages together are the whole model.
#include "stages/models/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/stages/model_runs.h"

namespace stringline::cpu {
namespace {

using testing::HasSubstr;

std::string Print(const std::vector<StageRoutes>& routes) {
  std::string text;
  for (size_t s = 0; s < routes.size(); ++s) {
    absl::StrAppend(&text, s, ":");
    for (const auto& [id, edge] : routes[s].in) absl::StrAppend(&text, " <", id, "@", edge);
    for (const auto& [id, edge] : routes[s].out) absl::StrAppend(&text, " >", id, "@", edge);
    absl::StrAppend(&text, "\n");
  }
  return text;
}

// Four parts of a stage each; the first one's value is read by the last one, too.
std::vector<PartValue> OneSkip() {
  std::vector<PartValue> values = ValuesInARow(2);
  values[0].read_in.push_back(3);
  return values;
}

TEST(Routes, AChainHandsValuesOn) {
  const auto routes = RouteValues(OneSkip(), {0, 1, 2, 3}, 4, {});
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_EQ(Print(*routes), "0: >0@0\n1: <0@0 >0@0 >1@0\n2: <0@0 <1@0 >0@0 >2@0\n3: <0@0 <2@0\n");
}

TEST(Routes, AnEdgeCarriesAValueAtOnce) {
  const auto routes = RouteValues(OneSkip(), {0, 1, 2, 3}, 4, {{0, 3}, {2, 3}, {0, 1}, {1, 2}});
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_EQ(Print(*routes), "0: >0@0 >0@1\n1: <0@0 >1@0\n2: <1@0 >2@0\n3: <0@0 <2@1\n");
}

TEST(Routes, ReadersOfOneStageGetAValueOnce) {
  const auto routes = RouteValues(OneSkip(), {0, 1, 1, 1}, 2, {});
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_EQ(Print(*routes), "0: >0@0\n1: <0@0\n");
}

TEST(Routes, EdgesThatDoNotFitAreRefused) {
  const auto says = [](std::vector<StageEdge> edges) {
    return std::string(
        RouteValues(OneSkip(), {0, 1, 2, 3}, 4, std::move(edges)).status().message());
  };
  EXPECT_EQ(says({{0, 1}, {1, 2}, {0, 3}}),
            "the head, in stage 3, reads a result of layer 1, in stage 2, and no edges of the "
            "schedule lead there");
  EXPECT_EQ(says({{0, 1}, {1, 2}, {2, 3}, {0, 2}, {1, 3}}),
            "the schedule has an edge 0 -> 2, and nothing of this model goes over it");
  EXPECT_THAT(says({{0, 1}, {1, 2}, {2, 3}, {3, 0}}), HasSubstr("edge 3 -> 0"));
}

// Runs a model whose stages have edges: an array for each value of an edge and its gradient.
struct EdgeRun {
  std::vector<StageEdge> edges;  // by their ends in order
  std::vector<StageState> states;

  // The other end of an edge of the stage, and the place of its first value there.
  std::pair<int, size_t> Behind(const std::vector<StageProgram>& programs, int stage, int edge) {
    int to = -1, place = 0;
    for (const StageEdge& one : edges) {
      if (one.from == stage && edge-- == 0) to = one.to;
    }
    for (const StageEdge& one : edges) place += one.to == to && one.from < stage ? 1 : 0;
    size_t first = 0;
    while (programs[to].inputs[first].edge != place) ++first;
    return {to, first};
  }

  double Loss(const std::vector<StageProgram>& programs, const Batch& batch) {
    states[0].inputs[0] = batch.tokens;
    for (size_t s = 0; s < programs.size(); ++s) {
      states[s].target = batch.target;
      Evaluate(programs[s].forward, &states[s]);
      std::map<int, size_t> next;  // by edge
      for (size_t i = 0; i < programs[s].outputs.size() && !programs[s].last; ++i) {
        const int edge = programs[s].outputs[i].edge;
        const auto [to, first] = Behind(programs, static_cast<int>(s), edge);
        states[to].inputs[first + next[edge]++] = states[s].outputs[i];
      }
    }
    return *states.back().loss.f32();
  }

  void Backward(const std::vector<StageProgram>& programs) {
    for (int s = static_cast<int>(programs.size()) - 1; s >= 0; --s) {
      std::map<int, size_t> next;
      for (size_t i = 0; i < programs[s].outputs.size() && !programs[s].last; ++i) {
        const int edge = programs[s].outputs[i].edge;
        const auto [to, first] = Behind(programs, s, edge);
        states[s].out_grads[i] = states[to].in_grads[first + next[edge]++];
      }
      Evaluate(programs[s].input_gradient, &states[s]);
      Evaluate(programs[s].weight_gradient, &states[s]);
    }
  }
};

// Over edges the gradients of a value with readers in several stages are added in another order
// than in a chain: the last bits may differ.
TEST(Routes, StagesWithEdgesAreTheWholeModel) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const AnyShape shape = GptShape{.layers = 7,
                                  .width = 24,
                                  .heads = 3,
                                  .context = 12,
                                  .vocabulary = 40,
                                  .microbatch = 2,
                                  .skips = true};
  const std::vector<Batch> batches = RandomBatches(shape, random);
  const auto whole = BuildModelStages(shape, {7});
  ASSERT_TRUE(whole.ok()) << whole.status();
  const ModelResult expected = RunModel(*whole, batches, seed, Mode::kWhole);
  for (const Recompute what : {Recompute::kNone, Recompute::kAll}) {
    BuildOptions options;
    options.recompute.what = what;
    // Stages 0 to 4 have the layers 0 1, 2, 3, 4 5 and 6: 0 -> 3 carries the result of layer 1,
    // 0 -> 4 that of layer 0, and 1 -> 3 that of layer 2.
    options.edges = {{0, 1}, {0, 3}, {0, 4}, {1, 2}, {1, 3}, {2, 3}, {3, 4}};
    const auto programs = BuildModelStages(shape, {2, 1, 1, 2, 1}, options);
    ASSERT_TRUE(programs.ok()) << programs.status();
    EdgeRun run{options.edges, {}};
    for (const StageProgram& program : *programs) run.states.push_back(MakeState(program, seed));
    for (size_t m = 0; m < batches.size(); ++m) {
      EXPECT_EQ(run.Loss(*programs, batches[m]), expected.losses[m]);
      run.Backward(*programs);
    }
    for (size_t s = 0; s < programs->size(); ++s) {
      for (size_t p = 0; p < (*programs)[s].params.size(); ++p) {
        const std::string& name = (*programs)[s].params[p].name;
        const std::vector<float>& want = expected.grads.at(name);
        const float* const got = run.states[s].param_grads[p].f32();
        double far = 0, size = 0;
        for (size_t i = 0; i < want.size(); ++i) {
          far += std::pow(double{got[i]} - want[i], 2);
          size += std::pow(double{want[i]}, 2);
        }
        EXPECT_LE(std::sqrt(far), 1e-6 * std::sqrt(size)) << name;
      }
    }
  }
}

}  // namespace
}  // namespace stringline::cpu
