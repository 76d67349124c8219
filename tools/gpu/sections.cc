#include "tools/gpu/sections.h"

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

// A small problem of odd sizes, GPT-2 124M, Qwen2.5 1.5B, and Llama's 8B.
void CheckAllAttention(CheckRows* rows) {
  CheckAttention({{false, 3, 100, 6, 2, 24},
                  {false, 16, 1024, 12, 12, 64},
                  {false, 8, 1024, 12, 2, 128},
                  {false, 1, 4096, 32, 8, 128}},
                 cuda::CudnnAttention, rows);
}

// Large enough that kernels take longer than their launches.
DecoderShape PredictedModel() {
  DecoderShape shape;
  shape.layers = 8;
  shape.width = 1024;
  shape.heads = 16;
  shape.kv_heads = 8;
  shape.head_dim = 64;
  shape.hidden = 3072;
  shape.context = 1024;
  shape.vocabulary = 8192;
  shape.microbatch = 4;
  return shape;
}

AnyShape InBf16(const DecoderShape& model) {
  AnyShape shape = model;
  shape.dtype = DType::kBF16;
  return shape;
}

DecoderShape ModelOfExperts() {
  DecoderShape shape = PredictedModel();
  shape.layers = 4;
  shape.moe.experts = 16;
  shape.moe.top_k = 4;
  shape.moe.expert_hidden = 768;
  return shape;
}

}  // namespace

std::vector<CheckSection> AllSections(const std::string& schedules,
                                      const std::string& torch_speed) {
  return {
      {"device", CheckDevice, 60},
      {"kernels", CheckKernelNumbers, 60},
      {"attention", CheckAllAttention, 60},
      {"training",
       [schedules](CheckRows* rows) {
         CheckTraining(schedules, {1, 2, 4}, rows);
       },
       150},
      {"rates", [](CheckRows* rows) { CheckKernelRates({}, rows); }, 60},
      {"speed", [schedules](CheckRows* rows) { CheckSpeed(schedules, AllSpeedCases(), rows); },
       120},
      {"torch",
       [torch_speed](CheckRows* rows) {
         CheckTorch(absl::StrCat("python3 '", torch_speed, "'"), rows);
       },
       150},
      {"prediction",
       [schedules](CheckRows* rows) { CheckPrediction(schedules, InBf16(PredictedModel()), rows); },
       60},
      {"places",
       [schedules](CheckRows* rows) { CheckPlaces(schedules, InBf16(PredictedModel()), rows); },
       60},
      {"nccl", [schedules](CheckRows* rows) { CheckNccl(schedules, rows); }, 120},
      {"overlap",
       [schedules](CheckRows* rows) { CheckOverlap(schedules, ModelOfExperts(), 16, rows); }, 60},
  };
}

}  // namespace stringline
