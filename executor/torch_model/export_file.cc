#include "executor/torch_model/export_file.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/load_tensors.h"
#include "executor/checkpoint/stored_params.h"
#include "executor/checkpoint/tensor_header.h"
#include "executor/torch_model/archive.h"
#include "executor/torch_model/program.h"
#include "executor/torch_model/raise.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

absl::Status OfExport(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

// The rows behind a slice, (out, in).
absl::StatusOr<std::vector<float>> ReadRowsOf(const Pt2Archive& archive, const StoredSlice& slice) {
  SL_ASSIGN_OR_RETURN(std::vector<float> values, archive.Floats(slice.name));
  const auto wanted = static_cast<size_t>(slice.rows * slice.columns);
  const bool fits = values.size() == wanted || (slice.longer && values.size() > wanted);
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(archive.path(), ": tensor ", Quoted(slice.name),
                                                   " has ", values.size(),
                                                   " values; the program's has ", wanted));
  }
  values.resize(wanted);
  if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); })) {
    return absl::InvalidArgumentError(absl::StrCat(archive.path(), ": tensor ", Quoted(slice.name),
                                                   " holds a value that is not finite"));
  }
  if (!slice.transposed) return values;
  std::vector<float> turned(wanted);
  for (int64_t r = 0; r < slice.rows; ++r) {
    for (int64_t c = 0; c < slice.columns; ++c) {
      turned[r * slice.columns + c] = values[c * slice.rows + r];
    }
  }
  return turned;
}

}  // namespace

absl::StatusOr<AnyShape> ReadExportedShape(const std::string& path, int context) {
  SL_ASSIGN_OR_RETURN(const Pt2Archive archive, Pt2Archive::Open(path));
  SL_ASSIGN_OR_RETURN(const std::string json, archive.Program());
  const absl::StatusOr<TorchProgram> program = ReadTorchProgram(json);
  if (!program.ok()) return OfExport(path, program.status());
  absl::StatusOr<RaisedModel> model = RaiseTorchProgram(*program, archive);
  if (!model.ok()) return OfExport(path, model.status());
  RaisedShape shape = ShapeOf(std::make_shared<const RaisedModel>(*std::move(model)));
  if (context > 0) shape.context = context;
  return AnyShape(shape);
}

absl::Status LoadExportedParams(const std::string& path, const AnyShape& shape,
                                absl::Span<const ParamPlace> places) {
  SL_ASSIGN_OR_RETURN(const Pt2Archive archive, Pt2Archive::Open(path));
  for (const ParamPlace& place : places) {
    for (const StoredSlice& slice : SlicesOf(place.param, shape, {})) {
      const std::vector<ParamPlace::Range> ranges = RangesOf(place, slice);
      const bool here = std::any_of(ranges.begin(), ranges.end(),
                                    [](const auto& range) { return !range.copies.empty(); });
      if (!here) continue;
      SL_ASSIGN_OR_RETURN(const std::vector<float> values, ReadRowsOf(archive, slice));
      for (const ParamPlace::Range& range : ranges) {
        const float* const from = values.data() + (range.first - slice.first_row * slice.columns);
        for (const absl::Span<float> copy : range.copies)
          SL_RETURN_IF_ERROR(place.Write(from, copy));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace stringline
