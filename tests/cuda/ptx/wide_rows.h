// Kernels that write rows of bf16, by name: they must store 16 bytes at a time. nvcc may make four
// stores of one, which takes four times as many instructions.
#pragma once

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace stringline {

struct WideRows {
  const char* kernel;  // without its number of threads
  int words;           // the most stores of four bytes: results in float32
  bool holds = true;   // false: not yet
};

constexpr WideRows kWideRows[] = {
    {"Add<Bf16>", 0},
    {"AddRepeated<Bf16>", 0},
    {"CopyPart<Bf16>", 0},
    {"CopyTaken<Bf16>", 0},
    {"CrossEntropy<Bf16>", 2},
    {"CrossEntropyInScratch<Bf16>", 2},
    {"Embedding<Bf16>", 0},
    {"Fill<Bf16>", 0},
    {"GatherRows<Bf16>", 0},
    {"Gelu<Bf16>", 0},
    {"GeluGrad<Bf16>", 0},
    {"HeadNorm<Bf16, Bf16>", 1},
    {"HeadNorm<Bf16, float>", 1},
    {"Mul<Bf16>", 0},
    {"Norm<(NormKind)0, Bf16, Bf16>", 2},
    {"Norm<(NormKind)0, Bf16, float>", 2},
    {"Norm<(NormKind)1, Bf16, Bf16>", 1},
    {"Norm<(NormKind)1, Bf16, float>", 1},
    {"Rotary<Bf16>", 0},
    {"Scale<Bf16, Bf16>", 0},
    {"Scale<float, Bf16>", 0},
    {"SumRows<Bf16>", 0},
    {"ClearBehind<Bf16>", 0},
    {"HeadNormGrad<Bf16, Bf16>", 27},
    {"HeadNormGrad<Bf16, float>", 27},
    {"NormGrad<(NormKind)0, Bf16, Bf16>", 27},
    {"NormGrad<(NormKind)0, Bf16, float>", 27},
    {"NormGrad<(NormKind)1, Bf16, Bf16>", 27},
    {"NormGrad<(NormKind)1, Bf16, float>", 27},
    {"Swiglu<Bf16>", 0},
    {"SwigluGrad<Bf16>", 1},
};

// Stores to global memory in a kernel's code.
struct StoreCounts {
  int of_16 = 0, of_8 = 0, of_4 = 0;
};

// The row of a kernel's name as shown, "Add<Bf16> (256 threads)"; null: none.
inline const WideRows* WideRowsOf(const std::string& shown) {
  for (const WideRows& row : kWideRows) {
    if (absl::StartsWith(shown, absl::StrCat(row.kernel, " ("))) return &row;
  }
  return nullptr;
}

// Single elements are those of rows that are not aligned.
inline bool Holds(const WideRows& row, const StoreCounts& stores) {
  return stores.of_16 > 0 && stores.of_8 == 0 && stores.of_4 <= row.words;
}

}  // namespace stringline
