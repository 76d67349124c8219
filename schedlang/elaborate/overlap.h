// `overlap F & B { compute { … } network { … } }`: in which order the named parts of a group run.
//
// A stage is cut at its all-to-alls into attn, dispatch, experts and combine. attn and experts
// compute; dispatch and combine use the network. A forward runs them in that order, an input
// gradient in the reverse one, and the weight gradients W.attn and W.experts follow the input
// gradients of the same parts. (Megatron-LM's combined 1F1B; DeepSeek-V3 Technical Report,
// figure 4.)
#pragma once

#include <optional>

#include "schedlang/base/diagnostics.h"
#include "schedlang/plan.h"
#include "schedlang/text/ast.h"

namespace stringline {

// Nothing after a finding: a part is missing, there twice or unknown, stands on the wrong lane, or
// the two lanes would wait for each other forever.
std::optional<Overlap> ResolveOverlap(const ast::Overlap& written, Diagnostics* diagnostics);

}  // namespace stringline
