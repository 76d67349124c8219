// Parameters saved by one run and loaded by another.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/model_folder.h"
#include "executor/checkpoint/tensor_file.h"
#include "executor/run/train.h"
#include "gtest/gtest.h"
#include "schedlang/base/source.h"
#include "tests/executor/plans.h"
#include "tests/executor/small_run.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

std::string ReadWhole(const std::string& path) {
  const auto bytes = ReadBytes(path, 1 << 24);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.value_or("");
}

void WriteWhole(const std::string& path, const std::string& bytes) {
  FILE* const file = fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr) << path;
  EXPECT_EQ(fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
  EXPECT_EQ(fclose(file), 0);
}

// A folder for each test, removed afterwards.
class Params : public testing::Test {
 protected:
  Params() { std::filesystem::create_directories(folder_); }
  ~Params() override { std::filesystem::remove_all(folder_); }
  const std::string folder_ = absl::StrCat(testing::TempDir(), "/stringline-params-", getpid());
  const std::string saved_ = folder_ + "/saved";
  const std::string file_ = ParamsFile(saved_);
};

absl::Status Load(const std::string& folder, const RunConfig& config, Trainer& trainer) {
  return LoadModelFolder(folder, config.shape, PlacesOf(trainer).all());
}
absl::Status Save(const std::string& folder, const RunConfig& config, int64_t step,
                  Trainer& trainer) {
  return SaveModelFolder(folder, config.shape, step, PlacesOf(trainer).all());
}

// A run that loads the parameters of `from`, if given, and saves its own to `to`, if given.
absl::StatusOr<TrainResult> RunWith(const char* schedule, int p, const RunConfig& config,
                                    const std::string& from, const std::string& to,
                                    const std::string& text = Corpus()) {
  const std::optional<Plan> plan = LibraryPlan(schedule, p, 8);
  SL_CHECK(plan.has_value()) << schedule;
  TrainHooks hooks;
  hooks.start = [&](Trainer& trainer) {
    return from.empty() ? absl::OkStatus() : Load(from, config, trainer);
  };
  hooks.end = [&](int64_t step, Trainer& trainer) {
    return to.empty() ? absl::OkStatus() : Save(to, config, step, trainer);
  };
  return Train(config, *plan, text, hooks);
}

struct Cut {
  const char* schedule;
  int p;
};
constexpr Cut kCuts[] = {
    {"gpipe", 1}, {"1f1b", 4}, {"interleaved", 2}, {"zb_v", 4}, {"dualpipe", 4}};

TEST_F(Params, EveryScheduleAndCutLoadsTheSameParameters) {
  ASSERT_TRUE(RunWith("1f1b", 2, SmallRun(4), "", saved_).ok());
  const std::string saved = ReadWhole(file_);
  // With a learning rate of zero a run saves the parameters that it loaded, in bf16 too.
  RunConfig still = SmallRun(1);
  still.optimizer.learning_rate = 0;
  std::vector<double> losses;
  for (const Cut& cut : kCuts) {
    const std::string again = folder_ + "/again";
    const auto result = RunWith(cut.schedule, cut.p, still, saved_, again);
    ASSERT_TRUE(result.ok()) << cut.schedule << ": " << result.status();
    losses.push_back(result->losses_nats[0]);
    const auto header = TensorFile::Open(ParamsFile(again));
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->header().tensors.front().name, "transformer.wte.weight");
    const std::string bytes = ReadWhole(ParamsFile(again));
    ASSERT_EQ(bytes.size(), saved.size()) << cut.schedule;
    // All but the count of steps in the metadata.
    const size_t header_bytes = *HeaderBytes(bytes, bytes.size()) + 8;
    EXPECT_EQ(bytes.substr(header_bytes), saved.substr(header_bytes)) << cut.schedule;
  }
  still.shape.dtype = DType::kBF16;
  const std::string again = folder_ + "/again";
  const auto narrow = RunWith("1f1b", 4, still, saved_, again);
  ASSERT_TRUE(narrow.ok()) << narrow.status();
  EXPECT_NE(narrow->losses_nats[0], losses[0]);
  EXPECT_NEAR(narrow->losses_nats[0], losses[0], 0.01 * losses[0]);
  const std::string bytes = ReadWhole(ParamsFile(again));
  const size_t header_bytes = *HeaderBytes(bytes, bytes.size()) + 8;
  EXPECT_EQ(bytes.substr(header_bytes), saved.substr(header_bytes));
  for (size_t i = 0; i + 1 < losses.size(); ++i) EXPECT_EQ(losses[i], losses[0]) << i;
  EXPECT_NEAR(losses.back(), losses[0], 1e-5);  // two pipes add up in another order
}

// The working copies are made from the loaded parameters in full: the loss goes on, bit by bit.
TEST_F(Params, TheLossOfABf16RunGoesOnWhereItStood) {
  const std::string window = Corpus().substr(0, SmallRun(1).shape.context() + 1);
  RunConfig config = SmallRun(1);
  config.shape.dtype = DType::kBF16;
  config.optimizer.learning_rate = 1e-3;
  const auto first = RunWith("1f1b", 2, config, "", saved_, window);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = RunWith("zb_v", 2, config, saved_, "", window);
  ASSERT_TRUE(second.ok()) << second.status();
  config.steps = 2;
  config.final_rate = 1e-3;
  const auto both = RunWith("1f1b", 2, config, "", "", window);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->losses_nats[0], first->losses_nats[0]);
  EXPECT_EQ(both->losses_nats[1], second->losses_nats[0]);
  EXPECT_LT(second->losses_nats[0], first->losses_nats[0]);
}

// A text of one window: the data of all steps are equal, and the loss depends on the parameters
// alone.
TEST_F(Params, TheLossGoesOnWhereItStood) {
  const std::string window = Corpus().substr(0, SmallRun(1).shape.context() + 1);
  const auto whole = RunWith("1f1b", 2, SmallRun(5), "", "", window);
  ASSERT_TRUE(whole.ok()) << whole.status();
  RunConfig four = SmallRun(5);
  TrainHooks hooks;
  int64_t done = 0;
  hooks.after_step = [&](const TrainStep& step, Trainer&) {
    done = step.step;
    return absl::OkStatus();
  };
  hooks.stop = [&] { return done == 4; };
  hooks.end = [&](int64_t step, Trainer& trainer) { return Save(saved_, four, step, trainer); };
  const auto begun = Train(four, LibraryPlan("1f1b", 2, 8).value(), window, hooks);
  ASSERT_TRUE(begun.ok()) << begun.status();
  ASSERT_TRUE(begun->stopped);
  for (const Cut& cut : kCuts) {
    const auto loaded = RunWith(cut.schedule, cut.p, SmallRun(1), saved_, "", window);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    if (std::string(cut.schedule) == "dualpipe") {
      EXPECT_NEAR(loaded->losses_nats[0], whole->losses_nats[4], 1e-5);
    } else {
      EXPECT_EQ(loaded->losses_nats[0], whole->losses_nats[4]) << cut.schedule;
    }
  }
}

TEST_F(Params, NamesAndShapesAreThoseOfTheModel) {
  ASSERT_TRUE(RunWith("1f1b", 2, SmallRun(4), "", saved_).ok());
  const auto opened = TensorFile::Open(file_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->header().metadata.at("steps"), "4");
  EXPECT_EQ(opened->header().metadata.at("format"), "pt");
  uint64_t elements = 0;
  for (const StoredTensor& tensor : opened->header().tensors) {
    EXPECT_EQ(tensor.dtype, "F32");
    elements += (tensor.end - tensor.begin) / 4;
    if (tensor.name == "transformer.h.3.attn.c_attn.weight") {
      EXPECT_EQ(tensor.shape, (std::vector<uint64_t>{16, 48}));
    }
  }
  EXPECT_EQ(static_cast<int64_t>(elements), CountParams(SmallRun(4).shape));
}

struct OtherModel {
  int GptShape::*size;
  int value;
  const char* says;
};

TEST_F(Params, AnotherModelsFileIsRefused) {
  ASSERT_TRUE(RunWith("1f1b", 2, SmallRun(1), "", saved_).ok());
  const OtherModel models[] = {{&GptShape::layers, 4, "with layers '8'; the run file's has 4"},
                               {&GptShape::width, 32, "with width '16'; the run file's has 32"},
                               {&GptShape::heads, 4, "with heads '2'; the run file's has 4"}};
  for (const OtherModel& model : models) {
    RunConfig config = SmallRun(1);
    GptOf(config).*model.size = model.value;
    const absl::Status status = RunWith("1f1b", 2, config, saved_, "").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(),
              absl::StrCat(saved_, "/config.json: the parameters of a model ", model.says));
  }
}

// A good file with a changed header; the data stay. {} stands for the path.
struct BadFile {
  std::function<void(TensorHeader*)> change;
  const char* says;
};

TEST_F(Params, TensorsThatDoNotFitAreNamed) {
  ASSERT_TRUE(RunWith("1f1b", 2, SmallRun(1), "", saved_).ok());
  const std::string good = ReadWhole(file_);
  const size_t data = *HeaderBytes(good, good.size()) + 8;
  const TensorHeader header = *ParseTensorHeader(good.substr(8, data - 8), good.size() - data);
  const BadFile bad[] = {
      {[](TensorHeader* h) { h->tensors[0].name = "embedding.weight"; },
       "tensor 'transformer.wte.weight' is missing"},
      {[](TensorHeader* h) {
         h->tensors[0].shape = {16, 256};
       },
       "tensor 'transformer.wte.weight' has shape [16, 256]; the model's has [256, 16]"},
      {[](TensorHeader* h) { h->tensors[1].dtype = "I32"; },
       "tensor 'transformer.wpe.weight' has dtype I32; F32, BF16 and F16 are read"},
      {[](TensorHeader* h) {
         h->tensors.push_back({"more", "F32", {0}, 0, 0});
       },
       "tensor 'more' is not a parameter of this model"},
  };
  for (const BadFile& one : bad) {
    TensorHeader changed = header;
    changed.metadata.clear();
    one.change(&changed);
    WriteWhole(file_, PrintTensorHeader(changed) + good.substr(data));
    EXPECT_EQ(RunWith("1f1b", 2, SmallRun(1), saved_, "").status().message(),
              absl::StrCat(file_, ": ", one.says));
  }
  for (const size_t bytes : {size_t{0}, size_t{5}, data / 2, good.size() - 1}) {
    WriteWhole(file_, good.substr(0, bytes));
    const absl::Status status = RunWith("1f1b", 2, SmallRun(1), saved_, "").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bytes;
    EXPECT_EQ(status.message().find(absl::StrCat(file_, ": ")), 0u) << status;
  }
  std::string not_finite = good;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  not_finite.replace(data + 400, 4, reinterpret_cast<const char*>(&nan), 4);
  WriteWhole(file_, not_finite);
  EXPECT_EQ(
      RunWith("1f1b", 2, SmallRun(1), saved_, "").status().message(),
      absl::StrCat(file_, ": tensor 'transformer.wte.weight' holds a value that is not finite"));
  EXPECT_EQ(RunWith("1f1b", 2, SmallRun(1), "missing/x", "").status().code(),
            absl::StatusCode::kNotFound);
}

// A file written by earlier versions, without a config: our own names and layouts.
TEST_F(Params, FilesOfEarlierVersionsAreLoaded) {
  const RunConfig config = SmallRun(1);
  std::string bytes;
  TensorHeader header;
  header.metadata = {{"format", "pt"},
                     {"model", "stringline gpt"},
                     {"layers", "8"},
                     {"width", "16"},
                     {"heads", "2"}};
  std::vector<std::vector<float>> values;
  TrainHooks hooks;
  hooks.start = [&](Trainer& trainer) {
    for (size_t s = 0; s < trainer.programs().size(); ++s) {
      const std::vector<Param>& params = trainer.programs()[s].params;
      for (size_t i = 0; i < params.size(); ++i) {
        const absl::Span<float> now =
            trainer.param(StageId(static_cast<int32_t>(s)), static_cast<int>(i));
        std::vector<float>& kept = values.emplace_back(now.begin(), now.end());
        for (float& value : kept) value += 0.5f;
        const size_t begin = bytes.size();
        bytes.append(reinterpret_cast<const char*>(kept.data()), 4 * kept.size());
        const std::vector<int64_t>& shape = params[i].type.shape;
        header.tensors.push_back(
            {params[i].name, "F32", {shape.begin(), shape.end()}, begin, bytes.size()});
      }
    }
    std::filesystem::create_directories(saved_);
    WriteWhole(file_, PrintTensorHeader(header) + bytes);
    const absl::Status loaded = Load(saved_, config, trainer);
    if (!loaded.ok()) return loaded;
    size_t next = 0;
    for (size_t s = 0; s < trainer.programs().size(); ++s) {
      for (size_t i = 0; i < trainer.programs()[s].params.size(); ++i, ++next) {
        const absl::Span<float> now =
            trainer.param(StageId(static_cast<int32_t>(s)), static_cast<int>(i));
        EXPECT_TRUE(std::equal(now.begin(), now.end(), values[next].begin()));
      }
    }
    RunConfig other = SmallRun(1);
    GptOf(other).heads = 4;
    EXPECT_EQ(Load(saved_, other, trainer).message(),
              absl::StrCat(file_,
                           ": the parameters of a model with heads '2'; the run file's has "
                           "4"));
    return absl::OkStatus();
  };
  const absl::Status status =
      Train(config, LibraryPlan("1f1b", 2, 8).value(), Corpus(), hooks).status();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(Params, BadNumbersAreNotWrittenOverGoodOnes) {
  ASSERT_TRUE(RunWith("1f1b", 2, SmallRun(2), "", saved_).ok());
  const std::string good = ReadWhole(file_);
  TrainHooks hooks;
  hooks.end = [&](int64_t step, Trainer& trainer) {
    trainer.param(StageId(1), 0)[3] = std::numeric_limits<float>::infinity();
    return Save(saved_, SmallRun(2), step, trainer);
  };
  const Plan plan = LibraryPlan("1f1b", 2, 8).value();
  const absl::Status status = Train(SmallRun(2), plan, Corpus(), hooks).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  EXPECT_NE(status.message().find("not finite"), absl::string_view::npos) << status;
  EXPECT_EQ(ReadWhole(file_), good);
}

// The parameters that each coordinate must hold, given those of the whole model on one coordinate.
void ExpectPieces(Trainer& trainer, const std::map<std::string, std::vector<float>>& whole) {
  const Mesh& mesh = trainer.mesh();
  for (int c = 0; c < mesh.coordinates(); ++c) {
    for (size_t s = 0; s < trainer.programs().size(); ++s) {
      for (size_t i = 0; i < trainer.programs()[s].params.size(); ++i) {
        const Param& param = trainer.programs()[s].params[i];
        absl::Span<const float> want = whole.at(param.name);
        const absl::Span<const float> got =
            trainer.param(StageId(static_cast<int32_t>(s)), static_cast<int>(i), c);
        if (param.expert) want = want.subspan(mesh.expert_of(c) * got.size(), got.size());
        EXPECT_EQ(got, want) << param.name << " of coordinate " << c;
      }
    }
  }
}

struct MeshAndCut {
  Mesh mesh;
  const char* schedule;
  int p;
};

// Experts divided between two ranks are whole in the file: every mesh, schedule and cut loads them
// to the last bit, on all coordinates, and writes the same bytes again.
TEST_F(Params, EveryMeshLoadsTheSameParameters) {
  RunConfig config = SmallRun(3);
  config.shape = TinyModel(TinyFamily::kMoe, 2);
  std::get<DecoderShape>(config.shape.family).vocabulary = 256;
  config.mesh = {.expert = 2};
  const std::string window = Corpus().substr(0, config.shape.context() + 1);
  TrainHooks hooks;
  std::map<std::string, std::vector<float>> whole;
  hooks.end = [&](int64_t step, Trainer& trainer) {
    const std::vector<ParamPlace> places = PlacesOf(trainer).all();
    for (const ParamPlace& place : places) {
      std::vector<float>& values = whole[place.param.name];
      for (const auto& piece : place.pieces) {
        const absl::Span<const float> copy = piece.copies.front();
        values.insert(values.end(), copy.begin(), copy.end());
      }
      EXPECT_EQ(place.pieces.size(), place.param.expert ? 2u : 1u) << place.param.name;
    }
    ExpectPieces(trainer, whole);
    return Save(saved_, config, step, trainer);
  };
  const Plan plan = WithSums(LibraryPlan("1f1b", 2, 8).value(), config.mesh);
  ASSERT_TRUE(Train(config, plan, window, hooks).ok());
  EXPECT_EQ(whole.at("layers.1.experts.down.weight").size(), 8u * 16 * 12);
  const std::string saved = ReadWhole(file_);
  const size_t header_bytes = *HeaderBytes(saved, saved.size()) + 8;

  const MeshAndCut others[] = {{{}, "gpipe", 1},
                               {{.data = 2}, "1f1b", 2},
                               {{.expert = 4}, "1f1b", 2},
                               {{.data = 2, .expert = 2}, "gpipe", 2},
                               {{.expert = 2}, "dualpipe", 2},
                               {{.expert = 2}, "1f1b", 2}};
  std::vector<double> losses;
  for (const MeshAndCut& other : others) {
    SCOPED_TRACE(testing::Message() << other.schedule << " P=" << other.p << " data="
                                    << other.mesh.data << " expert=" << other.mesh.expert);
    RunConfig still = config;
    still.steps = 1;
    still.seed = 99;
    still.mesh = other.mesh;
    hooks.start = [&](Trainer& trainer) {
      const absl::Status status = Load(saved_, still, trainer);
      if (!status.ok()) return status;
      ExpectPieces(trainer, whole);
      return Save(folder_ + "/again", still, 3, trainer);
    };
    hooks.end = nullptr;
    const Plan here = WithSums(LibraryPlan(other.schedule, other.p, 8).value(), other.mesh);
    const auto result = Train(still, here, window, hooks);
    ASSERT_TRUE(result.ok()) << result.status();
    losses.push_back(result->losses_nats[0]);
    EXPECT_NEAR(losses.back(), losses.front(), 1e-5);
    EXPECT_EQ(ReadWhole(ParamsFile(folder_ + "/again")).substr(header_bytes),
              saved.substr(header_bytes));
  }
}

}  // namespace
}  // namespace stringline
