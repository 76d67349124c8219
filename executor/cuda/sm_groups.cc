#include "executor/cuda/sm_groups.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "executor/cuda/cuda_error.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline::cuda {
namespace {

// "GPU 0 has 132 SMs"
absl::StatusOr<std::string> DescribeSms(int ordinal) {
  int sms = 0;
  SL_RETURN_IF_ERROR(
      CallStatus(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, ordinal),
                 "cudaDeviceGetAttribute"));
  return absl::StrCat("GPU ", ordinal, " has ", sms, " SMs");
}

absl::StatusOr<SmGroupFunctions> FindFunctions(const std::string& has) {
  SmGroupFunctions found;
  const auto find = [&has](const char* name, auto* function) -> absl::Status {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &address, CUDA_VERSION, cudaEnableDefault, &result);
    if (error == cudaSuccess && result == cudaDriverEntryPointSuccess && address != nullptr) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(address);
      return absl::OkStatus();
    }
    (void)cudaGetLastError();
    return absl::UnimplementedError(absl::StrCat("sms_per_rank: this driver has no ", name,
                                                 ", so that ranks share all SMs: ", has,
                                                 "; a driver for CUDA 13 would help"));
  };
#define X(function) SL_RETURN_IF_ERROR(find(#function, &found.function));
  STRINGLINE_SM_GROUP_FUNCTIONS(X)
#undef X
  return found;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SmGroups>> SmGroups::Make(int ordinal, int groups, int sms) {
  std::unique_ptr<SmGroups> made(new SmGroups);
  SL_ASSIGN_OR_RETURN(const std::string has, DescribeSms(ordinal));
  SL_ASSIGN_OR_RETURN(made->driver_, FindFunctions(has));
  SL_RETURN_IF_ERROR(made->Split(ordinal, groups, sms));
  return made;
}

SmGroups::~SmGroups() {
  for (const CUgreenCtx context : contexts_) (void)driver_.cuGreenCtxDestroy(context);
}

absl::Status SmGroups::Checked(CUresult result, const char* call) const {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* name = "an unknown error";
  (void)driver_.cuGetErrorName(result, &name);
  return absl::InternalError(absl::StrCat(call, ": ", name));
}

absl::Status SmGroups::Split(int ordinal, int groups, int sms) {
  CUdevice device = 0;
  CUdevResource all = {};
  SL_RETURN_IF_ERROR(Checked(driver_.cuDeviceGet(&device, ordinal), "cuDeviceGet"));
  SL_RETURN_IF_ERROR(Checked(driver_.cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM),
                             "cuDeviceGetDevResource"));
  const auto there = static_cast<int>(all.sm.smCount);
  const auto least = static_cast<int>(all.sm.minSmPartitionSize);
  const int multiple = std::max(1, static_cast<int>(all.sm.smCoscheduledAlignment));
  if (sms < least || sms % multiple != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("sms_per_rank: ", sms, ": GPU ", ordinal, " has ", there,
                     " SMs, and gives them out in multiples of ", multiple, ", at least ", least));
  }
  auto made = static_cast<unsigned>(groups);
  std::vector<CUdevResource> parts(static_cast<size_t>(groups));
  CUdevResource rest = {};
  if (sms <= there) {
    SL_RETURN_IF_ERROR(Checked(driver_.cuDevSmResourceSplitByCount(parts.data(), &made, &all, &rest,
                                                                   0, static_cast<unsigned>(sms)),
                               "cuDevSmResourceSplitByCount"));
  }
  if (sms > there || static_cast<int>(made) < groups) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sms_per_rank: ", sms, ": GPU ", ordinal, " has ", there, " SMs, which are so many for ",
        sms > there ? 0 : made, " of the ", groups, groups == 1 ? " rank" : " ranks", " on it"));
  }
  for (CUdevResource& part : parts) SL_RETURN_IF_ERROR(Add(&part, device));
  return absl::OkStatus();
}

absl::Status SmGroups::Add(CUdevResource* group, CUdevice device) {
  CUdevResourceDesc description = nullptr;
  SL_RETURN_IF_ERROR(Checked(driver_.cuDevResourceGenerateDesc(&description, group, 1),
                             "cuDevResourceGenerateDesc"));
  CUgreenCtx context = nullptr;
  SL_RETURN_IF_ERROR(
      Checked(driver_.cuGreenCtxCreate(&context, description, device, CU_GREEN_CTX_DEFAULT_STREAM),
              "cuGreenCtxCreate"));
  contexts_.push_back(context);
  return absl::OkStatus();
}

absl::StatusOr<cudaStream_t> SmGroups::NewStream(int group, int priority) const {
  SL_CHECK(group >= 0 && group < static_cast<int>(contexts_.size())) << group;
  CUstream stream = nullptr;
  SL_RETURN_IF_ERROR(
      Checked(driver_.cuGreenCtxStreamCreate(&stream, contexts_[static_cast<size_t>(group)],
                                             CU_STREAM_NON_BLOCKING, priority),
              "cuGreenCtxStreamCreate"));
  return stream;
}

}  // namespace stringline::cuda
