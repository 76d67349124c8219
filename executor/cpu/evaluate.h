// Runs a graph once, node by node, on the calling thread: for tests and for the oracle.
//
// A StageState lasts between runs; every other array is freed after its last use. The order of all
// arithmetic is the graph's.
#pragma once

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "executor/cpu/kernel.h"
#include "stages/stage_program.h"

namespace stringline::cpu {

// A tensor that owns its memory; copies share it.
struct Array {
  Type type;
  std::shared_ptr<void> data;  // 64-byte aligned

  float* f32() const { return static_cast<float*>(data.get()); }
  uint16_t* bf16() const { return static_cast<uint16_t*>(data.get()); }  // bits
  int32_t* i32() const { return static_cast<int32_t*>(data.get()); }
};

// All zeros.
Array MakeArray(const Type& type);
// As a stage with dropout reads it.
Array MakeMaskKey(const MaskKey& key);
// An F32 array rounded to the nearest BF16.
Array RoundedToBf16(const Array& values);

// The values of a stage by role: what its programs read and write.
struct StageState {
  std::vector<Array> params;
  std::vector<Array> param_grads;        // accumulators: made by the caller, added to
  Array target, positions, mask_key;     // set by the caller before a program that reads them
  std::vector<Array> inputs, out_grads;  // the same
  Array loss;                            // set by the programs
  std::vector<Array> outputs, in_grads;  // the same
  std::vector<Array> aux_losses;         // by MoE layer of the stage, as are the dropped slots
  std::vector<Array> dropped;
  std::vector<Array> past, key_grads;         // of a slice: set by the caller
  std::vector<Array> keys, key_grads_before;  // set by its programs
  std::vector<Array> saved;                   // of one microbatch
  std::vector<Array> stash;
};

// A state with params from `seed` (init.h), those of BF16 rounded, accumulators of zeros, and room
// for as many inputs and outputs as the program has.
StageState MakeState(const StageProgram& program, uint64_t seed, int expert_rank = 0);

// Runs one of the stage's programs. Inputs are never written to.
void Evaluate(const Graph& graph, StageState* state);

// The same for all ranks that divide the experts, node by node side by side, with collectives
// between them (exchange.h): states[x] is of expert rank x.
void EvaluateTogether(const Graph& graph, absl::Span<StageState* const> states);

}  // namespace stringline::cpu
