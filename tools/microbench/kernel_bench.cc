// The rate of each CPU kernel: products and attention in operations per second, the others in bytes
// of their inputs and outputs per second, on one thread.
//
//   kernel_bench --benchmark_filter='linear|attention'      flop/s (only what the formula needs:
//                                                           attention counts what a query sees)
//   kernel_bench --benchmark_filter=1024                    the shapes of a wider model
//
// A row is named after its op and its first input; the shapes are those of a small GPT (width 96)
// and of a GPT dominated by products (width 512).
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/cpu/evaluate.h"
#include "executor/engine/bf16.h"
#include "schedlang/base/sl_check.h"
#include "stages/ops.h"
#include "stages/text.h"

namespace stringline::cpu {
namespace {

Type F32(std::vector<int64_t> shape) { return {DType::kF32, std::move(shape)}; }
Type I32(std::vector<int64_t> shape) { return {DType::kI32, std::move(shape)}; }

struct Row {
  Op op;
  std::vector<Type> inputs;
  std::vector<double> attributes;
  double flops;  // 0: bytes are reported
};

Array Filled(const Type& type) {
  Array array = MakeArray(type);
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; type.dtype == DType::kF32 && i < type.elements(); ++i) {
    array.f32()[i] = normal(random);
  }
  for (int64_t i = 0; type.dtype == DType::kBF16 && i < type.elements(); ++i) {
    array.bf16()[i] = ToBf16(normal(random));
  }
  return array;
}

void Run(benchmark::State& state, const Row& row) {
  const absl::StatusOr<std::vector<Type>> types = InferTypes(row.op, row.inputs, row.attributes);
  SL_CHECK(types.ok()) << types.status();
  Graph graph;
  Node node{row.op, {}, {}, row.attributes};
  std::vector<Array> arrays;
  double bytes = 0;
  const auto define = [&](const Type& type, std::vector<ValueId>* list) {
    list->push_back(static_cast<ValueId>(graph.values.size()));
    graph.values.push_back({type, ""});
    arrays.push_back(Filled(type));
    bytes += static_cast<double>(type.bytes());
  };
  for (const Type& type : row.inputs) define(type, &node.inputs);
  for (const Type& type : *types) define(type, &node.outputs);
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < arrays.size(); ++i) {
    tensors.push_back({arrays[i].data.get(), &graph.values[i].type});
  }
  const bool accumulate[8] = {};
  const Array workspace = MakeArray(F32({(WorkspaceBytes(graph, node) + 3) / 4}));
  const absl::Span<const Tensor> all(tensors);
  PrepareThread();
  const Kernel kernel = KernelFor(graph, node);
  for (auto _ : state) {
    kernel(node, all.first(row.inputs.size()), all.subspan(row.inputs.size()),
           absl::MakeConstSpan(accumulate, types->size()), workspace.data.get());
    benchmark::ClobberMemory();
  }
  const double count = row.flops > 0 ? row.flops : bytes;
  state.counters[row.flops > 0 ? "flop/s" : "B/s"] =
      benchmark::Counter(count, benchmark::Counter::kIsIterationInvariantRate);
}

// y = x w' and its two gradients, for n rows.
void AddProducts(std::vector<Row>* rows, DType dtype, int64_t n, int64_t in, int64_t out) {
  const Type x = {dtype, {n, in}}, y = {dtype, {n, out}}, w = {dtype, {out, in}};
  const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(in * out);
  rows->push_back({Op::kLinear, {x, w}, {}, flops});
  rows->push_back({Op::kLinearBias, {x, w, {dtype, {out}}}, {}, flops});
  rows->push_back({Op::kLinearInputGrad, {y, w}, {}, flops});
  rows->push_back({Op::kLinearWeightGrad, {y, x}, {}, flops});
}

// Two products over the attending (query, key) pairs in the forward, five in the backward.
void AddAttention(std::vector<Row>* rows, DType dtype, int64_t batch, int64_t positions,
                  int64_t width, int64_t heads, int64_t kv_heads) {
  const int64_t pairs = batch * (positions * (positions + 1) / 2);
  const double product = 2.0 * static_cast<double>(pairs) * static_cast<double>(width);
  const int64_t packed = width + 2 * kv_heads * (width / heads);
  const Type qkv = {dtype, {batch, positions, packed}}, y = {dtype, {batch, positions, width}};
  const std::vector<double> count = {static_cast<double>(heads), static_cast<double>(kv_heads)};
  rows->push_back({Op::kAttention, {qkv}, count, 2 * product});
  rows->push_back(
      {Op::kAttentionGrad, {y, qkv, y, F32({batch, heads, positions})}, count, 5 * product});
}

void AddElementwise(std::vector<Row>* rows, int64_t n, int64_t width) {
  const Type x = F32({n, width}), wide = F32({n, 4 * width}), row = F32({n}), c = F32({width});
  rows->push_back({Op::kAdd, {x, x}, {}, 0});
  rows->push_back({Op::kColumnSum, {wide}, {}, 0});
  rows->push_back({Op::kGelu, {wide}, {}, 0});
  rows->push_back({Op::kGeluGrad, {wide, wide}, {}, 0});
  rows->push_back({Op::kLayerNorm, {x, c, c}, {1e-5}, 0});
  rows->push_back({Op::kLayerNormGrad, {x, x, c, row, row}, {}, 0});
  rows->push_back({Op::kRmsNorm, {x, c}, {1e-5}, 0});
  rows->push_back({Op::kRmsNormGrad, {x, x, c, row}, {}, 0});
  rows->push_back({Op::kSwiglu, {wide}, {}, 0});
  rows->push_back({Op::kSwigluGrad, {F32({n, 2 * width}), wide}, {}, 0});
  rows->push_back({Op::kRotary, {F32({4, n / 4, 3 * width})}, {4, 4, 1e4, 1, 0}, 0});
  rows->push_back({Op::kCrossEntropy, {F32({n, 256}), I32({n})}, {}, 0});
  rows->push_back({Op::kCrossEntropyGrad, {F32({}), F32({n, 256}), I32({n}), row}, {}, 0});
}

std::vector<Row> Rows() {
  std::vector<Row> rows;
  for (const int64_t width : {96, 512}) {
    const int64_t n = 512;
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      AddProducts(&rows, dtype, n, width, 3 * width);
      AddProducts(&rows, dtype, n, width, width);
      AddProducts(&rows, dtype, n, width, 4 * width);
      AddProducts(&rows, dtype, n, 4 * width, width);
      AddProducts(&rows, dtype, n, width, 256);
    }
    AddElementwise(&rows, n, width);
  }
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    AddAttention(&rows, dtype, 4, 128, 96, 3, 3);
    AddAttention(&rows, dtype, 2, 256, 512, 8, 8);
    AddAttention(&rows, dtype, 2, 256, 512, 8, 2);
    AddAttention(&rows, dtype, 1, 1024, 512, 4, 4);
  }
  return rows;
}

}  // namespace
}  // namespace stringline::cpu

int main(int argc, char** argv) {
  using namespace stringline;
  for (const cpu::Row& row : cpu::Rows()) {
    std::string name = RowOf(row.op).name;
    for (const Type& type : row.inputs) absl::StrAppend(&name, " ", PrintType(type));
    benchmark::RegisterBenchmark(name.c_str(),
                                 [row](benchmark::State& state) { cpu::Run(state, row); });
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
