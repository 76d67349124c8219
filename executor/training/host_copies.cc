#include "executor/training/host_copies.h"

#include "schedlang/base/align.h"
#include "schedlang/plan/effects.h"

namespace stringline {

HostCopies::HostCopies(const Plan& plan, Kernels* kernels) : plan_(plan), kernels_(kernels) {
  for (const Action& action : plan.actions) {
    if (action.kind != ActionKind::kFetch) continue;
    fetched_.resize(plan.stages.size() * static_cast<size_t>(plan.microbatches), false);
    fetched_[Index(action)] = true;
  }
}

bool HostCopies::IsBack(const Action& action, StageValue value) const {
  if (fetched_.empty() || !fetched_[Index(action)]) return false;
  const Values copied = CopiedValues(plan_.stage(action.stage).remakes);
  return action.kind != ActionKind::kForward && (copied & SetOf(value)) != 0;
}

Work HostCopies::Bind(absl::Span<const Bytes> kept, char* host, bool back) {
  Bound& bound = bound_.emplace_back(Bound{kernels_, {}});
  for (const Bytes& value : kept) {
    if (value.bytes == 0) continue;
    bound.copies.push_back(back ? HostCopy{value.data, host, value.bytes}
                                : HostCopy{host, value.data, value.bytes});
    host += AlignUp(value.bytes);
  }
  return {[](const void* self, int64_t, NativeStream stream) {
            const auto& of = *static_cast<const Bound*>(self);
            for (const HostCopy& copy : of.copies) {
              of.kernels->Copy(copy.to, copy.from, copy.bytes, stream);
            }
          },
          &bound, 0};
}

}  // namespace stringline
