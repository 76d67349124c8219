// Files of samples: accepted files, refused files, and the samples of batches.
#include "executor/run/sample_file.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "executor/run/train.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/executor/plans.h"
#include "tests/executor/small_run.h"

namespace stringline {
namespace {

using testing::ElementsAre;

template <typename Number>
std::string BytesOf(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

struct Given {
  std::string name, dtype;
  std::vector<uint64_t> shape;
  std::string bytes;
};

Given Tensor(const std::string& name, const std::vector<uint64_t>& shape,
             const std::vector<int64_t>& numbers) {
  return {name, "I64", shape, BytesOf(numbers)};
}
Given Tensor(const std::string& name, const std::vector<uint64_t>& shape,
             const std::vector<int32_t>& numbers) {
  return {name, "I32", shape, BytesOf(numbers)};
}
Given Tensor(const std::string& name, const std::vector<uint64_t>& shape,
             const std::vector<float>& numbers) {
  return {name, "F32", shape, BytesOf(numbers)};
}

class Samples : public testing::Test {
 protected:
  ~Samples() override { unlink(path_.c_str()); }
  absl::StatusOr<SampleFile> Open(const std::vector<Given>& tensors, const SampleShape& shape) {
    TensorHeader header;
    std::string data;
    for (const Given& of : tensors) {
      header.tensors.push_back(
          {of.name, of.dtype, of.shape, data.size(), data.size() + of.bytes.size()});
      data += of.bytes;
    }
    std::ofstream(path_, std::ios::binary) << PrintTensorHeader(header) << data;
    return SampleFile::Open(path_, shape);
  }
  // The message behind the path.
  std::string Says(const absl::Status& status) const {
    const std::string said(status.message());
    return said.compare(0, path_.size() + 2, path_ + ": ") == 0 ? said.substr(path_.size() + 2)
                                                                : "no path: " + said;
  }
  const std::string path_ = absl::StrCat(testing::TempDir(), "/stringline-samples-", getpid());
};

const SampleShape kPictures = {{1, 2}, true, 0, 1, 4};
const SampleShape kSentences = {{3}, false, 9, 3, 9};

TEST_F(Samples, NumbersComeWithTheirBits) {
  const std::vector<float> numbers = {1.5f, -0.0f, std::numeric_limits<float>::infinity(), 3e-40f};
  const auto file = Open(
      {Tensor("input", {2, 1, 2}, numbers), Tensor("target", {2}, std::vector<int64_t>{3, -100})},
      kPictures);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size(), 2);
  for (int64_t sample = 0; sample < 2; ++sample) {
    std::vector<int32_t> tokens(2), targets(2);
    ASSERT_TRUE(file->Fill(sample, absl::MakeSpan(tokens), absl::MakeSpan(targets)).ok());
    EXPECT_EQ(std::memcmp(tokens.data(), &numbers[static_cast<size_t>(sample) * 2], 8), 0);
    EXPECT_THAT(targets, ElementsAre(kNoTarget, sample == 0 ? 3 : kNoTarget));
    EXPECT_EQ(file->CountTargets(sample), sample == 0 ? 1 : 0);
  }
}

TEST_F(Samples, TokensAreOfEitherWidth) {
  const std::vector<int64_t> wide = {1, 2, 8};
  const std::vector<int32_t> narrow = {0, -100, 4};
  for (const bool swap : {false, true}) {
    const auto file =
        swap ? Open({Tensor("target", {1, 3}, wide),
                     Tensor("input", {1, 3}, std::vector<int32_t>{0, 3, 4})},
                    kSentences)
             : Open({Tensor("target", {1, 3}, narrow), Tensor("input", {1, 3}, wide)}, kSentences);
    ASSERT_TRUE(file.ok()) << file.status();
    std::vector<int32_t> tokens(3), targets(3);
    ASSERT_TRUE(file->Fill(0, absl::MakeSpan(tokens), absl::MakeSpan(targets)).ok());
    if (swap) {
      EXPECT_THAT(tokens, ElementsAre(0, 3, 4));
      EXPECT_THAT(targets, ElementsAre(1, 2, 8));
    } else {
      EXPECT_THAT(tokens, ElementsAre(1, 2, 8));
      EXPECT_THAT(targets, ElementsAre(0, kNoTarget, 4));
    }
  }
}

TEST_F(Samples, BadFilesAreSaid) {
  const Given input = Tensor("input", {2, 1, 2}, std::vector<float>(4));
  const Given target = Tensor("target", {2}, std::vector<int64_t>(2));
  const struct {
    std::vector<Given> tensors;
    const char* says;
  } cases[] = {
      {{input},
       "it has no tensor 'target'; samples are 'input', the model's, and 'target', the classes"},
      {{target},
       "it has no tensor 'input'; samples are 'input', the model's, and 'target', the classes"},
      {{input, target, Tensor("weight", {1}, std::vector<float>(1))},
       "nothing reads its tensor 'weight'; samples are 'input' and 'target'"},
      {{Tensor("input", {2, 2}, std::vector<float>(4)), target},
       "tensor 'input' is F32 [2, 2]; the model reads F32 [N, 1, 2]"},
      {{Tensor("input", {2, 1, 2}, std::vector<int32_t>(4)), target},
       "tensor 'input' is I32 [2, 1, 2]; the model reads F32 [N, 1, 2]"},
      {{input, Tensor("target", {2, 2}, std::vector<int64_t>(4))},
       "tensor 'target' is I64 [2, 2]; the model reads I32 or I64 [N, 1]"},
      {{input, Tensor("target", {2}, std::vector<float>(2))},
       "tensor 'target' is F32 [2]; the model reads I32 or I64 [N, 1]"},
      {{input, Tensor("target", {3}, std::vector<int64_t>(3))},
       "its tensors have 2 and 3 samples: each input has its targets"},
      {{Tensor("input", {0, 1, 2}, std::vector<float>()), target}, "it has no samples"},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(Says(Open(test.tensors, kPictures).status()), test.says);
  }
  std::ofstream(path_, std::ios::binary) << "words";
  EXPECT_FALSE(SampleFile::Open(path_, kPictures).ok());
  std::ofstream(path_, std::ios::binary | std::ios::trunc).flush();
  EXPECT_EQ(Says(SampleFile::Open(path_, kPictures).status()), "the file is empty");
  const absl::Status none = SampleFile::Open(path_ + "-none", kPictures).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(none.message().rfind(path_), 0u) << none << ": the path once, at the beginning";
}

TEST_F(Samples, NumbersOutsideTheModelAreSaid) {
  std::vector<int32_t> tokens(3), targets(3);
  const auto fill = [&](const std::vector<int64_t>& input, const std::vector<int64_t>& target) {
    const auto file =
        Open({Tensor("input", {1, 3}, input), Tensor("target", {1, 3}, target)}, kSentences);
    EXPECT_TRUE(file.ok()) << file.status();
    return Says(file->Fill(0, absl::MakeSpan(tokens), absl::MakeSpan(targets)));
  };
  EXPECT_EQ(fill({0, 9, 0}, {0, 0, 0}), "sample 0: token 9: the model's are 0 to 8");
  EXPECT_EQ(fill({0, 8, -1}, {0, 0, 0}), "sample 0: token -1: the model's are 0 to 8");
  EXPECT_EQ(fill({0, 8, 0}, {0, int64_t{1} << 40, 0}),
            "sample 0: target 1099511627776: the model's are 0 to 8");
  EXPECT_EQ(fill({0, 8, 0}, {0, -1, 0}), "sample 0: target -1: the model's are 0 to 8");
}

TEST_F(Samples, RowsReachAllSamplesAndLieEvenly) {
  constexpr int64_t kCount = 5;
  std::vector<int64_t> inputs, all;
  for (int64_t i = 0; i < kCount; ++i) {
    inputs.insert(inputs.end(), {i, i, i});
    all.insert(all.end(), {0, i == 2 ? -100 : i, 1});
  }
  const auto file =
      Open({Tensor("input", {kCount, 3}, inputs), Tensor("target", {kCount, 3}, all)}, kSentences);
  ASSERT_TRUE(file.ok()) << file.status();
  const TrainingData data(*file);
  std::set<int32_t> met;
  std::vector<int32_t> tokens(6), targets(6);
  for (int64_t step = 0; step < 40; ++step) {
    const BatchKey key = {7, step, 0};
    ASSERT_TRUE(data.Fill(key, 3, absl::MakeSpan(tokens), absl::MakeSpan(targets)).ok());
    met.insert({tokens[0], tokens[3]});
    EXPECT_EQ(data.CountTargets(key, 3, 2),
              6 - std::count(targets.begin(), targets.end(), kNoTarget));
  }
  EXPECT_EQ(met.size(), static_cast<size_t>(kCount));
  ASSERT_TRUE(data.FillEvenly(1, 4, 3, absl::MakeSpan(tokens), absl::MakeSpan(targets)).ok());
  EXPECT_THAT(tokens, ElementsAre(1, 1, 1, 2, 2, 2));  // samples 1 * 5 / 4 and 2 * 5 / 4
}

// As many targets as tokens, none of which counts.
TEST_F(Samples, AStepWithoutATargetIsSaid) {
  RunConfig config = SmallRun(1);
  config.data.samples = path_;
  const auto file = Open({Tensor("input", {2, 16}, std::vector<int32_t>(32, 7)),
                          Tensor("target", {2, 16}, std::vector<int32_t>(32, -100))},
                         config.shape.sample());
  ASSERT_TRUE(file.ok()) << file.status();
  const auto result = Train(config, *LibraryPlan("1f1b", 2, 4), TrainingData(*file), {});
  EXPECT_EQ(result.status().message(),
            "step 1 has no target: those of all its samples of " + path_ + " are -100");
}

}  // namespace
}  // namespace stringline
