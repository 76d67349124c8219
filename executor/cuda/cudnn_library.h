// The functions of cuDNN that the engine and cuDNN's frontend headers call, looked up at run time:
// programs start without the library.
#pragma once

#include "absl/status/status.h"

namespace stringline::cuda {

// From here on cudnn.h's functions, as far as they are used, are those of the library. Found as the
// loader finds libraries, so LD_LIBRARY_PATH may name the folders of Python wheels. Unavailable
// when it is not there or is not whole; then none of the functions may be called. It stays loaded
// as long as the process.
absl::Status OpenCudnn(const char* name = "libcudnn.so.9");

}  // namespace stringline::cuda
