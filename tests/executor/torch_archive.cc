#include "tests/executor/torch_archive.h"

#include <zip.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

using Json = nlohmann::json;

constexpr int kFloat = 7, kLong = 5;

Json Sizes(const std::vector<int64_t>& sizes) {
  Json list = Json::array();
  for (const int64_t size : sizes) list.push_back(Json{{"as_int", size}});
  return list;
}

Json Meta(const std::vector<int64_t>& sizes, int type) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return {{"dtype", type},
          {"sizes", Sizes(sizes)},
          {"strides", Sizes(strides)},
          {"storage_offset", Json{{"as_int", 0}}},
          {"requires_grad", false}};
}

std::string FloatBytes(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace

Json TorchTensorInput(const std::string& value) {
  return Json{{"as_tensor", Json{{"name", value}}}};
}

Json TorchTensorsInput(const std::vector<std::string>& values) {
  Json list = Json::array();
  for (const std::string& value : values) list.push_back(Json{{"name", value}});
  return Json{{"as_tensors", list}};
}

Json TorchInt(int64_t number) { return Json{{"as_int", number}}; }
Json TorchInts(const std::vector<int64_t>& numbers) { return Json{{"as_ints", numbers}}; }
Json TorchFloat(double number) { return Json{{"as_float", number}}; }

TorchArchive::TorchArchive() {
  program = {{"schema_version", {{"major", 8}, {"minor", 20}}},
             {"graph_module",
              {{"graph",
                {{"nodes", Json::array()},
                 {"tensor_values", Json::object()},
                 {"sym_int_values", Json::object()}}},
               {"signature", {{"input_specs", Json::array()}, {"output_specs", Json::array()}}}}}};
  weights = {{"config", Json::object()}};
  files["byteorder"] = "little";
  files["archive_format"] = "pt2";
}

void TorchArchive::Describe(const std::string& value, const std::vector<int64_t>& sizes, int type) {
  graph()["tensor_values"][value] = Meta(sizes, type);
}

std::string TorchArchive::Param(const std::string& name, const std::vector<int64_t>& sizes,
                                std::vector<float> values) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  for (int64_t i = static_cast<int64_t>(values.size()); i < count; ++i) {
    values.push_back(0.1f * static_cast<float>(i + 1));
  }
  const std::string value = "p_" + name, file = absl::StrCat("weight_", weights["config"].size());
  Describe(value, sizes, kFloat);
  graph()["tensor_values"][value]["requires_grad"] = true;
  weights["config"][name] = {
      {"path_name", file}, {"use_pickle", false}, {"tensor_meta", Meta(sizes, kFloat)}};
  files["data/weights/" + file] = FloatBytes(values);
  signature()["input_specs"].push_back(
      {{"parameter", {{"arg", {{"name", value}}}, {"parameter_name", name}}}});
  return value;
}

std::string TorchArchive::Alias(const std::string& name, const std::string& of) {
  const std::string value = "p_" + name;
  weights["config"][name] = weights["config"][of];
  graph()["tensor_values"][value] = graph()["tensor_values"]["p_" + of];
  signature()["input_specs"].push_back(
      {{"parameter", {{"arg", {{"name", value}}}, {"parameter_name", name}}}});
  return value;
}

std::string TorchArchive::Buffer(const std::string& name, const std::vector<int64_t>& sizes,
                                 const std::vector<float>& values) {
  const std::string value = Param(name, sizes, values);
  signature()["input_specs"].back() = {
      {"buffer", {{"arg", {{"name", value}}}, {"buffer_name", name}}}};
  return value;
}

std::string TorchArchive::Input(const std::string& name, const std::vector<int64_t>& sizes) {
  Describe(name, sizes, kLong);
  signature()["input_specs"].push_back({{"user_input", {{"arg", TorchTensorInput(name)}}}});
  return name;
}

std::string TorchArchive::Node(const std::string& op, const TorchInputs& inputs,
                               const std::string& name, const std::vector<int64_t>& sizes,
                               const std::string& module, int type) {
  Json list = Json::array();
  for (const auto& [input, argument] : inputs) {
    const bool text = argument.is_string();
    list.push_back({{"name", input},
                    {"arg", text ? TorchTensorInput(argument.get<std::string>()) : argument}});
  }
  Describe(name, sizes, type);
  graph()["nodes"].push_back(
      {{"target", "torch.ops.aten." + op},
       {"name", name},
       {"inputs", list},
       {"outputs", Json::array({TorchTensorInput(name)})},
       {"metadata",
        {{"nn_module_stack", absl::StrCat("L,,made.Up;L,", module, ",made.Layer")},
         {"stack_trace",
          absl::StrCat("File \"/home/me/model.py\", line 7, in forward\n    ", name,
                       " = something()\n  File \"/x/site-packages/torch/nn/modules/linear.py\", "
                       "line 1, in forward\n    return F.linear()")}}}});
  return name;
}

void TorchArchive::Output(const std::string& value) {
  signature()["output_specs"].push_back({{"user_output", {{"arg", TorchTensorInput(value)}}}});
}

void TorchArchive::Write(const std::string& path) const {
  int error = 0;
  zip_t* const archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  SL_CHECK(archive != nullptr) << error;
  std::map<std::string, std::string> all = files;
  if (!program.is_null()) all["models/model.json"] = program.dump();
  if (!weights.is_null()) all["data/weights/model_weights_config.json"] = weights.dump();
  for (const auto& [name, bytes] : all) {
    zip_source_t* const source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    const zip_int64_t index =
        zip_file_add(archive, ("root/" + name).c_str(), source, ZIP_FL_OVERWRITE);
    const zip_int32_t method = compressed.count(name) > 0 ? ZIP_CM_DEFLATE : ZIP_CM_STORE;
    SL_CHECK(index >= 0 &&
             zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), method, 0) == 0);
  }
  SL_CHECK(zip_close(archive) == 0) << zip_strerror(archive);
}

}  // namespace stringline
