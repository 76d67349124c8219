// Files of a checkpoint, written by processes with arbitrary pieces each, and read by others.
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/checkpoint_state.h"
#include "executor/checkpoint/shard_files.h"
#include "executor/checkpoint/state_layout.h"
#include "gtest/gtest.h"
#include "stages/models/model.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

std::vector<StateTensor> TensorsOf(const AnyShape& shape) {
  std::vector<StateTensor> tensors;
  const auto stages = BuildModelStages(shape, {shape.layers()}, {}).value();
  for (const Param& param : stages.front().params) {
    if (param.tied_to.empty()) tensors.push_back({param, {}});
  }
  return tensors;
}

// A value that identifies tensor, kind and place.
float ValueOf(int tensor, StateKind kind, int64_t place) {
  return static_cast<float>(1'000'000 * kind + 10'000 * tensor + place);
}

// Every tensor cut at random places, each piece held by one process, some by two.
std::vector<std::vector<StateRange>> CutAtRandom(const std::vector<StateTensor>& tensors,
                                                 int processes, std::mt19937_64* random) {
  std::vector<std::vector<StateRange>> held(static_cast<size_t>(processes));
  const auto draw = [&](int64_t most) {
    return std::uniform_int_distribution<int64_t>(0, most - 1)(*random);
  };
  for (size_t t = 0; t < tensors.size(); ++t) {
    const int64_t size = tensors[t].param.type.elements();
    for (int64_t at = 0; at < size;) {
      const int64_t count = std::min(size - at, 1 + draw(size));
      for (int64_t copies = 1 + draw(2); copies > 0; --copies) {
        held[static_cast<size_t>(draw(processes))].push_back({static_cast<int>(t), at, count});
      }
      at += count;
    }
  }
  return held;
}

class Shards : public testing::TestWithParam<TinyFamily> {};

TEST_P(Shards, WhatAnyPiecesWroteAnyOthersRead) {
  const AnyShape shape = TinyModel(GetParam(), 2);
  const std::vector<StateTensor> tensors = TensorsOf(shape);
  std::vector<int64_t> sizes;
  for (const StateTensor& tensor : tensors) sizes.push_back(tensor.param.type.elements());
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const int processes = 1 + static_cast<int>(seed % 4);
    const auto written = ShareWriting(sizes, CutAtRandom(tensors, processes, &random));
    const StateLayout layout = LayoutOf(shape, tensors, written);
    const std::string folder = absl::StrCat(testing::TempDir(), "/shards-", getpid());
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    CheckpointState state;
    state.run = "here";
    for (int p = 0; p < processes; ++p) {
      StateCopy copy(written[p]);
      for (size_t r = 0; r < copy.ranges().size(); ++r) {
        const StateRange& range = copy.ranges()[r];
        for (const StateKind kind : {kValues, kFirstMoment, kSecondMoment}) {
          for (int64_t i = 0; i < range.count; ++i) {
            copy.Of(r, kind)[i] = ValueOf(range.tensor, kind, range.first + i);
          }
        }
      }
      const auto sums = WriteShards(folder, layout, state, p, copy);
      ASSERT_TRUE(sums.ok()) << sums.status();
      for (size_t f = 0; f < layout.files.size(); ++f) {
        auto& file = state.files[layout.files[f].name];
        file.bytes = static_cast<int64_t>(
            std::filesystem::exists(folder + "/" + layout.files[f].name)
                ? std::filesystem::file_size(folder + "/" + layout.files[f].name)
                : 0);
        file.sum += (*sums)[f];
      }
    }
    const auto files = ShardFiles::Open(folder, state);
    ASSERT_TRUE(files.ok()) << files.status();
    const absl::Status whole = files->CheckSums(state);
    EXPECT_TRUE(whole.ok()) << whole;
    for (const auto& ranges : CutAtRandom(tensors, 1, &random)) {
      for (const StateRange& range : ranges) {
        std::vector<float> values(static_cast<size_t>(range.count));
        for (const StateKind kind : {kValues, kFirstMoment, kSecondMoment}) {
          const absl::Status read = files->Read(tensors[range.tensor].param, shape, kind,
                                                range.first, absl::MakeSpan(values));
          ASSERT_TRUE(read.ok()) << read;
          for (int64_t i = 0; i < range.count; ++i) {
            ASSERT_EQ(values[i], ValueOf(range.tensor, kind, range.first + i))
                << tensors[range.tensor].param.name << " " << kind << " " << range.first + i;
          }
        }
      }
    }
    std::filesystem::remove_all(folder);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Shards, testing::ValuesIn(kTinyFamilies),
                         [](const auto& info) { return NameOf(info.param); });

// Copies of the same values divide the work, so that each writes about as much.
TEST(ShareWriting, CopiesShareTheWork) {
  const std::vector<int64_t> sizes = {100, 100, 100, 100};
  std::vector<StateRange> all;
  for (int t = 0; t < 4; ++t) all.push_back({t, 0, 100});
  const auto written = ShareWriting(sizes, {all, all});
  EXPECT_EQ(written[0].size(), 2u);
  EXPECT_EQ(written[1].size(), 2u);
}

TEST(CheckpointStateText, WhatIsPrintedIsRead) {
  CheckpointState state;
  state.run = "0123456789abcdef";
  state.step = 2;
  state.seed = 9'000'000'000'000'000;
  state.data = "10 bytes, 1f";
  state.microbatches = 8;
  state.microbatch = 2;
  state.context = 16;
  state.deterministic = false;
  state.model = {{"layers", "2"}};
  state.history = {{1.0 / 3, 2}, {1e-30, 4}, {5, 6e10}, 7};
  state.files["model-00001-of-00001.safetensors"] = {12, ~uint64_t{0}};
  const auto read = ParseCheckpointState(Print(state));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(*read == state);
  // Any truncated or changed text is an error, or parses to another state.
  const std::string text = Print(state);
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    EXPECT_EQ(ParseCheckpointState(text.substr(0, i)).ok(), i + 2 > text.size()) << i;
    if (text[i] == '[') continue;
    std::string changed = text;
    changed[i] = '[';
    const auto other = ParseCheckpointState(changed);
    EXPECT_FALSE(other.ok() && *other == state) << i;
  }
}

}  // namespace
}  // namespace stringline
