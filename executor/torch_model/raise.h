// From a program of torch.export to a model of our ops: its logits are raised from the result
// backwards, and the loss against the next tokens is put behind them.
//
// Known: linear, addmm, mm and matmul with parameters, embedding, learned positions, layer_norm,
// RMS norms (also written out), GELU by tanh (also written out), SwiGLU, causal attention
// (torch_attention.h) with grouped queries, norms of heads and rotary positions, sums, products and
// scaling. Queries, keys and values become one product, gate and up likewise.
#pragma once

#include "absl/status/statusor.h"
#include "executor/torch_model/archive.h"
#include "executor/torch_model/program.h"
#include "stages/models/raised.h"

namespace stringline {

// `archive` has the program's constants, and tells which parameters share memory. Unimplemented for
// an op without a counterpart here, with its place in the model and in its source; InvalidArgument
// for a program that does not compute logits from a single input of token numbers.
absl::StatusOr<RaisedModel> RaiseTorchProgram(const TorchProgram& program,
                                              const Pt2Archive& archive);

}  // namespace stringline
