#include "tools/gpu/sections.h"

namespace stringline {
namespace {

// A small one of odd sizes, GPT-2 124M, Qwen2.5 1.5B, and Llama's 8B.
void CheckAllAttention(CheckRows* rows) {
  CheckAttention({{false, 3, 100, 6, 2, 24},
                  {false, 16, 1024, 12, 12, 64},
                  {false, 8, 1024, 12, 2, 128},
                  {false, 1, 4096, 32, 8, 128}},
                 cuda::CudnnAttention, rows);
}

}  // namespace

std::vector<CheckSection> AllSections(const std::string& schedules) {
  return {
      {"device", CheckDevice, 60},
      {"attention", CheckAllAttention, 60},
      {"training",
       [schedules](CheckRows* rows) {
         CheckTraining(schedules, {1, 2, 4}, rows);
       },
       240},
  };
}

}  // namespace stringline
