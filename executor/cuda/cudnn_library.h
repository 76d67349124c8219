// The functions of cuDNN that the engine and cuDNN's frontend headers call, looked up at run time:
// programs start without the library.
#pragma once

#include "absl/status/status.h"

namespace stringline::cuda {

// After this call, cudnn.h's functions used here forward to the library. Searches like the loader,
// so LD_LIBRARY_PATH may name the folders of Python wheels. Unavailable if the library is missing
// or incomplete; then none of the functions may be called. It stays loaded as long as the process.
absl::Status OpenCudnn(const char* name = "libcudnn.so.9");

}  // namespace stringline::cuda
