// From a program of torch.export to a model of our ops, op by op: for programs in which raise.h
// finds a pattern that it does not know. Every value has the program's own sizes, so such a model
// runs with the program's microbatch and context, in F32, and on CPUs alone.
#pragma once

#include "absl/status/statusor.h"
#include "executor/torch_model/archive.h"
#include "executor/torch_model/program.h"
#include "stages/models/raised.h"

namespace stringline {

// The contract of RaiseTorchProgram (raise.h).
absl::StatusOr<RaisedModel> RaiseOps(const TorchProgram& program, const Pt2Archive& archive);

}  // namespace stringline
