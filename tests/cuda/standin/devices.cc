// The GPUs of the machine: the current GPU, their properties, and access to each other's memory.
#include "entry.h"
#include "standin.h"

namespace standin {

thread_local int current_device = 0;

int Machine::DeviceOf(const void* pointer) const {
  const auto* const at = static_cast<const char*>(pointer);
  auto found = memory.upper_bound(at);
  if (found == memory.begin()) return -1;
  --found;
  const Memory& piece = found->second;
  return at < found->first + piece.bytes && piece.kind == MemoryKind::kDevice ? piece.device : -1;
}

bool Machine::Reaches(int device, const void* pointer) const {
  const int owner = DeviceOf(pointer);
  return device < 0 || owner < 0 || owner == device || devices[device].peers.count(owner) != 0;
}

std::vector<Use> Machine::ReachedMemory() const {
  std::vector<Use> reached;
  for (const auto& [begin, piece] : memory) {
    if (Reaches(running_on_, begin)) reached.push_back({begin, piece.bytes, true});
  }
  return reached;
}

void Machine::NoteUse(const Use& use) {
  if (watch_use && use.bytes > 0) watch_use(use);
  uses.Add(use);
  if (use.bytes == 0 || !fault.empty() || Reaches(running_on_, use.begin)) return;
  fault = std::string(running_what_) + " on GPU " + std::to_string(running_on_) +
          " uses memory of GPU " + std::to_string(DeviceOf(use.begin)) +
          ", to which it has no access";
}

}  // namespace standin

using standin::Machine;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  STANDIN_ENTER("cudaGetDeviceCount");
  *count = static_cast<int>(machine.devices.size());
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  STANDIN_ENTER("cudaSetDevice");
  if (!machine.Has(device)) return machine.Fail(cudaErrorInvalidDevice);
  standin::current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  STANDIN_ENTER("cudaGetDevice");
  *device = standin::current_device;
  return cudaSuccess;
}

// Only the properties that our code reads.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  STANDIN_ENTER("cudaGetDeviceProperties");
  if (!machine.Has(device)) return machine.Fail(cudaErrorInvalidDevice);
  *properties = {};
  properties->major = 9;
  properties->multiProcessorCount = machine.devices[device].sms;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  STANDIN_ENTER("cudaDeviceGetAttribute");
  if (!machine.Has(device)) return machine.Fail(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = machine.devices[device].sms;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    default:
      return machine.Fail(cudaErrorInvalidValue);
  }
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  STANDIN_ENTER("cudaDeviceCanAccessPeer");
  if (!machine.Has(device) || !machine.Has(peer)) return machine.Fail(cudaErrorInvalidDevice);
  *can = device != peer && machine.devices[device].apart.count(peer) == 0 ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  STANDIN_ENTER("cudaDeviceEnablePeerAccess");
  if (!machine.Has(peer) || peer == standin::current_device) {
    return machine.Fail(cudaErrorInvalidDevice);
  }
  if (flags != 0) return machine.Fail(cudaErrorInvalidValue);
  standin::Device& device = machine.devices[standin::current_device];
  if (device.apart.count(peer) != 0) return machine.Fail(cudaErrorPeerAccessUnsupported);
  if (!device.peers.insert(peer).second) return machine.Fail(cudaErrorPeerAccessAlreadyEnabled);
  return cudaSuccess;
}

void standin_set_devices(int count) {
  Machine::Get().devices.assign(static_cast<size_t>(count), standin::Device());
}
void standin_set_sms(int device, int sms) { Machine::Get().devices[device].sms = sms; }
void standin_keep_apart(int device, int peer) { Machine::Get().devices[device].apart.insert(peer); }
int standin_device_of_stream(void* stream) {
  const standin::Stream* const found = Machine::Get().Find(static_cast<cudaStream_t>(stream));
  return found == &Machine::Get().legacy ? standin::current_device : found->device;
}
int standin_device_of_memory(const void* memory) { return Machine::Get().DeviceOf(memory); }
int64_t standin_memory_used(int device) { return Machine::Get().devices[device].memory_used; }
int standin_current_device() { return standin::current_device; }

}  // extern "C"
