// Models of torch.export, made up node by node: their shapes here, and the messages of unreadable
// ones. tests/torch/export_test.py has whole models, exported by torch itself.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/checkpoint/model_folder.h"
#include "executor/checkpoint/tensor_file.h"
#include "executor/run/run_config.h"
#include "executor/run/run_keys.h"
#include "executor/torch_model/export_file.h"
#include "executor/torch_model/raise.h"
#include "executor/torch_model/torch_arguments.h"
#include "executor/training/reference.h"
#include "stages/text.h"
#include "tests/executor/torch_archive.h"

namespace stringline {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string ArchivePath() {
  return absl::StrCat(testing::TempDir(), "/stringline-torch-", getpid(), ".pt2");
}

// x w' + x, twice, between a table and a head that is the table.
TorchArchive TwoLayers(double epsilon = 1e-5) {
  TorchArchive made;
  const std::string table = made.Param("embed.weight", {5, 4});
  const std::string tokens = made.Input("ids", {1, 3});
  std::string x = made.Node("embedding.default", {{"weight", table}, {"indices", tokens}},
                            "embedding", {1, 3, 4}, "embed");
  for (const std::string layer : {"blocks.0", "blocks.1"}) {
    const std::string weight = made.Param(layer + ".fc.weight", {4, 4});
    const std::string y = made.Node("linear.default", {{"input", x}, {"weight", weight}},
                                    layer + "_linear", {1, 3, 4}, layer + ".fc");
    x = made.Node("add.Tensor", {{"self", x}, {"other", y}}, layer + "_add", {1, 3, 4}, layer);
  }
  const std::string gamma = made.Param("norm.weight", {4}, {1, 1, 1, 1});
  x = made.Node("rms_norm.default",
                {{"input", x},
                 {"normalized_shape", TorchInts({4})},
                 {"weight", gamma},
                 {"eps", TorchFloat(epsilon)}},
                "norm", {1, 3, 4}, "norm");
  made.Output(
      made.Node("linear.default", {{"input", x}, {"weight", table}}, "logits", {1, 3, 5}, "head"));
  return made;
}

absl::StatusOr<AnyShape> ReadBack(const TorchArchive& made, int context = 0) {
  made.Write(ArchivePath());
  return ReadExportedShape(ArchivePath(), context);
}

// The error's message, without the path.
std::string Says(const absl::Status& status) {
  std::string said(status.message());
  const std::string path = ArchivePath() + ": ";
  return absl::StartsWith(said, path) ? said.substr(path.size()) : "no path: " + said;
}

TEST(TorchModelTest, ReadsAProgram) {
  const auto shape = ReadBack(TwoLayers());
  ASSERT_TRUE(shape.ok()) << shape.status();
  const auto& raised = std::get<RaisedShape>(shape->family);
  EXPECT_EQ(PrintGraph(raised.model->graph), R"(graph {
  in input 0 = tokens : i32[1,3]
  in param 0 = embed.weight : f32[5,4]
  in param 1 = blocks.0.fc.weight : f32[4,4]
  in param 2 = blocks.1.fc.weight : f32[4,4]
  in param 3 = norm.weight : f32[4]
  in param 4 = embed.weight.head : f32[5,4]
  in target 0 = target : i32[1,3]
  embed : f32[1,3,4] = embedding tokens embed.weight
  blocks.0 : f32[1,3,4] = linear_add embed blocks.0.fc.weight embed
  blocks.1 : f32[1,3,4] = linear_add blocks.0 blocks.1.fc.weight blocks.0
  norm : f32[1,3,4], norm.1 : f32[1,3] = rms_norm blocks.1 norm.weight {epsilon=1e-05}
  head : f32[1,3,5] = linear norm embed.weight.head
  loss : f32[], loss.1 : f32[1,3] = cross_entropy head target
  out loss 0 = loss
}
)");
  EXPECT_EQ(raised.model->name, "Up");
  EXPECT_EQ(raised.model->layers, (std::vector<std::string>{"blocks.0", "blocks.1"}));
  EXPECT_EQ(raised.model->params[4].param.tied_to, "embed.weight");
  EXPECT_TRUE(shape->vocabulary() == 5 && shape->context() == 3 && shape->width() == 4);
  EXPECT_EQ(CountParams(*shape), 20 + 16 + 16 + 4);
  const auto places = CutPlaces(raised);
  std::vector<std::string> modules;
  for (const auto& place : places) modules.push_back(place.second);
  EXPECT_EQ(modules, (std::vector<std::string>{"blocks.0", "blocks.1", "norm", "head"}));
  EXPECT_EQ(ReadBack(TwoLayers(), 2)->context(), 2);
}

// Sizes that may vary are taken at their hints.
TEST(TorchModelTest, TakesHints) {
  TorchArchive made = TwoLayers();
  const Json symbol = {{"as_expr", {{"expr_str", "s0"}, {"hint", {{"as_int", 1}}}}}};
  for (Json& value : made.program["graph_module"]["graph"]["tensor_values"]) {
    if (value["sizes"].size() > 1 && value["sizes"][0]["as_int"] == 1) value["sizes"][0] = symbol;
  }
  const auto shape = ReadBack(made);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->microbatch(), 1);
}

TEST(TorchModelTest, ReadsParametersHoweverTheyLie) {
  TorchArchive made = TwoLayers();
  // A storage of 40 numbers: a transposed table, and a matrix from the 21st number on.
  std::string storage(40 * sizeof(float), '\0');
  for (int i = 0; i < 40; ++i) {
    const auto number = static_cast<float>(i);
    std::memcpy(storage.data() + i * sizeof(float), &number, sizeof number);
  }
  made.files["data/weights/weight_0"] = storage;
  Json& table = made.weights["config"]["embed.weight"]["tensor_meta"];
  table["strides"] = Json::array({Json{{"as_int", 1}}, Json{{"as_int", 5}}});
  Json& matrix = made.weights["config"]["blocks.0.fc.weight"];
  matrix["path_name"] = "weight_0";
  matrix["tensor_meta"]["storage_offset"] = {{"as_int", 20}};
  // And a storage of bf16: 1 in all places.
  Json& second = made.weights["config"]["blocks.1.fc.weight"];
  second["tensor_meta"]["dtype"] = 13;
  made.files["data/weights/weight_2"].clear();
  for (int i = 0; i < 16; ++i) made.files["data/weights/weight_2"] += std::string("\x80\x3f", 2);

  const auto shape = ReadBack(made);
  ASSERT_TRUE(shape.ok()) << shape.status();
  const auto stages = BuildModelStages(*shape, {2});
  ASSERT_TRUE(stages.ok()) << stages.status();
  Reference reference(stages->front(), 1);
  ParamPlaces places;
  for (size_t p = 0; p < stages->front().params.size(); ++p) {
    places.Add(stages->front().params[p], reference.param(static_cast<int>(p)));
  }
  const absl::Status loaded = LoadExportedParams(ArchivePath(), *shape, places.all());
  ASSERT_TRUE(loaded.ok()) << loaded;
  EXPECT_THAT(reference.param(0).subspan(0, 5), testing::ElementsAre(0, 5, 10, 15, 1));
  EXPECT_THAT(reference.param(1).subspan(0, 3), testing::ElementsAre(20, 21, 22));
  EXPECT_THAT(reference.param(2), testing::Each(1.0f));
  EXPECT_THAT(reference.param(4).subspan(0, 5), testing::ElementsAre(0, 5, 10, 15, 1));

  const float infinite = std::numeric_limits<float>::infinity();
  std::memcpy(made.files["data/weights/weight_0"].data(), &infinite, sizeof infinite);
  made.Write(ArchivePath());
  EXPECT_EQ(Says(LoadExportedParams(ArchivePath(), *shape, places.all())),
            "tensor 'embed.weight' holds a value that is not finite");
  made.weights["config"]["embed.weight"]["tensor_meta"]["dtype"] = 6;
  made.Write(ArchivePath());
  EXPECT_EQ(Says(LoadExportedParams(ArchivePath(), *shape, places.all())),
            "tensor 'embed.weight': is of float16; float32 and bfloat16 are read");
  made.weights["config"]["embed.weight"]["tensor_meta"]["dtype"] = 7;
  matrix["tensor_meta"]["storage_offset"] = {{"as_int", 30}};
  made.files["data/weights/weight_0"] = storage;
  made.Write(ArchivePath());
  EXPECT_EQ(Says(LoadExportedParams(ArchivePath(), *shape, places.all())),
            "tensor 'blocks.0.fc.weight': reaches beyond its storage of 160 bytes");
}

struct WrongFile {
  const char* what;
  std::function<void(TorchArchive&)> change;
  const char* says;
};

Json& Node(TorchArchive& made, size_t node) {
  return made.program["graph_module"]["graph"]["nodes"][node];
}

TEST(TorchModelTest, SaysWhatCannotBeRead) {
  const WrongFile cases[] = {
      {"no program", [](TorchArchive& made) { made.program = nullptr; },
       "holds 0 programs (models/NAME.json); one is read"},
      {"two programs", [](TorchArchive& made) { made.files["models/other.json"] = "{}"; },
       "holds 2 programs (models/NAME.json); one is read"},
      {"an older form",
       [](TorchArchive& made) { made.files["serialized_exported_program.json"] = "{}"; },
       "a program of PyTorch before 2.8, whose weights are pickled: save it with a newer one"},
      {"pickled weights", [](TorchArchive& made) { made.files["data/weights/model.pt"] = "x"; },
       "its weights are pickled: save it with PyTorch 2.9 or later"},
      {"bytes the other way", [](TorchArchive& made) { made.files["byteorder"] = "big"; },
       "its byte order is 'big'"},
      {"another schema", [](TorchArchive& made) { made.program["schema_version"]["major"] = 7; },
       "its schema is version 7.20; version 8 is read"},
      {"another form", [](TorchArchive& made) { made.program["graph_module"].erase("signature"); },
       "the program is of another form: [json.exception.out_of_range.403] key 'signature' not "
       "found"},
      {"a value out of nothing",
       [](TorchArchive& made) { Node(made, 1)["inputs"][0]["arg"] = TorchTensorInput("nothing"); },
       "value 'nothing' is used and not there"},
      {"a value twice",
       [](TorchArchive& made) { Node(made, 1)["outputs"][0] = TorchTensorInput("embedding"); },
       "value 'embedding' is given twice"},
      {"no tokens",
       [](TorchArchive& made) { Node(made, 0)["target"] = "torch.ops.aten.silu.default"; },
       "the program has no input of token numbers, of two dimensions, for an embedding, and no "
       "other input of numbers"},
      {"no logits",
       [](TorchArchive& made) {
         made.program["graph_module"]["signature"]["output_specs"] = Json::array();
       },
       "the program gives no logits: no output has two or three dimensions"},
      {"an op",
       [](TorchArchive& made) { Node(made, 3)["target"] = "torch.ops.aten.erfinv.default"; },
       "aten.erfinv.default is not known here; node 'blocks.1_linear', module 'blocks.1.fc', "
       "/home/me/model.py:7 'blocks.1_linear = something()'"},
      {"a number that is one of the values",
       [](TorchArchive& made) {
         Node(made, 5)["inputs"][3]["arg"] = TorchTensorInput("p_norm.weight");
       },
       "aten.rms_norm.default is not known here: its 'eps' is the tensor 'p_norm.weight', and only "
       "numbers are known; node 'norm', module 'norm', /home/me/model.py:7 'norm = something()'"},
      {"a number that depends on sizes",
       [](TorchArchive& made) {
         Node(made, 4)["inputs"].push_back(
             {{"name", "alpha"}, {"arg", {{"as_sym_float", {{"as_name", "sym"}}}}}});
       },
       "aten.add.Tensor is not known here: its 'alpha' is of another kind, as a number that "
       "depends "
       "on sizes, and only numbers are known; node 'blocks.1_add', module 'blocks.1', "
       "/home/me/model.py:7 'blocks.1_add = something()'"},
      {"a parameter in two layers",
       [](TorchArchive& made) {
         Node(made, 3)["inputs"][1]["arg"] = TorchTensorInput("p_blocks.0.fc.weight");
       },
       "parameter 'blocks.0.fc.weight' is used in several layers: a table of tokens may be the "
       "matrix of a product, too, and others are of one layer"},
      {"layers that are none",
       [](TorchArchive& made) {
         for (size_t n = 0; n < 7; ++n) Node(made, n)["metadata"]["nn_module_stack"] = "L,,made.Up";
       },
       "the model can nowhere be cut into layers: no activation goes between two of its modules"},
      {"sizes that are none",
       [](TorchArchive& made) {
         made.program["graph_module"]["graph"]["tensor_values"]["norm"]["sizes"][0] = {
             {"as_int", -1}};
       },
       "a size is -1"},
  };
  for (const WrongFile& one : cases) {
    TorchArchive made = TwoLayers();
    one.change(made);
    const auto shape = ReadBack(made);
    ASSERT_FALSE(shape.ok()) << one.what;
    EXPECT_EQ(Says(shape.status()), one.says) << one.what;
  }
}

TEST(TorchModelTest, SaysWhatIsNoArchive) {
  TwoLayers().Write(ArchivePath());
  const auto bytes = std::filesystem::file_size(ArchivePath());
  for (const auto left : {bytes - 1, bytes / 2, std::uintmax_t{10}, std::uintmax_t{0}}) {
    TwoLayers().Write(ArchivePath());
    std::filesystem::resize_file(ArchivePath(), left);
    const auto shape = ReadExportedShape(ArchivePath(), 0);
    ASSERT_FALSE(shape.ok()) << left;
    EXPECT_THAT(Says(shape.status()), HasSubstr("not a whole zip archive")) << left;
  }
  std::filesystem::remove(ArchivePath());
  EXPECT_TRUE(absl::IsNotFound(ReadExportedShape(ArchivePath(), 0).status()));
  // A changed byte of the program is detected by its checksum.
  TwoLayers().Write(ArchivePath());
  std::fstream file(ArchivePath(), std::ios::in | std::ios::out | std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  file.clear();
  file.seekp(static_cast<std::streamoff>(text.find("blocks.0_add")));
  file.put('c');
  file.close();
  EXPECT_EQ(Says(ReadExportedShape(ArchivePath(), 0).status()),
            "'models/model.json' cannot be read: was the file cut short or changed?");
}

// Overwrites both sizes of a file in the zip's directory, of whole bytes and of inflated ones.
void ForgeSizes(const std::string& name, uint32_t in_file, uint32_t inflated) {
  std::fstream file(ArchivePath(), std::ios::in | std::ios::out | std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t entry = text.rfind("PK\x01\x02", text.rfind(name));
  ASSERT_NE(entry, std::string::npos);
  file.clear();
  file.seekp(static_cast<std::streamoff>(entry + 20));
  file.write(reinterpret_cast<const char*>(&in_file), 4);
  file.write(reinterpret_cast<const char*>(&inflated), 4);
}

// An archive that would become far more than its file is refused before memory is taken.
TEST(TorchModelTest, RefusesWhatInflates) {
  TorchArchive small = TwoLayers();
  small.compressed = {"models/model.json", "data/weights/model_weights_config.json"};
  EXPECT_TRUE(ReadBack(small).ok()) << "compressed files of usual sizes are read";

  TorchArchive bomb = TwoLayers();
  bomb.files["data/weights/zeros_1"] = std::string(200 << 20, '\0');
  bomb.files["data/weights/zeros_2"] = bomb.files["data/weights/zeros_1"];
  bomb.compressed = {"data/weights/zeros_1", "data/weights/zeros_2"};
  EXPECT_THAT(Says(ReadBack(bomb).status()),
              AllOf(HasSubstr("its compressed files inflate to more than 256 MiB; "
                              "'root/data/weights/zeros_2' is said to become 209715200 bytes of 2"),
                    HasSubstr("torch.export.save compresses none")));
  // As they are they are no bomb.
  bomb.compressed.clear();
  EXPECT_TRUE(ReadBack(bomb).ok());

  const std::string name = "data/weights/model_weights_config.json";
  TwoLayers().Write(ArchivePath());
  ForgeSizes(name, 100, 0xfffffff0);
  EXPECT_THAT(Says(ReadExportedShape(ArchivePath(), 0).status()),
              HasSubstr("is said to become 4294967280 bytes of 100"));
  TwoLayers().Write(ArchivePath());
  ForgeSizes(name, 0xfffffff0, 0xfffffff0);
  EXPECT_FALSE(ReadExportedShape(ArchivePath(), 0).ok());
}

// A tensor of few bytes and many elements, by strides of 0.
TEST(TorchModelTest, RefusesTensorsOfFarMoreElementsThanStored) {
  TorchArchive made = TwoLayers();
  Json& meta = made.weights["config"]["embed.weight"]["tensor_meta"];
  const auto sizes = [](int64_t rows) {
    return Json::array({{{"as_int", rows}}, {{"as_int", 4}}});
  };
  meta["strides"] = sizes(0);
  meta["strides"][1]["as_int"] = 1;
  for (const int64_t rows : {int64_t{1} << 40, int64_t{50}}) {
    meta["sizes"] = sizes(rows);
    made.Write(ArchivePath());
    const auto archive = Pt2Archive::Open(ArchivePath());
    ASSERT_TRUE(archive.ok()) << archive.status();
    const auto values = archive->Floats("embed.weight");
    if (rows == 50) {
      EXPECT_EQ(values->size(), 200u);
    } else {
      EXPECT_EQ(Says(values.status()),
                "tensor 'embed.weight': has 4398046511104 elements in a storage of 80 bytes");
    }
  }
}

// Attention over queries, keys and values of one product, with a computed mask.
TorchArchive OneAttention(bool causal) {
  TorchArchive made;
  const std::string table = made.Param("embed.weight", {5, 4}), tokens = made.Input("ids", {1, 3});
  std::string x = made.Node("embedding.default", {{"weight", table}, {"indices", tokens}}, "x",
                            {1, 3, 4}, "embed");
  const std::string row = made.Node("arange.default", {{"end", TorchInt(3)}}, "row", {3}, "", 5);
  const std::string column = made.Node("unsqueeze.default", {{"self", row}, {"dim", TorchInt(1)}},
                                       "column", {3, 1}, "", 5);
  const std::string mask = made.Node(causal ? "le.Tensor" : "lt.Tensor",
                                     {{"self", row}, {"other", column}}, "mask", {3, 3}, "", 12);
  for (const std::string layer : {"h.0", "h.1"}) {
    const std::string weight = made.Param(layer + ".qkv.weight", {12, 4});
    const auto node = [&](const std::string& op, const TorchInputs& inputs, const std::string& name,
                          const std::vector<int64_t>& sizes) {
      return made.Node(op, inputs, layer + "_" + name, sizes, layer);
    };
    const std::string qkv =
        node("linear.default", {{"input", x}, {"weight", weight}}, "qkv", {1, 3, 12});
    std::vector<std::string> heads;
    for (int64_t part = 0; part < 3; ++part) {
      const std::string name = absl::StrCat("part", part);
      const std::string columns = node("slice.Tensor",
                                       {{"self", qkv},
                                        {"dim", TorchInt(-1)},
                                        {"start", TorchInt(4 * part)},
                                        {"end", TorchInt(4 * part + 4)}},
                                       name, {1, 3, 4});
      const std::string view =
          node("view.default", {{"self", columns}, {"size", TorchInts({1, 3, 2, 2})}},
               name + "_view", {1, 3, 2, 2});
      heads.push_back(node("transpose.int",
                           {{"self", view}, {"dim0", TorchInt(1)}, {"dim1", TorchInt(2)}},
                           name + "_heads", {1, 2, 3, 2}));
    }
    const std::string attention =
        node("scaled_dot_product_attention.default",
             {{"query", heads[0]}, {"key", heads[1]}, {"value", heads[2]}, {"attn_mask", mask}},
             "attention", {1, 2, 3, 2});
    const std::string back =
        node("transpose.int", {{"self", attention}, {"dim0", TorchInt(1)}, {"dim1", TorchInt(2)}},
             "back", {1, 3, 2, 2});
    const std::string joined = node(
        "reshape.default", {{"self", back}, {"shape", TorchInts({1, 3, 4})}}, "joined", {1, 3, 4});
    x = node("add.Tensor", {{"self", x}, {"other", joined}}, "sum", {1, 3, 4});
  }
  const std::string head = made.Param("head.weight", {5, 4});
  made.Output(
      made.Node("linear.default", {{"input", x}, {"weight", head}}, "logits", {1, 3, 5}, "head"));
  return made;
}

// The graph of a model that is read.
std::string GraphText(const absl::StatusOr<AnyShape>& shape) {
  if (!shape.ok()) return std::string(shape.status().message());
  return PrintGraph(std::get<RaisedShape>(shape->family).model->graph);
}

TEST(TorchModelTest, FindsAttention) {
  const auto shape = ReadBack(OneAttention(true));
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_THAT(PrintGraph(std::get<RaisedShape>(shape->family).model->graph),
              HasSubstr("= attention h.0 {heads=2 kv_heads=2}\n"));
  // Without a causal mask there is no op of ours for it.
  EXPECT_THAT(GraphText(ReadBack(OneAttention(false))),
              AllOf(HasSubstr("= softmax h.0"), Not(HasSubstr("= attention "))));
}

// Attention that differs from a causal one, each in one place, is raised op by op, or refused.
TEST(TorchModelTest, TellsOtherAttention) {
  const auto node_of = [](TorchArchive& made, const std::string& name) -> Json& {
    for (Json& node : made.program["graph_module"]["graph"]["nodes"]) {
      if (node["name"] == name) return node;
    }
    return made.program;
  };
  const auto sizes_of = [](TorchArchive& made, const std::string& name) -> Json& {
    return made.program["graph_module"]["graph"]["tensor_values"][name]["sizes"];
  };
  const auto give = [&](const char* argument, const Json& value) {
    return [=](TorchArchive& made) {
      node_of(made, "h.0_attention")["inputs"].push_back({{"name", argument}, {"arg", value}});
    };
  };
  const WrongFile cases[] = {
      {"dropout", give("dropout_p", TorchFloat(0.1)), "mask_key {p=0.1 site=0}\n"},
      {"dropout of too much", give("dropout_p", TorchFloat(1.1)),
       "dropout of 1.1, which is no probability from 0 to 1"},
      {"a scale", give("scale", TorchFloat(0.3)), "= softmax h.0"},
      {"a scale of 0", give("scale", TorchFloat(0)), "its scale is 0"},
      {"no default", give("kernel", TorchInt(1)), "its argument 'kernel' is not read"},
      {"a mask that hides nothing",
       [&](TorchArchive& made) {
         Json& mask = node_of(made, "mask");
         mask["target"] = "torch.ops.aten.ones.default";
         mask["inputs"] = Json::array({Json{{"name", "size"}, {"arg", TorchInts({1, 1})}}});
         sizes_of(made, "mask") = Json::array({Json{{"as_int", 1}}, Json{{"as_int", 1}}});
       },
       "= softmax h.0"},
      {"sequences that are none of the tokens'",
       [&](TorchArchive& made) {
         for (const char* const part : {"part0_view", "part1_view", "part2_view"})
           sizes_of(made, absl::StrCat("h.0_", part))[0]["as_int"] = 2;
         for (const char* const part : {"part0_heads", "part1_heads", "part2_heads"})
           sizes_of(made, absl::StrCat("h.0_", part))[0]["as_int"] = 2;
       },
       "reshape to f32[2,3,2,2] wants as many numbers, seen: f32[1,3,4]"},
      {"keys of more positions",
       [&](TorchArchive& made) { sizes_of(made, "h.0_part1_heads")[2]["as_int"] = 6; },
       "its result has other sizes than the program's; node 'h.0_part1_heads'"},
      {"columns that overlap",
       [&](TorchArchive& made) { node_of(made, "h.0_part1")["inputs"][2]["arg"] = TorchInt(2); },
       "= take h.0"},
  };
  for (const WrongFile& one : cases) {
    TorchArchive made = OneAttention(true);
    one.change(made);
    EXPECT_THAT(GraphText(ReadBack(made)),
                AllOf(HasSubstr(one.says), Not(HasSubstr("= attention "))))
        << one.what;
  }
}

// Layers may give activations of several widths.
TEST(TorchModelTest, FindsLayersOfSeveralWidths) {
  TorchArchive made;
  const std::string table = made.Param("embed.weight", {5, 4}), tokens = made.Input("ids", {1, 3});
  std::string x = made.Node("embedding.default", {{"weight", table}, {"indices", tokens}}, "x",
                            {1, 3, 4}, "embed");
  const int64_t widths[] = {4, 4, 6, 4, 4};
  for (int layer = 0; layer < 4; ++layer) {
    const std::string name = absl::StrCat("blocks.", layer);
    const std::string weight = made.Param(name + ".weight", {widths[layer + 1], widths[layer]});
    x = made.Node("linear.default", {{"input", x}, {"weight", weight}}, name + "_linear",
                  {1, 3, widths[layer + 1]}, name);
  }
  const std::string head = made.Param("head.weight", {5, 4});
  made.Output(
      made.Node("linear.default", {{"input", x}, {"weight", head}}, "logits", {1, 3, 5}, "head"));
  const auto shape = ReadBack(made);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(std::get<RaisedShape>(shape->family).model->layers,
            (std::vector<std::string>{"blocks.0", "blocks.1", "blocks.2", "blocks.3"}));
}

// A list of products and activations, and products written out: a layer is a product and what
// follows it. The last product of a list that is the whole model is its head.
TEST(TorchModelTest, ActivationsAreNoLayers) {
  const auto layers = [](const std::vector<std::string>& products,
                         const std::vector<std::string>& activations, const std::string& end) {
    TorchArchive made;
    const std::string table = made.Param("embed.weight", {5, 4}),
                      tokens = made.Input("ids", {1, 3});
    std::string x = made.Node("embedding.default", {{"weight", table}, {"indices", tokens}}, "x",
                              {1, 3, 4}, "embed");
    for (size_t i = 0; i < products.size(); ++i) {
      const std::string weight = made.Param(products[i] + ".weight", {4, 4});
      x = made.Node("linear.default", {{"input", x}, {"weight", weight}},
                    absl::StrCat("linear_", i), {1, 3, 4}, products[i]);
      x = made.Node("relu.default", {{"self", x}}, absl::StrCat("relu_", i), {1, 3, 4},
                    activations[i]);
    }
    const std::string head = made.Param(end + ".weight", {5, 4});
    made.Output(
        made.Node("linear.default", {{"input", x}, {"weight", head}}, "logits", {1, 3, 5}, end));
    const auto shape = ReadBack(made);
    EXPECT_TRUE(shape.ok()) << shape.status();
    return shape.ok() ? std::get<RaisedShape>(shape->family).model->layers
                      : std::vector<std::string>();
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(layers({"mlp.0", "mlp.2", "mlp.4"}, {"mlp.1", "mlp.3", "mlp.5"}, "head"),
            (Names{"mlp.0", "mlp.2", "mlp.4"}));
  EXPECT_EQ(layers({"mlp.0", "mlp.2"}, {"mlp.1", "mlp.3"}, "mlp.4"), (Names{"mlp.0", "mlp.2"}));
  EXPECT_EQ(layers({"fcs.0", "fcs.1"}, {"acts.0", "acts.1"}, "head"), (Names{"fcs.0", "fcs.1"}));
  EXPECT_EQ(layers({"fc1", "fc2"}, {"", ""}, "head"), (Names{"fc1", "fc2"}));
  EXPECT_EQ(layers({"blocks.0.in.0", "blocks.0.in.1", "blocks.1.in.0", "blocks.1.in.1"},
                   {"blocks.0", "blocks.0", "blocks.1", "blocks.1"}, "head"),
            (Names{"blocks.0", "blocks.1"}));
}

TEST(TorchModelTest, CutsAtModules) {
  const auto shape = ReadBack(TwoLayers());
  ASSERT_TRUE(shape.ok()) << shape.status();
  const auto& raised = std::get<RaisedShape>(shape->family);
  const auto cut = CutAtModules(raised, {"blocks.1", "norm"});
  ASSERT_TRUE(cut.ok()) << cut.status();
  const auto stages = BuildRaisedStages(*cut, {0, 1, 0});
  ASSERT_TRUE(stages.ok()) << stages.status();
  EXPECT_EQ((*stages)[0].params.size(), 2u);
  EXPECT_EQ((*stages)[1].params.front().name, "blocks.1.fc.weight");
  EXPECT_EQ((*stages)[2].params.front().name, "norm.weight");
  const auto says = [&](const std::vector<std::string>& modules) {
    return std::string(CutAtModules(raised, modules).status().message());
  };
  EXPECT_EQ(says({"blocks"}), "");
  EXPECT_EQ(says({"block"}), "the model has no module 'block'");
  EXPECT_EQ(says({"embed"}), "no stage can begin with module 'embed': no activation goes there");
  EXPECT_EQ(says({"norm", "blocks.1"}),
            "module 'blocks.1' does not come after the one named before it");
}

struct RealModel {
  const char* file;
  // From torch: the sum of the loss over eight tokens, and the norm of its gradients.
  double loss, norm;
};

// Files written by torch (tests/golden/torch): losses and gradients are torch's.
TEST(TorchModelTest, AgreesWithTorch) {
  for (const RealModel& real : {RealModel{"gpt2", 21.99510383605957, 17.249069895696586},
                                RealModel{"llama", 22.297367095947266, 11.672402116692057}}) {
    const std::string path =
        absl::StrCat(STRINGLINE_SOURCE_DIR "/tests/golden/torch/", real.file, ".pt2");
    const auto read = ReadExportedShape(path, 0);
    ASSERT_TRUE(read.ok()) << read.status();
    const auto stages = BuildModelStages(read->WithMicrobatch(1), {2});
    ASSERT_TRUE(stages.ok()) << stages.status();
    const StageProgram& model = stages->front();
    Reference reference(model, 1);
    ParamPlaces places;
    for (size_t p = 0; p < model.params.size(); ++p) {
      places.Add(model.params[p], reference.param(static_cast<int>(p)));
    }
    const absl::Status loaded = LoadExportedParams(path, *read, places.all());
    ASSERT_TRUE(loaded.ok()) << loaded;
    std::vector<int32_t> tokens, targets;
    for (int i = 0; i < 8; ++i) {
      tokens.push_back((3 * i + 1) % 16);
      targets.push_back((3 * i + 4) % 16);
    }
    EXPECT_NEAR(reference.RunMicrobatch(tokens, targets), real.loss, 1e-5 * real.loss);
    std::map<std::string, std::vector<double>> grads;
    for (size_t p = 0; p < model.params.size(); ++p) {
      const Param& param = model.params[p];
      std::vector<double>& sum = grads[param.tied_to.empty() ? param.name : param.tied_to];
      const auto grad = reference.grad(static_cast<int>(p));
      sum.resize(grad.size());
      for (size_t i = 0; i < grad.size(); ++i) sum[i] += grad[i];
    }
    double squares = 0;
    for (const auto& [name, values] : grads) {
      for (const double value : values) squares += value * value;
    }
    EXPECT_NEAR(std::sqrt(squares), real.norm, 1e-5 * real.norm) << real.file;
  }
}

// A rotation by other angles is raised op by op, not taken for ours.
TEST(TorchModelTest, LooksAtAngles) {
  const auto config = Pt2Archive::Open(STRINGLINE_SOURCE_DIR "/tests/golden/torch/llama.pt2");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto text = config->Program();
  ASSERT_TRUE(text.ok()) << text.status();
  const auto program = ReadTorchProgram(*text);
  ASSERT_TRUE(program.ok()) << program.status();
  TorchProgram other = *program;
  for (TorchNode& node : other.nodes) {
    if (node.op == "cos") node.op = "exp";
  }
  const auto raised = RaiseTorchProgram(other, *config);
  ASSERT_TRUE(raised.ok()) << raised.status();
  EXPECT_THAT(PrintGraph(raised->graph),
              AllOf(HasSubstr("= softmax "), Not(HasSubstr("= rotary "))));
}

// Memory of two parameters, in whichever way it is shared.
TEST(TorchModelTest, RefusesSharedMemory) {
  TorchArchive made = TwoLayers();
  Json& second = made.weights["config"]["blocks.1.fc.weight"];
  second["path_name"] = made.weights["config"]["blocks.0.fc.weight"]["path_name"];
  EXPECT_EQ(Says(ReadBack(made).status()),
            "parameters 'blocks.0.fc.weight' and 'blocks.1.fc.weight' are two, with a gradient "
            "each, in one memory: give each its own, or make them one");
}

// A node with another gradient in torch is refused where the node stands.
TEST(TorchModelTest, RefusesOtherGradients) {
  const auto says = [](const std::function<void(TorchArchive&)>& change) {
    TorchArchive made = TwoLayers();
    change(made);
    return Says(ReadBack(made).status());
  };
  const std::string place =
      "; node 'blocks.1_linear', module 'blocks.1.fc', /home/me/model.py:7 'blocks.1_linear = "
      "something()'";
  EXPECT_EQ(says([](TorchArchive& made) {
              Node(made, 3)["target"] = "torch.ops.aten.detach.default";
              Node(made, 3)["inputs"] =
                  Json::array({Json{{"name", "self"}, {"arg", TorchTensorInput("blocks.0_add")}}});
            }),
            "aten.detach.default is not known here: it stops gradients" + place);
  EXPECT_EQ(says([](TorchArchive& made) {
              made.program["graph_module"]["graph"]["tensor_values"]["blocks.1_linear"]["dtype"] =
                  13;
            }),
            "aten.linear.default is not known here: its result is bfloat16, narrower than every "
            "parameter" +
                place);
  EXPECT_EQ(
      says([](TorchArchive& made) {
        Node(made, 0)["inputs"].push_back({{"name", "sparse"}, {"arg", Json{{"as_bool", true}}}});
      }),
      "aten.embedding.default is not known here: its 'sparse' is True, and only False is "
      "known; node 'embedding', module 'embed', /home/me/model.py:7 'embedding = "
      "something()'");
}

TEST(TorchModelTest, RunFilesCutIt) {
  TwoLayers().Write(ArchivePath());
  const std::string file = ArchivePath() + ".yaml";
  const auto read = [&](const std::string& more) {
    std::ofstream(file) << "schedule: {file: x.sched, P: 2, M: 2}\nmodel: {export: "
                        << ArchivePath() << more << "}\ndata: {tokens: t, microbatch: 4}\n"
                        << "train: {steps: 1, learning_rate: 0}\n";
    return ReadRunConfig(file);
  };
  const auto plain = read(", context: 2");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->model_export, std::filesystem::path(ArchivePath()).lexically_normal());
  EXPECT_TRUE(plain->layers_per_stage.empty());
  EXPECT_TRUE(plain->shape.layers() == 2 && plain->shape.tokens() == 8);
  EXPECT_EQ(read(", split: [0, 2]")->layers_per_stage, (std::vector<int>{0, 2}));
  const auto named = read(", split: [blocks.1, norm]");
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->layers_per_stage, (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(named->shape.layers(), 1);
  EXPECT_EQ(read(", split: [blocks.7]").status().message(),
            file + ":2: model.split: the model has no module 'blocks.7'");
  EXPECT_EQ(read(", split: blocks.1")->layers_per_stage, (std::vector<int>{0, 0}));
  EXPECT_TRUE(read(", split: balanced")->split_balanced);
  EXPECT_EQ(read(", layers: 2").status().message(), file + ":2: unknown key 'model.layers'");
  EXPECT_EQ(read(", context: 9").status().message(),
            file + ":2: a context of 9 tokens, of a program with 3");
}

// The settings of a run name its program, its context and its split.
TEST(TorchModelTest, SettingsTellProgramsApart) {
  const auto settings_of = [](const TorchArchive& made, bool balanced) {
    RunConfig config;
    config.shape = ReadBack(made).value();
    config.split_balanced = balanced;
    std::map<std::string, std::string> settings;
    for (const auto& [key, value] : SettingsOf(config)) settings[key] = value;
    return settings;
  };
  const auto one = settings_of(TwoLayers(), false), other = settings_of(TwoLayers(1e-6), true);
  EXPECT_EQ(one.at("model.kind"), "export");
  EXPECT_EQ(one.count("model.context"), 1u);
  EXPECT_EQ(one.at("model.layers"), other.at("model.layers"));
  EXPECT_NE(one.at("model.split"), other.at("model.split"));
  EXPECT_NE(one.at("model.program"), other.at("model.program"));
}

// Under every name that the program has for a tensor; any of them is read.
TEST(TorchModelTest, SavesUnderItsOwnNames) {
  TorchArchive made = TwoLayers();
  made.Alias("head.weight", "embed.weight");
  const auto shape = ReadBack(made);
  ASSERT_TRUE(shape.ok()) << shape.status();
  const auto stages = BuildModelStages(*shape, {2});
  ASSERT_TRUE(stages.ok()) << stages.status();
  EXPECT_EQ(stages->front().params.back().name, "head.weight");
  const auto places_in = [&](Reference& reference) {
    ParamPlaces places;
    for (size_t p = 0; p < stages->front().params.size(); ++p) {
      places.Add(stages->front().params[p], reference.param(static_cast<int>(p)));
    }
    return places;
  };
  Reference first(stages->front(), 1), second(stages->front(), 2);
  const std::string folder = ArchivePath() + ".saved";
  ASSERT_TRUE(SaveModelFolder(folder, *shape, 7, places_in(first).all()).ok());
  {
    const auto file = TensorFile::Open(ParamsFile(folder));
    ASSERT_TRUE(file.ok()) << file.status();
    std::vector<std::string> names;
    for (const StoredTensor& tensor : file->header().tensors) names.push_back(tensor.name);
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, (std::vector<std::string>{"blocks.0.fc.weight", "blocks.1.fc.weight",
                                               "embed.weight", "head.weight", "norm.weight"}));
  }
  const absl::Status loaded = LoadModelFolder(folder, *shape, places_in(second).all());
  ASSERT_TRUE(loaded.ok()) << loaded;
  for (int p = 0; p < 5; ++p) {
    EXPECT_THAT(second.param(p), testing::ElementsAreArray(first.param(p))) << p;
  }
}

// A program with any content is read or refused.
TEST(TorchModelTest, NothingInAProgramCrashes) {
  std::random_device device;
  const uint32_t seed = device();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  const TorchArchive whole = OneAttention(true);
  const std::string text = whole.program.dump();
  int read = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string damaged = text;
    for (int n = 0; n < 1 + i % 3; ++n) {
      const char* const other = "0123456789\"{}[]:,-aqxst_.";
      damaged[random() % damaged.size()] = other[random() % std::strlen(other)];
    }
    TorchArchive made = whole;
    made.program = Json::parse(damaged, nullptr, /*allow_exceptions=*/false);
    if (made.program.is_discarded()) continue;
    const auto shape = ReadBack(made);
    if (!shape.ok()) continue;
    ++read;
    const AnyShape small = shape->WithMicrobatch(1);
    if (CheckShape(small).ok()) {
      BuildModelStages(small, {small.layers()}).status().IgnoreError();
    }
  }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace stringline
