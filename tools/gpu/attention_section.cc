// A node of attention, and one of its gradient, are made ready twice: with the library and without.
// The gradients start from what our own kernel gave, so that each is looked at by itself.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/bf16.h"
#include "executor/cuda/ops/ops.h"
#include "schedlang/base/status.h"
#include "stages/ops.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

// Some steps of bf16: the library rounds what it multiplies values with, our own does not.
constexpr double kMostApart = 2e-2;
constexpr int kRuns = 4;

using HostBytes = std::vector<char>;

absl::StatusOr<std::unique_ptr<cuda::AttentionLibrary>> NoLibrary() {
  return absl::UnavailableError("our own kernel is asked for");
}

// The floats that they are; NaN stays NaN.
std::vector<float> FloatsOf(const HostBytes& bytes, DType dtype) {
  std::vector<float> floats(bytes.size() / static_cast<size_t>(BytesOf(dtype)));
  if (dtype == DType::kF32) {
    std::memcpy(floats.data(), bytes.data(), bytes.size());
  } else {
    std::vector<uint16_t> bits(floats.size());
    std::memcpy(bits.data(), bytes.data(), bytes.size());
    FromBf16(bits.data(), static_cast<int64_t>(bits.size()), floats.data());
  }
  return floats;
}

HostBytes RandomBf16(const Type& type, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  HostBytes bytes(static_cast<size_t>(type.bytes()));
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint16_t)) {
    const uint16_t bits = ToBf16(normal(random));
    std::memcpy(&bytes[at], &bits, sizeof(bits));
  }
  return bytes;
}

// The largest difference as a share of the largest value, or twice the differences' root mean
// square as a share of that of the values, whichever is more; infinity where one is no number.
double HowFarApart(const HostBytes& seen, const HostBytes& expected, DType dtype) {
  const std::vector<float> a = FloatsOf(seen, dtype), b = FloatsOf(expected, dtype);
  double largest = 0, off = 0, squares = 0, off_squares = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double value = b[i], difference = std::fabs(double{a[i]} - value);
    if (!std::isfinite(difference)) return INFINITY;
    largest = std::max(largest, std::fabs(value));
    off = std::max(off, difference);
    squares += value * value;
    off_squares += difference * difference;
  }
  return std::max(off / largest, 2 * std::sqrt(off_squares / squares));
}

// A node in bf16 with operands of its own.
class BoundNode {
 public:
  BoundNode(Op op, std::vector<Type> inputs, std::vector<double> attributes) {
    const std::vector<Type> outputs = InferTypes(op, inputs, attributes).value();
    Node& node = graph_.nodes.emplace_back(Node{op, {}, {}, std::move(attributes)});
    for (const Type& type : inputs) node.inputs.push_back(Add(type));
    for (const Type& type : outputs) node.outputs.push_back(Add(type));
  }
  const Type& out(size_t i) const { return graph_.values[graph_.nodes[0].outputs[i]].type; }

  struct Ran {
    std::vector<HostBytes> outputs;
    int64_t least_ns = INT64_MAX;
    bool same_bits = true;  // in all runs
  };
  // Some runs with the same inputs.
  absl::StatusOr<Ran> Run(const std::vector<HostBytes>& inputs,
                          CudaKernels::AttentionSource source) {
    SL_ASSIGN_OR_RETURN(const auto device, CudaDevice::Make());
    SL_ASSIGN_OR_RETURN(const auto kernels, CudaKernels::Make(device.get(), source));
    SL_ASSIGN_OR_RETURN(kernel_, kernels->ReadyFor(graph_, graph_.nodes[0]));
    SL_ASSIGN_OR_RETURN(workspace_, device->Allocate(kernel_.workspace_bytes));
    in_.clear();
    out_.clear();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Type& type = graph_.values[graph_.nodes[0].inputs[i]].type;
      SL_ASSIGN_OR_RETURN(void* const memory, device->Allocate(type.bytes()));
      SL_RETURN_IF_ERROR(device->CopyNow(memory, inputs[i].data(), type.bytes()));
      in_.push_back({memory, &type});
    }
    for (size_t i = 0; i < graph_.nodes[0].outputs.size(); ++i) {
      SL_ASSIGN_OR_RETURN(void* const memory, device->Allocate(out(i).bytes()));
      out_.push_back({memory, &out(i)});
    }
    const StreamId stream = device->NewStream({}, 2);
    const Work work = {RunOnce, this, 0};
    Ran ran;
    for (int time = 0; time < kRuns; ++time) {
      for (const Tensor& output : out_) {
        const HostBytes nothing(static_cast<size_t>(output.type->bytes()), '\xff');
        SL_RETURN_IF_ERROR(device->CopyNow(output.data, nothing.data(), output.type->bytes()));
      }
      WorkTimes times;
      device->Launch(stream, work, &times);
      SL_RETURN_IF_ERROR(device->Synchronize());
      if (time > 0) ran.least_ns = std::min(ran.least_ns, times.end_ns - times.start_ns);
      std::vector<HostBytes> now;
      for (const Tensor& output : out_) {
        HostBytes& bytes = now.emplace_back(static_cast<size_t>(output.type->bytes()));
        SL_RETURN_IF_ERROR(device->CopyNow(bytes.data(), output.data, output.type->bytes()));
      }
      ran.same_bits = ran.same_bits && (time == 0 || now == ran.outputs);
      ran.outputs = std::move(now);
    }
    return ran;
  }

 private:
  ValueId Add(const Type& type) {
    const auto id = static_cast<ValueId>(graph_.values.size());
    graph_.values.push_back({type, absl::StrCat("v", id)});
    return id;
  }
  static void RunOnce(const void* self, int64_t, NativeStream stream) {
    const auto& bound = *static_cast<const BoundNode*>(self);
    static constexpr bool kOverwrites[2] = {};
    bound.kernel_.run(bound.kernel_.self, {bound.graph_.nodes[0], bound.in_, bound.out_,
                                           absl::MakeConstSpan(kOverwrites, bound.out_.size()),
                                           bound.workspace_, stream});
  }

  Graph graph_;
  ReadyKernel kernel_;
  std::vector<Tensor> in_, out_;
  void* workspace_ = nullptr;
};

// Both ways; a row with what it gave.
absl::Status CompareWithOwn(const cuda::AttentionProblem& problem, BoundNode* node,
                            const std::vector<HostBytes>& inputs,
                            CudaKernels::AttentionSource library,
                            std::vector<HostBytes>* own_outputs, CheckRows* rows) {
  SL_ASSIGN_OR_RETURN(BoundNode::Ran own, node->Run(inputs, NoLibrary));
  SL_ASSIGN_OR_RETURN(const BoundNode::Ran seen, node->Run(inputs, library));
  double apart = 0;
  for (size_t i = 0; i < own.outputs.size(); ++i) {
    apart = std::max(apart, HowFarApart(seen.outputs[i], own.outputs[i], node->out(i).dtype));
  }
  const std::string name = ToString(problem);
  const std::string figure = absl::StrFormat("%.1e from our own", apart);
  if (!(apart <= kMostApart)) {
    rows->Fail(name, figure);
  } else if (!seen.same_bits || !own.same_bits) {
    rows->Fail(name, absl::StrCat("two runs of ", seen.same_bits ? "our own" : "the library's",
                                  " gave different bits"));
  } else {
    // Products of what queries see, half of all pairs: two, and five of the gradient.
    const double flops = (problem.gradient ? 5.0 : 2.0) *
                         static_cast<double>(problem.batch * problem.heads * problem.size) *
                         static_cast<double>(problem.positions * problem.positions);
    const auto rate = [flops](int64_t ns) {
      return flops / static_cast<double>(std::max<int64_t>(1, ns)) * 1e-3;
    };
    rows->Pass(name, absl::StrFormat("%s; %.0f TFLOP/s, our own %.0f", figure, rate(seen.least_ns),
                                     rate(own.least_ns)));
  }
  *own_outputs = std::move(own.outputs);
  return absl::OkStatus();
}

// Attention, then its gradient.
absl::Status CheckProblem(cuda::AttentionProblem problem, CudaKernels::AttentionSource library,
                          CheckRows* rows) {
  const std::vector<double> heads = {static_cast<double>(problem.heads),
                                     static_cast<double>(problem.kv_heads)};
  const Type packed = {
      DType::kBF16,
      {problem.batch, problem.positions, (problem.heads + 2 * problem.kv_heads) * problem.size}};
  const HostBytes qkv = RandomBf16(packed, 1);
  std::vector<HostBytes> mixed, gradients;
  BoundNode attention(Op::kAttention, {packed}, heads);
  SL_RETURN_IF_ERROR(CompareWithOwn(problem, &attention, {qkv}, library, &mixed, rows));
  const Type y = attention.out(0), lse = attention.out(1);
  BoundNode gradient(Op::kAttentionGrad, {y, packed, y, lse}, heads);
  problem.gradient = true;
  return CompareWithOwn(problem, &gradient, {RandomBf16(y, 2), qkv, mixed[0], mixed[1]}, library,
                        &gradients, rows);
}

}  // namespace

void CheckAttention(const std::vector<cuda::AttentionProblem>& problems,
                    CudaKernels::AttentionSource library, CheckRows* rows) {
  {
    const absl::Status there = library().status();
    if (!there.ok()) return rows->Skip("attention by cuDNN", std::string(there.message()));
  }
  for (const cuda::AttentionProblem& problem : problems) {
    const absl::Status status = CheckProblem(problem, library, rows);
    if (!status.ok()) rows->Fail(ToString(problem), std::string(status.message()));
  }
}

}  // namespace stringline
