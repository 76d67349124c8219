#include "tests/stages/run_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "executor/engine/bf16.h"
#include "schedlang/base/sl_check.h"
#include "stages/ops.h"

namespace stringline::cpu {

Array NanArray(const Type& type) {
  Array array = MakeArray(type);
  if (type.dtype == DType::kBF16) {
    std::fill_n(array.bf16(), type.elements(), ToBf16(std::numeric_limits<float>::quiet_NaN()));
  } else {
    std::fill_n(array.f32(), type.elements(), std::numeric_limits<float>::quiet_NaN());
  }
  return array;
}

void ExpectClose(const Array& seen, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(static_cast<size_t>(seen.type.elements()), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(seen.f32()[i], expected[i], tolerance * (1 + std::abs(expected[i])))
        << "element " << i;
  }
}

std::vector<Array> RunKernel(Op op, const std::vector<Array>& inputs,
                             const std::vector<double>& attributes) {
  Graph graph;
  Node node{op, {}, {}, attributes};
  std::vector<Type> types;
  std::vector<Tensor> in, out;
  for (const Array& input : inputs) {
    node.inputs.push_back(static_cast<ValueId>(graph.values.size()));
    graph.values.push_back({input.type, ""});
    types.push_back(input.type);
    in.push_back({input.data.get(), &input.type});
  }
  const absl::StatusOr<std::vector<Type>> inferred = InferTypes(op, types, attributes);
  SL_CHECK(inferred.ok()) << inferred.status();
  std::vector<Array> outputs;
  for (const Type& type : *inferred) {
    node.outputs.push_back(static_cast<ValueId>(graph.values.size()));
    graph.values.push_back({type, ""});
    outputs.push_back(NanArray(type));
  }
  for (const Array& output : outputs) out.push_back({output.data.get(), &output.type});
  const Array workspace = NanArray({DType::kF32, {(WorkspaceBytes(graph, node) + 3) / 4}});
  const bool accumulate[8] = {};
  PrepareThread();
  KernelFor(graph, node)(node, in, out, absl::MakeConstSpan(accumulate, out.size()),
                         workspace.data.get());
  return outputs;
}

}  // namespace stringline::cpu
