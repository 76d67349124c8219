// Files of tokens: accepted files, refused files, and their runs.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "executor/run/train.h"
#include "executor/training/data.h"
#include "gtest/gtest.h"
#include "tests/executor/plans.h"
#include "tests/executor/small_run.h"

namespace stringline {
namespace {

std::string InBytes(const std::vector<uint32_t>& numbers, int width) {
  std::string bytes;
  for (const uint32_t number : numbers) {
    for (int i = 0; i < width; ++i) bytes.push_back(static_cast<char>(number >> (8 * i)));
  }
  return bytes;
}

std::string LlmcHeader(uint32_t first, uint32_t version, uint32_t tokens) {
  std::string header = InBytes({first, version, tokens}, 4);
  header.resize(1024, '\0');
  return header;
}

class TokenFiles : public testing::Test {
 protected:
  ~TokenFiles() override { unlink(path_.c_str()); }
  absl::StatusOr<TokenFile> Open(const std::string& bytes, const std::string& dtype,
                                 int vocabulary) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return TokenFile::Open(path_, dtype, vocabulary);
  }
  const std::string path_ = absl::StrCat(testing::TempDir(), "/stringline-tokens-", getpid());
};

std::vector<uint32_t> All(const TokenFile& file) {
  std::vector<uint32_t> tokens;
  for (int64_t i = 0; i < file.size(); ++i) tokens.push_back(file[i]);
  return tokens;
}

TEST_F(TokenFiles, EveryFormatIsRead) {
  const std::vector<uint32_t> small = {1, 2, 300, 65535}, large = {7, 70000, 128255};
  const struct {
    std::string bytes, dtype;
    int vocabulary;
    std::vector<uint32_t> tokens;
  } cases[] = {
      {InBytes(small, 2), "", 65536, small},
      {InBytes(small, 2), "uint16", 100000, small},
      {InBytes(large, 4), "uint32", 128256, large},
      {LlmcHeader(20240520, 1, 4) + InBytes(small, 2), "", 100000, small},
      {LlmcHeader(20240520, 1, 4) + InBytes(small, 2), "uint16", 65536, small},
      {LlmcHeader(20240801, 7, 3) + InBytes(large, 4), "", 128256, large},
  };
  for (const auto& test : cases) {
    const auto file = Open(test.bytes, test.dtype, test.vocabulary);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(All(*file), test.tokens);
  }
}

TEST_F(TokenFiles, BadFilesAreSaid) {
  const struct {
    std::string bytes, dtype;
    int vocabulary;
    const char* says;
  } cases[] = {
      {"", "", 256, ": the file is empty"},
      {"abc", "", 65536, ": 3 bytes are no whole number of uint16"},
      {"abcdef", "uint32", 65536, ": 6 bytes are no whole number of uint32"},
      {InBytes({1, 2, 3}, 2), "", 128256,
       ": it has no header, and with a vocabulary of 128256 it may hold uint16 or uint32: say "
       "which "
       "with data.dtype"},
      {InBytes({1, 2, 255, 256, 3}, 2), "", 256,
       ": token 256 at position 3: the model's vocabulary has 256"},
      {LlmcHeader(20240520, 1, 2) + InBytes({1, 5000}, 2), "", 5000,
       ": token 5000 at position 1: the model's vocabulary has 5000"},
      {LlmcHeader(20240520, 2, 2) + InBytes({1, 2}, 2), "", 256,
       ": its header begins with 20240520 and says version 2; known is 1"},
      {LlmcHeader(20240520, 1, 3) + InBytes({1, 2}, 2), "", 256,
       ": its header says 3 tokens, but 1028 bytes are there: was the file cut short?"},
      {LlmcHeader(20240520, 1, 0), "", 256,
       ": its header says 0 tokens, but 1024 bytes are there: was the file cut short?"},
      {LlmcHeader(20240801, 7, 0x80000000), "", 256,
       ": its header says -2147483648 tokens, but 1024 bytes are there: was the file cut short?"},
      {LlmcHeader(20240801, 7, 1) + InBytes({1}, 4), "uint16", 256,
       ": its header says uint32, data.dtype uint16"},
      {InBytes({20240520, 1, 3}, 4), "", 256,
       ": its header says 3 tokens, but 12 bytes are there: was the file cut short?"},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(Open(test.bytes, test.dtype, test.vocabulary).status().message(),
              absl::StrCat(path_, test.says));
  }
  EXPECT_EQ(TokenFile::Open(path_ + "-none", "", 256).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(TokenFile::Open(testing::TempDir(), "", 256).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Tokens not checked when the file is opened are checked when a window contains them.
TEST_F(TokenFiles, ALateTokenOutsideTheVocabularyIsSaid) {
  std::vector<uint32_t> tokens((1 << 20) + 40, 3);
  tokens.back() = 999;
  const auto file = Open(InBytes(tokens, 2), "", 256);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<int32_t> in(1 << 20), out(1 << 20);
  absl::Status status;
  for (int64_t step = 0; step < 100 && status.ok(); ++step) {
    status =
        TrainingData(*file).Fill({1, step, 0}, 1 << 20, absl::MakeSpan(in), absl::MakeSpan(out));
  }
  EXPECT_EQ(status.message(), absl::StrCat(path_,
                                           ": token 999 at position 1048615: the model's "
                                           "vocabulary has 256"));
}

// The same bytes as a text and as a file of tokens give the same run.
TEST_F(TokenFiles, ARunOverTokensIsThatOverTheText) {
  const std::string text = Corpus();
  const std::vector<uint32_t> numbers(text.begin(), text.end());
  const auto file = Open(InBytes(numbers, 2), "", 256);
  ASSERT_TRUE(file.ok()) << file.status();
  const Plan plan = LibraryPlan("1f1b", 2, 4).value();
  const auto of_text = Train(SmallRun(3), plan, text, {});
  const auto of_tokens = Train(SmallRun(3), plan, *file, {});
  ASSERT_TRUE(of_text.ok() && of_tokens.ok()) << of_text.status() << of_tokens.status();
  EXPECT_EQ(of_text->losses_nats, of_tokens->losses_nats);
}

// All schedules agree on Llama as on GPT, and it learns.
TEST(LlamaRun, IsTheSameInEverySchedule) {
  RunConfig config = SmallRun(12);
  config.shape = DecoderShape{.layers = 8,
                              .width = 16,
                              .heads = 4,
                              .context = 16,
                              .microbatch = 2,
                              .kv_heads = 2,
                              .head_dim = 6,
                              .hidden = 24,
                              .qkv_bias = true,
                              .qk_norm = true};
  config.optimizer.learning_rate = 1e-2;
  std::vector<double> losses;
  for (const auto& [schedule, p] : {std::pair<const char*, int>{"gpipe", 1}, {"zb_v", 4}}) {
    const auto run = Train(config, LibraryPlan(schedule, p, 8).value(), Corpus(), {});
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->params, CountParams(config.shape));
    EXPECT_LT(run->losses_nats.back(), run->losses_nats.front() - 0.5);
    if (!losses.empty()) {
      EXPECT_EQ(run->losses_nats, losses);
    }
    losses = run->losses_nats;
  }
}

}  // namespace
}  // namespace stringline
