// folder_writer FOLDER OUT: one microbatch through a Hugging Face folder's model, for
// folder_test.py.
//
// FOLDER holds the model, and beside it batch.json, {"tokens": [[…]], "targets": [[…]]}. OUT gets
// `gradients`, a folder like FOLDER with the gradients of the loss's sum in the parameters' places,
// `saved`, the output of --save for the model, and loss.json.
#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/model_folder.h"
#include "executor/training/reference.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/source.h"
#include "schedlang/base/write_file.h"

namespace stringline {
namespace {

using Json = nlohmann::json;
using Rows = std::vector<std::vector<int32_t>>;

std::vector<int32_t> Flat(const Rows& rows) {
  std::vector<int32_t> flat;
  for (const std::vector<int32_t>& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  return flat;
}

void Ok(const absl::Status& status) { SL_CHECK(status.ok()) << status; }

// The gradients by parameter; a tied parameter's gradient is part of the gradient of its original.
ParamPlaces GradientsOf(const StageProgram& model, const Reference& reference,
                        std::vector<std::vector<float>>* values) {
  std::map<std::string, size_t> place;
  for (size_t p = 0; p < model.params.size(); ++p) {
    const absl::Span<const float> grad = reference.grad(static_cast<int>(p));
    const Param& param = model.params[p];
    if (param.tied_to.empty()) {
      place[param.name] = values->size();
      values->emplace_back(grad.begin(), grad.end());
      continue;
    }
    std::vector<float>& sum = (*values)[place.at(param.tied_to)];
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += grad[i];
  }
  ParamPlaces places;
  for (const Param& param : model.params) {
    if (param.tied_to.empty()) {
      places.Add(param, absl::MakeSpan((*values)[place.at(param.name)]));
    }
  }
  return places;
}

void Write(const std::string& folder, const std::string& out) {
  const absl::StatusOr<std::string> text = ReadBytes(folder + "/batch.json", 1 << 24);
  Ok(text.status());
  const Json batch = Json::parse(*text);
  const Rows tokens = batch["tokens"].get<Rows>(), targets = batch["targets"].get<Rows>();
  const auto read = ReadFolderShape(folder, static_cast<int>(tokens[0].size()),
                                    /*without_dropout=*/true);
  Ok(read.status());
  const AnyShape shape = read->WithMicrobatch(static_cast<int>(tokens.size()));
  AnyShape given = shape;
  Ok(KeepGiven(folder, &given));
  const auto programs = BuildModelStages(shape, {shape.layers()});
  Ok(programs.status());
  const StageProgram& model = programs->front();
  Reference reference(model, 1);
  ParamPlaces places;
  for (size_t p = 0; p < model.params.size(); ++p) {
    places.Add(model.params[p], reference.param(static_cast<int>(p)));
  }
  Ok(LoadModelFolder(folder, shape, places.all()));
  const float loss = reference.RunMicrobatch(Flat(tokens), Flat(targets));
  std::vector<std::vector<float>> values;
  Ok(SaveModelFolder(out + "/gradients", shape, 0, GradientsOf(model, reference, &values).all()));
  Ok(SaveModelFolder(out + "/saved", given, 0, places.all()));
  const Json said = {{"loss", loss}, {"params", CountParams(shape)}};
  Ok(WriteFileAtomically(out + "/loss.json", said.dump()));
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: folder_writer FOLDER OUT\n";
    return 2;
  }
  stringline::Write(argv[1], argv[2]);
}
