#include "executor/cuda/nvtx.h"

#if __has_include(<nvtx3/nvToolsExtCudaRt.h>)
#include <nvtx3/nvToolsExtCudaRt.h>
#define STRINGLINE_HAS_NVTX
#endif

namespace stringline {

#ifdef STRINGLINE_HAS_NVTX

// Without a tool, NVTX returns a null domain.
NvtxRanges::NvtxRanges() : domain_(nvtxDomainCreateA("stringline")) {}

void NvtxRanges::Enter(const LazyName& name) {
  if (domain_ == nullptr) return;
  auto* const domain = static_cast<nvtxDomainHandle_t>(domain_);
  if (open_) nvtxDomainRangePop(domain);
  open_ = name.print != nullptr;
  if (!open_) return;
  void*& text = names_[{name.print, name.self, name.index}];
  if (text == nullptr) text = nvtxDomainRegisterStringA(domain, Print(name).c_str());
  nvtxEventAttributes_t range = {};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  range.message.registered = static_cast<nvtxStringHandle_t>(text);
  nvtxDomainRangePushEx(domain, &range);
}

void NvtxRanges::NameStream(cudaStream_t stream, const std::string& name) {
  if (domain_ != nullptr) nvtxNameCudaStreamA(stream, name.c_str());
}

#else  // without the headers

NvtxRanges::NvtxRanges() = default;
void NvtxRanges::Enter(const LazyName& /*name*/) {}
void NvtxRanges::NameStream(cudaStream_t /*stream*/, const std::string& /*name*/) {}

#endif

}  // namespace stringline
