// Files of a checkpoint, written by processes with arbitrary pieces each, and read by others.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
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
    // In any number of parts.
    for (const int parts : {1, 2, 7}) {
      std::vector<uint64_t> sums(state.files.size());
      for (int part = 0; part < parts; ++part) {
        const auto of_part = files->SumsOfPart(part, parts, [] {});
        ASSERT_TRUE(of_part.ok()) << of_part.status();
        for (size_t f = 0; f < sums.size(); ++f) sums[f] += (*of_part)[f];
      }
      size_t f = 0;
      for (const auto& [name, file] : state.files) EXPECT_EQ(sums[f++], file.sum) << name;
    }
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
  state.history = {{1.0 / 3, 2}, {1e-30, 4}, {5, 6e10}, {{1, 2.5}, {2, 1.0 / 7}}, 7};
  state.files["model-00001-of-00001.safetensors"] = {12, ~uint64_t{0}, 7};
  state.texts = {{"config.json", 3}, {"model.safetensors.index.json", ~uint64_t{0}}};
  const auto read = ParseCheckpointState(Print(state));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(*read == state);
  // Any truncated text is an error, and so is any in which a bit has changed.
  const std::string text = Print(state);
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(ParseCheckpointState(text.substr(0, i)).ok()) << i;
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ 1 << bit);
      EXPECT_FALSE(ParseCheckpointState(changed).ok()) << i << " " << changed;
    }
  }
}

// Earlier versions wrote no sums over texts.
TEST(CheckpointStateText, WithoutSumsItIsRead) {
  CheckpointState state;
  state.has_sums = false;
  state.files["model-00001-of-00001.safetensors"] = {12, 5, std::nullopt};
  const std::string text = Print(state);
  EXPECT_NE(text.find("stringline checkpoint 1"), std::string::npos) << text;
  const auto read = ParseCheckpointState(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(*read == state);
}

// A table of a hundred million values is written by all who have it.
TEST(ShareWriting, ALargeTensorIsSharedToo) {
  const int64_t size = 100'000'000;
  const std::vector<std::vector<StateRange>> held = {{{0, 0, size}}, {{0, 0, size}}};
  int64_t next = 0;
  std::vector<int64_t> load;
  std::vector<StateRange> all;
  for (const std::vector<StateRange>& ranges : ShareWriting({size}, held)) {
    load.push_back(0);
    for (const StateRange& range : ranges) load.back() += range.count;
    all.insert(all.end(), ranges.begin(), ranges.end());
  }
  EXPECT_NEAR(static_cast<double>(load[0]), 0.5 * size, 0.2 * size);
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.first < b.first; });
  for (const StateRange& range : all) {
    EXPECT_EQ(range.first, next);
    next += range.count;
  }
  EXPECT_EQ(next, size);
}

}  // namespace
}  // namespace stringline
