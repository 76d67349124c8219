#include "executor/cuda/gpus.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "executor/cuda/cuda_error.h"
#include "schedlang/base/status.h"

namespace stringline::cuda {
namespace {

std::string GpusInWords(int count) { return count == 1 ? "1 GPU" : absl::StrCat(count, " GPUs"); }

// The properties on which results may depend.
struct Kind {
  int major = 0, minor = 0, sms = 0;
  friend bool operator==(const Kind&, const Kind&) = default;
};

absl::StatusOr<Kind> KindOf(int ordinal) {
  Kind kind;
  const struct {
    int* value;
    cudaDeviceAttr attribute;
  } asked[] = {{&kind.major, cudaDevAttrComputeCapabilityMajor},
               {&kind.minor, cudaDevAttrComputeCapabilityMinor},
               {&kind.sms, cudaDevAttrMultiProcessorCount}};
  for (const auto& each : asked) {
    SL_RETURN_IF_ERROR(CallStatus(cudaDeviceGetAttribute(each.value, each.attribute, ordinal),
                                  "cudaDeviceGetAttribute"));
  }
  return kind;
}

std::string Describe(int ordinal, const Kind& kind) {
  return absl::StrCat("GPU ", ordinal, " has ", kind.sms, " SMs of compute capability ", kind.major,
                      ".", kind.minor);
}

absl::Status CheckKinds(absl::Span<const int> ordinals) {
  SL_ASSIGN_OR_RETURN(const Kind first, KindOf(ordinals[0]));
  for (const int ordinal : ordinals.subspan(1)) {
    SL_ASSIGN_OR_RETURN(const Kind kind, KindOf(ordinal));
    if (kind == first) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the ranks of one process need GPUs of one kind, but ",
                     Describe(ordinals[0], first), ", and ", Describe(ordinal, kind)));
  }
  return absl::OkStatus();
}

// Enables kernels of a GPU to use memory of the other; false if they cannot.
absl::StatusOr<bool> Connect(int ordinal, int other) {
  int can = 0;
  SL_RETURN_IF_ERROR(
      CallStatus(cudaDeviceCanAccessPeer(&can, ordinal, other), "cudaDeviceCanAccessPeer"));
  if (can == 0) return false;
  SL_RETURN_IF_ERROR(CallStatus(cudaSetDevice(ordinal), "cudaSetDevice"));
  const cudaError_t error = cudaDeviceEnablePeerAccess(other, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    (void)cudaGetLastError();
    return true;
  }
  // A GPU may have a limited number of peers.
  if (error == cudaErrorTooManyPeers || error == cudaErrorPeerAccessUnsupported) {
    (void)cudaGetLastError();
    return false;
  }
  SL_RETURN_IF_ERROR(CallStatus(error, "cudaDeviceEnablePeerAccess"));
  return true;
}

}  // namespace

absl::StatusOr<int> CountGpus() {
  // Read when CUDA starts. With the default of 8 queues, several streams share a queue and wait for
  // each other in it.
  (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return count;
  (void)cudaGetLastError();
  return absl::UnavailableError(absl::StrCat(
      "no GPU can be used: ", cudaGetErrorString(error),
      error == cudaErrorInsufficientDriver ? "; NVIDIA's driver is missing, or too old for CUDA 13"
                                           : ""));
}

absl::StatusOr<std::vector<int>> ChooseGpus(const GpuWish& wish, int ranks) {
  SL_ASSIGN_OR_RETURN(const int there, CountGpus());
  if (wish.ordinals.empty() && wish.count > there) {
    return absl::InvalidArgumentError(
        absl::StrCat("gpus: ", wish.count, ": this machine has ", GpusInWords(there)));
  }
  std::vector<int> gpus = wish.ordinals;
  if (gpus.empty()) {
    gpus.resize(wish.count > 0 ? wish.count : std::min(there, ranks));
    std::iota(gpus.begin(), gpus.end(), 0);
  }
  for (auto gpu = gpus.begin(); gpu != gpus.end(); ++gpu) {
    if (*gpu >= there) {
      return absl::InvalidArgumentError(absl::StrCat("gpus: there is no GPU ", *gpu,
                                                     ": this machine has ", GpusInWords(there),
                                                     ", and the first is 0"));
    }
    if (std::find(gpus.begin(), gpu, *gpu) != gpu) {
      return absl::InvalidArgumentError(absl::StrCat("gpus: GPU ", *gpu, " is named twice"));
    }
  }
  if (static_cast<int>(gpus.size()) > ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("gpus: ", GpusInWords(static_cast<int>(gpus.size())), " for ",
                     ranks == 1 ? "1 rank" : absl::StrCat(ranks, " ranks"),
                     ": there can be one for each at most"));
  }
  return gpus;
}

std::string DescribeBlocks(absl::Span<const int> ordinals, int ranks) {
  const auto gpus = static_cast<int>(ordinals.size());
  std::string text;
  for (int rank = 0; rank < ranks;) {
    const int gpu = GpuOfRank(rank, ranks, gpus);
    int last = rank;
    while (last + 1 < ranks && GpuOfRank(last + 1, ranks, gpus) == gpu) ++last;
    absl::StrAppend(&text, text.empty() ? "" : ", ", last == rank ? "rank " : "ranks ", rank,
                    last == rank ? "" : absl::StrCat(" to ", last), " on GPU ", ordinals[gpu]);
    rank = last + 1;
  }
  return text;
}

absl::StatusOr<Reach> OpenGpus(absl::Span<const int> ordinals) {
  SL_ASSIGN_OR_RETURN(const int there, CountGpus());
  for (const int ordinal : ordinals) {
    if (ordinal >= 0 && ordinal < there) continue;
    return absl::UnavailableError(
        absl::StrCat("there is no GPU ", ordinal, ": this machine has ", there));
  }
  Reach reach(ordinals.size(), std::vector<bool>(ordinals.size(), true));
  if (ordinals.size() == 1) return reach;
  SL_RETURN_IF_ERROR(CheckKinds(ordinals));
  for (size_t a = 0; a < ordinals.size(); ++a) {
    for (size_t b = 0; b < ordinals.size(); ++b) {
      if (a == b) continue;
      SL_ASSIGN_OR_RETURN(reach[a][b], Connect(ordinals[a], ordinals[b]));
    }
  }
  return reach;
}

}  // namespace stringline::cuda
