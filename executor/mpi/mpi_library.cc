#include "executor/mpi/mpi_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace stringline::mpi {

absl::StatusOr<Library> Library::Open(const char* name) {
  // Open MPI loads parts of its own, which look for its symbols.
  void* const library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return absl::UnavailableError(absl::StrCat("Open MPI cannot be loaded: ", dlerror(),
                                               "; Debian's package is libopenmpi3"));
  }
  Library found;
  const auto missing = [&](const char* symbol) {
    return absl::UnavailableError(
        absl::StrCat(name, " has no ", symbol, ": Open MPI 4 or 5 is needed"));
  };
#define X(function, parameters)                                                                  \
  found.function = reinterpret_cast<decltype(found.function)>(dlsym(library, "MPI_" #function)); \
  if (found.function == nullptr) return missing("MPI_" #function);
  STRINGLINE_MPI_FUNCTIONS(X)
#undef X
#define X(object, symbol, type)                                  \
  found.object = reinterpret_cast<type>(dlsym(library, symbol)); \
  if (found.object == nullptr) return missing(symbol);
  STRINGLINE_MPI_OBJECTS(X)
#undef X
  return found;
}

std::string Library::Version() const {
  char text[kMostVersionText] = {};
  int length = 0;
  if (Get_library_version(text, &length) != kSuccess) return "an unknown version";
  const std::string whole(text, static_cast<size_t>(length));
  return whole.substr(0, whole.find_first_of(",\n"));
}

absl::Status Library::StatusOf(int result, const char* function) const {
  if (result == kSuccess) return absl::OkStatus();
  char text[kMostErrorText] = {};
  int length = 0;
  (void)Error_string(result, text, &length);
  return absl::UnavailableError(absl::StrCat("MPI_", function, ": ", text));
}

}  // namespace stringline::mpi
