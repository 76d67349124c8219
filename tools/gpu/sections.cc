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

// Wide enough that computing a layer takes about as long as copying what it keeps, as in models
// that offload.
AnyShape CopiedModel() {
  DecoderShape shape;
  shape.layers = 4;
  shape.width = 4096;
  shape.heads = 32;
  shape.kv_heads = 8;
  shape.head_dim = 128;
  shape.hidden = 11008;
  shape.context = 4096;
  shape.vocabulary = 8192;
  shape.microbatch = 1;
  return InBf16(shape);
}

}  // namespace

std::vector<CheckSection> AllSections(const CheckFiles& files) {
  const std::string& schedules = files.schedules;
  // In the order of what only a GPU can say. The deadlines of a half fit in its time.
  return {
      {"device", CheckDevice, 40, 1, "streams, events, copies and capture; the rate of a copy"},
      {"kernels", CheckKernelNumbers, 60, 1, "every op against the CPU's kernel, fp32 and bf16"},
      {"attention", CheckAllAttention, 60, 1,
       "cuDNN's attention against our own, its bits twice, and how fast both are"},
      {"training",
       [schedules](CheckRows* rows) {
         CheckTraining(schedules, {1, 2, 4}, rows);
       },
       150, 1, "a step of every schedule: gradients against the CPU's, two runs bit for bit"},
      {"nccl", [schedules](CheckRows* rows) { CheckNccl(schedules, rows); }, 140, 1,
       "processes with NCCL, bit for bit as one process; a rank that is killed"},
      {"overlap",
       [schedules](CheckRows* rows) { CheckOverlap(schedules, ModelOfExperts(), 16, 8, rows); }, 60,
       1, "the share of all-to-alls that pairs and chunks hide on a slow wire"},
      {"branches", CheckBranches, 20, 1, "how many branches of a captured graph run side by side"},
      {"rates", [](CheckRows* rows) { CheckKernelRates({}, rows); }, 50, 2,
       "kernels beside a copy's rate, products beside a large one's"},
      {"speed", [schedules](CheckRows* rows) { CheckSpeed(schedules, AllSpeedCases(), rows); }, 120,
       2, "tokens a second of GPT-2 124M and Qwen2.5 1.5B, and the algorithms chosen"},
      {"ops",
       [files](CheckRows* rows) {
         CheckOps(files.schedules, AllSpeedCases().front(), files.paper, rows);
         CheckOps(files.schedules, AllSpeedCases().back(), "", rows);
       },
       40, 2, "time by op for a microbatch of GPT-2 124M, beside build/paper.json"},
      {"prediction",
       [schedules](CheckRows* rows) { CheckPrediction(schedules, InBf16(PredictedModel()), rows); },
       40, 2, "a simulated step beside the measured one"},
      {"copies", [](CheckRows* rows) { CheckCopies(CopiedModel(), 6, 14, rows); }, 60, 2,
       "copies to the host and back beside computation"},
      {"places",
       [schedules](CheckRows* rows) { CheckPlaces(schedules, InBf16(PredictedModel()), rows); }, 40,
       2, "ranks with SMs of their own, and on several GPUs"},
      {"sanitizer",
       [files](CheckRows* rows) {
         CheckSanitizer("compute-sanitizer", absl::StrCat("'", files.program, "' --here kernels"),
                        rows);
       },
       90, 2, "compute-sanitizer on the kernels section, where it is installed"},
      {"torch",
       [files](CheckRows* rows) {
         CheckTorch(absl::StrCat("python3 '", files.torch_speed, "'"), rows);
       },
       100, 2, "GPT-2 124M in PyTorch, where it is installed"},
  };
}

}  // namespace stringline
