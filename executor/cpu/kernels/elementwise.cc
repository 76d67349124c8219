// Element by element: loops that the compiler vectorises.
#include <cstring>

#include "executor/cpu/kernels/kernels.h"
#include "executor/engine/bf16.h"

namespace stringline::cpu {

// y = a + b                                  all of one shape, y overwritten
void Run_kAdd(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t count = out[0].type->elements();
  const float* __restrict a = in[0].f32();
  const float* __restrict b = in[1].f32();
  float* __restrict y = out[0].f32();
  for (int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

// y = a b                                    all of one shape, y overwritten
void Run_kMul(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t count = out[0].type->elements();
  const float* __restrict a = in[0].f32();
  const float* __restrict b = in[1].f32();
  float* __restrict y = out[0].f32();
  for (int64_t i = 0; i < count; ++i) y[i] = a[i] * b[i];
}

// y = factor x                               both of one shape, y overwritten or added to
void Run_kScale(const Node& node, In in, Out out, Accumulate accumulate, void*) {
  const int64_t count = out[0].type->elements();
  const float factor = static_cast<float>(node.attributes[0]);
  const float* __restrict x = in[0].f32();
  float* __restrict y = out[0].f32();
  if (accumulate[0]) {
    for (int64_t i = 0; i < count; ++i) y[i] += factor * x[i];
  } else {
    for (int64_t i = 0; i < count; ++i) y[i] = factor * x[i];
  }
}

// y = x in another type                      both of one shape, y overwritten; F32 may be added to
void Run_kCast(const Node&, In in, Out out, Accumulate accumulate, void*) {
  const int64_t count = out[0].type->elements();
  const bool from_bf16 = in[0].type->dtype == DType::kBF16;
  const bool to_bf16 = out[0].type->dtype == DType::kBF16;
  if (from_bf16 == to_bf16 && !accumulate[0]) {
    std::memcpy(out[0].data, in[0].data, static_cast<size_t>(out[0].type->bytes()));
  } else if (to_bf16) {
    ToBf16(in[0].f32(), count, out[0].bf16());
  } else if (!accumulate[0]) {
    FromBf16(in[0].bf16(), count, out[0].f32());
  } else {
    float* __restrict y = out[0].f32();
    const float* __restrict x = in[0].f32();
    const uint16_t* __restrict bits = in[0].bf16();
    for (int64_t i = 0; i < count; ++i) y[i] += from_bf16 ? FromBf16(bits[i]) : x[i];
  }
}

// y = value                                  a scalar, overwritten
void Run_kConstant(const Node& node, In, Out out, Accumulate, void*) {
  *out[0].f32() = static_cast<float>(node.attributes[0]);
}

}  // namespace stringline::cpu
