#include "tools/import_model.h"

#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/torch_model/export_file.h"
#include "schedlang/base/status.h"
#include "stages/text.h"

namespace stringline {
namespace {

// A line for each part: its parameters, and its share of a forward's work.
std::string PrintParts(const RaisedShape& shape) {
  const RaisedModel& model = *shape.model;
  const std::vector<double> work = WorkOfEach(shape);
  const std::vector<int> part_of = PartOfEachParam(model);
  std::vector<int64_t> params(work.size());
  for (size_t p = 0; p < part_of.size(); ++p) {
    const RaisedParam& of = model.params[p];
    if (of.param.tied_to.empty()) params[part_of[p]] += of.param.type.elements();
  }
  const double all = std::accumulate(work.begin(), work.end(), 0.0);
  std::string text = absl::StrFormat("# %-38s %14s   %s\n", "part", "parameters", "work");
  for (size_t i = 0; i < work.size(); ++i) {
    const std::string name = i == 0                 ? "embedding"
                             : i + 1 == work.size() ? "head"
                                                    : model.layers[i - 1];
    absl::StrAppendFormat(&text, "# %-38s %14d %4.1f %%\n", name, params[i], 100 * work[i] / all);
  }
  return text;
}

std::string Sequences(int count) {
  return absl::StrCat(count, count == 1 ? " sequence" : " sequences");
}

std::string PrintModel(const RaisedShape& shape) {
  const RaisedModel& model = *shape.model;
  std::string text = absl::StrFormat(
      "# %s: %d parameters, %d layers of %d channels, %d different tokens%s\n"
      "# exported with %s of %d tokens\n#\n",
      model.name, CountParams(shape), shape.layers, shape.width, shape.vocabulary,
      shape.tied ? ", the head's weight is the embedding's" : "", Sequences(shape.microbatch),
      shape.context);
  absl::StrAppend(&text, PrintParts(shape), "#\n# A stage can begin with:\n");
  for (const auto& [node, module] : CutPlaces(shape)) absl::StrAppend(&text, "#   ", module, "\n");
  return absl::StrCat(text, "\n", PrintGraph(model.graph));
}

}  // namespace

int ImportModel(const Flags& flags, const Output& output) {
  const absl::StatusOr<AnyShape> shape = ReadExportedShape(flags.file, 0);
  if (!shape.ok()) return Fail(output, shape.status().message());
  return Deliver(PrintModel(std::get<RaisedShape>(shape->family)), flags.out, output);
}

}  // namespace stringline
