// The driver's functions for groups of multiprocessors, its green contexts, and their lookup.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "entry.h"
#include "standin.h"

namespace {

using standin::Machine;
using standin::SmGroup;

// The contents of a resource's private part.
struct Kept {
  int device;
  int group;  // in a split, from 0; -1: no split
};
constexpr unsigned kLeastSms = 8;

Kept KeptIn(const CUdevResource& resource) {
  Kept kept;
  std::memcpy(&kept, resource._internal_padding, sizeof(kept));
  return kept;
}

CUdevResource ResourceOf(const Kept& kept, unsigned sms) {
  CUdevResource resource = {};
  resource.type = CU_DEV_RESOURCE_TYPE_SM;
  std::memcpy(resource._internal_padding, &kept, sizeof(kept));
  resource.sm.smCount = sms;
  resource.sm.minSmPartitionSize = resource.sm.smCoscheduledAlignment = kLeastSms;
  return resource;
}

// Errors of the runtime have the driver's numbers.
#define DRIVER_ENTER(name)                                                     \
  const standin::Inside inside;                                                \
  Machine& machine = Machine::Get();                                           \
  const std::lock_guard<std::mutex> lock(machine.mutex);                       \
  if (const cudaError_t entered = machine.Enter(name); entered != cudaSuccess) \
  return static_cast<CUresult>(entered)

CUresult ErrorName(CUresult error, const char** name) {
  *name = cudaGetErrorName(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

CUresult DeviceGet(CUdevice* device, int ordinal) {
  DRIVER_ENTER("cuDeviceGet");
  if (!machine.Has(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult DeviceResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
  DRIVER_ENTER("cuDeviceGetDevResource");
  if (!machine.Has(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = ResourceOf({device, -1}, static_cast<unsigned>(machine.devices[device].sms));
  return CUDA_SUCCESS;
}

// As many groups as possible, at most *count.
CUresult Split(CUdevResource* result, unsigned* count, const CUdevResource* input,
               CUdevResource* rest, unsigned flags, unsigned least) {
  DRIVER_ENTER("cuDevSmResourceSplitByCount");
  const Kept kept = KeptIn(*input);
  if (input->type != CU_DEV_RESOURCE_TYPE_SM || kept.group >= 0 || result == nullptr ||
      flags != 0 || least == 0 || least > input->sm.smCount) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const unsigned size = (least + kLeastSms - 1) / kLeastSms * kLeastSms;
  *count = std::min(*count, input->sm.smCount / size);
  for (unsigned group = 0; group < *count; ++group) {
    result[group] = ResourceOf({kept.device, static_cast<int>(group)}, size);
  }
  if (rest != nullptr) *rest = ResourceOf({kept.device, -1}, input->sm.smCount - *count * size);
  return CUDA_SUCCESS;
}

// A description is the described group itself.
CUresult GenerateDescription(CUdevResourceDesc* made, CUdevResource* resources, unsigned count) {
  DRIVER_ENTER("cuDevResourceGenerateDesc");
  if (count != 1 || resources->type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_VALUE;
  *made = reinterpret_cast<CUdevResourceDesc>(&machine.descriptions.emplace_back(
      SmGroup{KeptIn(*resources).device, KeptIn(*resources).group,
              static_cast<int>(resources->sm.smCount)}));
  return CUDA_SUCCESS;
}

// A group has at most one context.
CUresult Create(CUgreenCtx* handle, CUdevResourceDesc description, CUdevice device,
                unsigned flags) {
  DRIVER_ENTER("cuGreenCtxCreate");
  const auto& wanted = *reinterpret_cast<const SmGroup*>(description);
  if (wanted.device != device || flags != CU_GREEN_CTX_DEFAULT_STREAM) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (const SmGroup* const other : machine.sm_groups) {
    if (other->device == device && other->group == wanted.group) {
      return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    }
  }
  auto* const context = new SmGroup(wanted);
  machine.sm_groups.insert(context);
  *handle = reinterpret_cast<CUgreenCtx>(context);
  return CUDA_SUCCESS;
}

CUresult CreateStream(CUstream* handle, CUgreenCtx of, unsigned flags, int priority) {
  DRIVER_ENTER("cuGreenCtxStreamCreate");
  auto* const context = reinterpret_cast<SmGroup*>(of);
  if (machine.sm_groups.count(context) == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  standin::Stream* const stream = machine.NewStream(context->device, priority);
  stream->sm_group = context;
  *handle = reinterpret_cast<CUstream>(stream);
  return CUDA_SUCCESS;
}

// CUDA would leak its remaining streams; here the context stays, and is counted as alive.
CUresult Destroy(CUgreenCtx handle) {
  DRIVER_ENTER("cuGreenCtxDestroy");
  auto* const context = reinterpret_cast<SmGroup*>(handle);
  if (machine.sm_groups.count(context) == 0) return CUDA_ERROR_INVALID_CONTEXT;
  for (const standin::Stream* const stream : machine.streams) {
    if (stream->sm_group == context) return CUDA_ERROR_NOT_PERMITTED;
  }
  machine.sm_groups.erase(context);
  delete context;
  return CUDA_SUCCESS;
}

const struct {
  const char* name;
  void* function;
} kDriver[] = {
    {"cuGetErrorName", reinterpret_cast<void*>(ErrorName)},
    {"cuDeviceGet", reinterpret_cast<void*>(DeviceGet)},
    {"cuDeviceGetDevResource", reinterpret_cast<void*>(DeviceResource)},
    {"cuDevSmResourceSplitByCount", reinterpret_cast<void*>(Split)},
    {"cuDevResourceGenerateDesc", reinterpret_cast<void*>(GenerateDescription)},
    {"cuGreenCtxCreate", reinterpret_cast<void*>(Create)},
    {"cuGreenCtxStreamCreate", reinterpret_cast<void*>(CreateStream)},
    {"cuGreenCtxDestroy", reinterpret_cast<void*>(Destroy)},
};

}  // namespace

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* result) {
  STANDIN_ENTER("cudaGetDriverEntryPointByVersion");
  if (version != CUDA_VERSION || flags != cudaEnableDefault) {
    return machine.Fail(cudaErrorInvalidValue);
  }
  *function = nullptr;
  *result = cudaDriverEntryPointSymbolNotFound;
  for (const auto& row : kDriver) {
    if (std::string(name) != row.name || machine.without == name) continue;
    *function = row.function;
    *result = cudaDriverEntryPointSuccess;
  }
  return cudaSuccess;
}

void standin_driver_without(const char* name) { Machine::Get().without = name; }
int standin_sms_of_stream(void* handle) {
  const standin::Stream* const stream = Machine::Get().Find(static_cast<cudaStream_t>(handle));
  return stream->sm_group == nullptr ? 0 : stream->sm_group->sms;
}
int standin_sm_group_of_stream(void* handle) {
  const standin::Stream* const stream = Machine::Get().Find(static_cast<cudaStream_t>(handle));
  return stream->sm_group == nullptr ? -1 : stream->sm_group->group;
}

}  // extern "C"
