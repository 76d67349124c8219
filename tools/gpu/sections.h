// The sections of gpu_check. A section calls CUDA, so it runs in a process of its own; tests run
// sections beside a stand-in for CUDA's runtime.
#pragma once

#include <string>
#include <vector>

#include "executor/cuda/backend/cuda_kernels.h"
#include "stages/models/model.h"
#include "tools/gpu/run_sections.h"

namespace stringline {

// Streams, events, copies, capture: the base of all else; and the rate of a copy.
void CheckDevice(CheckRows* rows);

// Every schedule in the folder, on these numbers of ranks, for GPT and a mixture of experts:
// gradients on the GPU against the CPU's, and two runs against each other.
void CheckTraining(const std::string& folder, const std::vector<int>& ranks, CheckRows* rows);

// Every kernel of the backend against the CPU's, in fp32 and bf16.
void CheckKernelNumbers(CheckRows* rows);
// Sizes of GPT-2 124M: most operands are larger than a GPU's cache.
struct RateSizes {
  int64_t batch = 64, positions = 1024, heads = 12, vocabulary = 50304;
  int64_t large = 8192;  // a side of the product to which others are compared
};
// The rates of memory-bound kernels, at least 70 % of a copy's, and of products, compared to a
// large product's.
void CheckKernelRates(const RateSizes& sizes, CheckRows* rows);

// For each problem, and its gradient: attention by the library against our own kernel, from the
// same numbers in bf16; two runs of the library against each other, bitwise; and the times of both.
// Skipped without the library.
void CheckAttention(const std::vector<cuda::AttentionProblem>& problems,
                    CudaKernels::AttentionSource library, CheckRows* rows);

// A model on one rank, captured and not: tokens a second. Fails below the goal.
struct SpeedCase {
  std::string name;
  AnyShape shape;
  int microbatches = 1;
  double goal = 0;            // tokens a second
  bool deterministic = true;  // of RunConfig
};
std::vector<SpeedCase> AllSpeedCases();
void CheckSpeed(const std::string& folder, const std::vector<SpeedCase>& cases, CheckRows* rows);

// The time of every op in a step of one microbatch of the model, beside those of the file, {op:
// us}, where it is; "": there is none for this model.
void CheckOps(const std::string& folder, const SpeedCase& model, const std::string& paper_path,
              CheckRows* rows);

// NVIDIA's compute-sanitizer, by its name or path, on a command that runs the section of kernels;
// its tools for memory, races and barriers. Skipped without it.
void CheckSanitizer(const std::string& sanitizer, const std::string& watched, CheckRows* rows);

// The numbers of branches of a captured graph, and of streams, that wait for each other without a
// hang.
void CheckBranches(CheckRows* rows);

// The output of a command, "NAME TOKENS" a line: torch's speed on the model of the first speed case
// (torch_speed.py). Skipped if it exits with status 77.
void CheckTorch(const std::string& command, CheckRows* rows);

// A step simulated from another schedule's costs, beside the measured one: within 3 %.
void CheckPrediction(const std::string& folder, const AnyShape& shape, CheckRows* rows);

// The exposed share of the experts' all-to-alls over a slow wire: without overlap, with F & B
// pairs, with chunks, and with both. At most 5 points more than simulated. `steps` is at least 4.
void CheckOverlap(const std::string& folder, const DecoderShape& shape, int microbatches, int steps,
                  CheckRows* rows);

// Copies of the first of four stages, on one rank, to the host's memory and back: losses as without
// them, a step as simulated (3 %), and at most 15 % of them exposed where each D has time. The
// shape has at least four layers.
void CheckCopies(const AnyShape& shape, int microbatches, int steps, CheckRows* rows);

// Four ranks with multiprocessors of their own, and on all GPUs: losses near those of ranks that
// share one GPU, on several GPUs bitwise equal; and the time of a step.
void CheckPlaces(const std::string& folder, const AnyShape& shape, CheckRows* rows);

// Ranks as processes with NCCL, all on one GPU: losses bitwise as in one process, and the others'
// reports when a rank is killed. Skipped without NCCL.
void CheckNccl(const std::string& folder, CheckRows* rows);

// The time for the device's name before the sections of a half, whose deadlines take the rest of
// kHalfSeconds at most.
constexpr int kNamingSeconds = 20;

struct CheckFiles {
  std::string schedules = "schedules";                   // the library's folder
  std::string torch_speed = "tools/gpu/torch_speed.py";  // for CheckTorch
  std::string paper = "build/paper.json";                // for CheckOps
  std::string program = "build/gpu_check/gpu_check";     // for CheckSanitizer
};
// In the order of execution.
std::vector<CheckSection> AllSections(const CheckFiles& files);

}  // namespace stringline
