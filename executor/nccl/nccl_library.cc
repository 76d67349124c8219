#include "executor/nccl/nccl_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace stringline::nccl {
namespace {

constexpr int kOldest = 21800;
// Versions from which a configuration has further members.
constexpr int kNamed = 22700;
constexpr int kWhole = 22800;

std::string TextOfVersion(int version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

}  // namespace

absl::StatusOr<Library> Library::Open(const char* name) {
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("NCCL cannot be loaded: ", dlerror(),
                     "; that of a Python wheel is in its nvidia/nccl/lib, which LD_LIBRARY_PATH "
                     "may name"));
  }
  Library found;
#define X(function, result, parameters)                                                          \
  found.function = reinterpret_cast<decltype(found.function)>(dlsym(library, "nccl" #function)); \
  if (found.function == nullptr) {                                                               \
    return absl::UnavailableError(absl::StrCat(name, " has no nccl" #function));                 \
  }
  STRINGLINE_NCCL_FUNCTIONS(X)
#undef X
  if (found.GetVersion(&found.version) != kSuccess || found.version < kOldest) {
    return absl::UnavailableError(absl::StrCat("NCCL ", found.Version(), " is too old; ",
                                               TextOfVersion(kOldest), " or later is needed"));
  }
  return found;
}

std::string Library::Version() const { return TextOfVersion(version); }

Config Library::NewConfig() const {
  Config config;
  config.version = static_cast<unsigned>(version);
  if (version < kNamed) {
    config.size = offsetof(Config, traffic_class);
  } else if (version < kWhole) {
    config.size = offsetof(Config, channels_per_net_peer);
  }
  return config;
}

}  // namespace stringline::nccl
