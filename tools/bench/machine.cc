#include "tools/bench/machine.h"

#include <unistd.h>

#include <ctime>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedlang/base/source.h"
#include "tools/training/fingerprint.h"
#ifdef STRINGLINE_HAS_CUDA
#include <cuda_runtime_api.h>

#include "executor/cuda/gpus.h"
#endif

namespace stringline {
namespace {

std::string CpuModel() {
  const std::string text = ReadBytes("/proc/cpuinfo", 1 << 24).value_or("");
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, "model name")) continue;
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) continue;
    return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return "a CPU";
}

Json GpuModel() {
#ifdef STRINGLINE_HAS_CUDA
  cudaDeviceProp properties;
  if (!cuda::CountGpus().ok() || cudaGetDeviceProperties(&properties, 0) != cudaSuccess) {
    return nullptr;
  }
  return properties.name;
#else
  return nullptr;
#endif
}

Json CudaVersion() {
#ifdef STRINGLINE_HAS_CUDA
  return absl::StrCat(CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10);
#else
  return nullptr;
#endif
}

}  // namespace

Json DescribeDevice() {
  return {{"cpu", CpuModel()},
          {"cores", std::thread::hardware_concurrency()},
          {"memory_bytes", int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE)},
          {"gpu", GpuModel()}};
}

Json DescribeVersions() {
#ifdef __clang__
  const std::string compiler = "clang " __clang_version__;
#else
  const std::string compiler = "g++ " __VERSION__;
#endif
  return {{"stringline", STRINGLINE_VERSION},
          {"build", FingerprintOf("/proc/self/exe")},
          {"compiler", compiler},
          {"cuda", CudaVersion()}};
}

std::string DateNow() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  (void)gmtime_r(&now, &utc);
  char text[32];
  (void)std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace stringline
