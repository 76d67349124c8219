// Whole models on one rank at full speed: tokens per second, the share of the GPU's arithmetic in
// use, and the host's time for a step.
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "schedlang/ask/library_plan.h"
#include "stages/models/model.h"
#include "tools/gpu/gpu_run.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

// The peak of an H100 or H200 SXM in bf16, dense, to which shares refer.
constexpr double kPeakFlops = 989e12;

AnyShape Gpt124M() {
  AnyShape shape = GptShape{.layers = 12,
                            .width = 768,
                            .heads = 12,
                            .context = 1024,
                            .vocabulary = 50304,
                            .microbatch = 32,
                            .tied = true};
  shape.dtype = DType::kBF16;
  return shape;
}

// Qwen2.5 1.5B.
AnyShape Qwen1500M() {
  DecoderShape decoder;
  decoder.layers = 28;
  decoder.width = 1536;
  decoder.heads = 12;
  decoder.kv_heads = 2;
  decoder.head_dim = 128;
  decoder.hidden = 8960;
  decoder.context = 1024;
  decoder.vocabulary = 151936;
  decoder.rope_theta = 1e6;
  decoder.qkv_bias = true;
  decoder.tied = true;
  decoder.microbatch = 8;
  AnyShape shape = decoder;
  shape.dtype = DType::kBF16;
  return shape;
}

// Operations per token: of the parameters, and of attention over the visible half of all tokens.
double FlopsOfToken(const AnyShape& shape, int64_t params) {
  const auto attention = [&](int layers, double width) {
    return 6.0 * layers * width * shape.context();
  };
  double flops = 6.0 * static_cast<double>(params);
  if (const auto* const gpt = std::get_if<GptShape>(&shape.family)) {
    flops += attention(gpt->layers, gpt->width);
  } else {
    const auto& decoder = std::get<DecoderShape>(shape.family);
    flops += attention(decoder.layers, static_cast<double>(decoder.heads * decoder.head_dim));
  }
  return flops;
}

// A row for each line "SHAPE: CHOICE". A shape that the library refuses is slow, and so a failure.
void ListChoices(const std::string& model, const std::string& kernels, CheckRows* rows) {
  for (const absl::string_view line : absl::StrSplit(kernels, '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(": ", 1));
    const std::string name = absl::StrCat(model, ": ", parts.first);
    if (absl::StartsWith(line, "by our own kernel")) {
      rows->Fail(name, parts.second);
    } else {
      rows->Pass(name, parts.second);
    }
  }
}

}  // namespace

std::vector<SpeedCase> AllSpeedCases() {
  return {{"GPT-2 124M, bf16", Gpt124M(), 16, 560'000},
          {"GPT-2 124M, bf16, deterministic: off", Gpt124M(), 16, 560'000, false},
          {"Qwen2.5 1.5B, bf16", Qwen1500M(), 4, 58'000}};
}

void CheckSpeed(const std::string& folder, const std::vector<SpeedCase>& cases, CheckRows* rows) {
  for (const SpeedCase& one : cases) {
    RunConfig config;
    config.shape = one.shape;
    config.steps = 12;
    config.deterministic = one.deterministic;
    const std::optional<Plan> plan = PlanOfSchedule(folder, "1f1b", 1, one.microbatches);
    if (!plan.has_value()) return rows->Fail(one.name, "no plan of 1f1b for one rank");
    for (const bool captured : {true, false}) {
      config.capture = captured;
      const std::string name = absl::StrCat(one.name, captured ? "" : ", not captured");
      const absl::StatusOr<GpuRun> run = TrainOnGpu(config, *plan);
      if (!run.ok()) {
        rows->Fail(name, std::string(run.status().message()));
        continue;
      }
      const double rate = run->tokens_per_second();
      const double share = FlopsOfToken(one.shape, run->result.params) * rate / kPeakFlops;
      const std::string figure =
          absl::StrFormat("%.0f tokens/s, %.1f %% of %.0f TFLOP/s; host: %s", rate, 100 * share,
                          kPeakFlops * 1e-12, Describe(run->result.host, run->result.not_captured));
      // The goal is for captured steps.
      if (captured && rate < one.goal) {
        rows->Fail(name, absl::StrFormat("%s; the goal is %.0f tokens/s", figure, one.goal));
      } else {
        rows->Pass(name, figure);
      }
      if (captured) ListChoices(one.name, run->kernels, rows);
    }
  }
}

}  // namespace stringline
