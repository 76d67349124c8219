// Launches of elementwise bodies, of bodies by rows, and of sums over rows.
#include "executor/cuda/kernels/kernels.h"
#include "executor/cuda/kernels/launch.h"

namespace stringline::cuda {

#define LAUNCH_ELEMENTS(...)                                         \
  cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body) { \
    return LaunchBody<256>(stream, body);                            \
  }
LAUNCH_ELEMENTS(Add<float>)
LAUNCH_ELEMENTS(Add<Bf16>)
LAUNCH_ELEMENTS(Mul<float>)
LAUNCH_ELEMENTS(Mul<Bf16>)
LAUNCH_ELEMENTS(Fill<float>)
LAUNCH_ELEMENTS(Fill<Bf16>)
LAUNCH_ELEMENTS(Scale<float, float>)
LAUNCH_ELEMENTS(Scale<float, Bf16>)
LAUNCH_ELEMENTS(Scale<Bf16, float>)
LAUNCH_ELEMENTS(Scale<Bf16, Bf16>)
LAUNCH_ELEMENTS(Gelu<float>)
LAUNCH_ELEMENTS(Gelu<Bf16>)
LAUNCH_ELEMENTS(GeluGrad<float>)
LAUNCH_ELEMENTS(GeluGrad<Bf16>)
LAUNCH_ELEMENTS(SumOfFewRows<float>)
LAUNCH_ELEMENTS(SumOfFewRows<Bf16>)
LAUNCH_ELEMENTS(ColumnSum<float>)
LAUNCH_ELEMENTS(ColumnSum<Bf16>)

#define LAUNCH_ROWS(...)                                             \
  cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body) { \
    return LaunchBody<128>(stream, body);                            \
  }
LAUNCH_ROWS(AddRepeated<float>)
LAUNCH_ROWS(AddRepeated<Bf16>)
LAUNCH_ROWS(CopyPart<float>)
LAUNCH_ROWS(CopyPart<Bf16>)
LAUNCH_ROWS(Swiglu<float>)
LAUNCH_ROWS(Swiglu<Bf16>)
LAUNCH_ROWS(SwigluGrad<float>)
LAUNCH_ROWS(SwigluGrad<Bf16>)

}  // namespace stringline::cuda
