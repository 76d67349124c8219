// Functional form of a program: every write into a value ("add_", "copy_", "index_put_") becomes an
// op that gives a new value, and what is read afterwards, through views too, is the new value.
#pragma once

#include "absl/status/statusor.h"
#include "executor/torch_model/program.h"

namespace stringline {

// The program itself where nothing is written. Unimplemented for a write into a parameter, a buffer
// or an input, for one that changes sizes, for one through a view without inverse, and for a read
// of what may or may not share memory with a value that was written.
absl::StatusOr<TorchProgram> WithoutWrites(const TorchProgram& program);

}  // namespace stringline
