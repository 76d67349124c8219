// A .pt2 file as a model: a dense transformer saved by torch.export.save.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/checkpoint/param_places.h"
#include "stages/models/model.h"

namespace stringline {

// The model raised from the file's program (raise.h), for sequences of `context` tokens, 0: as many
// as at the export; without a microbatch. Errors begin with the path: those of Pt2Archive,
// ReadTorchProgram and RaiseTorchProgram.
absl::StatusOr<AnyShape> ReadExportedShape(const std::string& path, int context);

// Reads all places' parameters, with all their copies, from the shape's file. InvalidArgument for a
// tensor that is missing, of other sizes, of a type that is not read, or with a value that is not
// finite.
absl::Status LoadExportedParams(const std::string& path, const AnyShape& shape,
                                absl::Span<const ParamPlace> places);

}  // namespace stringline
