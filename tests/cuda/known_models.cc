#include "tests/cuda/known_models.h"

#include <filesystem>
#include <string>

#include "executor/run/run_config.h"
#include "gtest/gtest.h"
#include "tests/executor/tiny_models.h"

namespace stringline {

std::vector<AnyShape> KnownModels() {
  std::vector<AnyShape> models;
  for (const auto& example :
       std::filesystem::directory_iterator(STRINGLINE_SOURCE_DIR "/examples")) {
    const std::string file = example.path().string() + "/run.yaml";
    if (!std::filesystem::exists(file)) continue;
    const auto config = ReadRunConfig(file);
    EXPECT_TRUE(config.ok()) << config.status();
    models.push_back(config->shape);
  }
  EXPECT_GE(models.size(), 2);
  for (const TinyFamily family : kTinyFamilies) models.push_back(TinyModel(family, 1));
  // GPT-2 124M.
  models.push_back(GptShape{.layers = 1,
                            .width = 768,
                            .heads = 12,
                            .context = 1024,
                            .vocabulary = 50304,
                            .microbatch = 4});
  // Qwen2.5 1.5B and Llama 3 8B.
  DecoderShape qwen;
  qwen.layers = 1;
  qwen.width = 1536;
  qwen.heads = 12;
  qwen.kv_heads = 2;
  qwen.head_dim = 128;
  qwen.hidden = 8960;
  qwen.context = 1024;
  qwen.vocabulary = 151936;
  qwen.microbatch = 4;
  models.push_back(qwen);
  DecoderShape llama = qwen;
  llama.width = 4096;
  llama.heads = 32;
  llama.kv_heads = 8;
  llama.hidden = 14336;
  llama.context = 8192;
  llama.vocabulary = 128256;
  llama.microbatch = 1;
  models.push_back(llama);
  return models;
}

}  // namespace stringline
