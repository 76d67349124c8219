#include "executor/cuda/cublas_lt.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace stringline::cuda {

absl::StatusOr<CublasLt> CublasLt::Open(const char* name) {
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(absl::StrCat("cuBLASLt cannot be loaded: ", dlerror()));
  }
  CublasLt found;
#define X(function)                                                                       \
  found.function = reinterpret_cast<decltype(found.function)>(dlsym(library, #function)); \
  if (found.function == nullptr) {                                                        \
    return absl::UnavailableError(absl::StrCat(name, " has no " #function));              \
  }
  STRINGLINE_CUBLAS_LT_FUNCTIONS(X)
#undef X
  return found;
}

}  // namespace stringline::cuda
