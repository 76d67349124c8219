// A stage's graph made ready to run on the CPU: every tensor has a region and an offset in it, so
// that running it for a microbatch takes nothing but the addresses of the regions.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "executor/cpu/kernel.h"
#include "executor/memory_plan.h"
#include "stages/stage_program.h"

namespace stringline::cpu {

// The blocks of memory that a program reads and writes. Those after kGrads belong to one
// microbatch.
enum class Region : uint8_t {
  kArena,  // temporaries, of the lane
  kParams,
  kGrads,
  kInput,
  kTarget,
  kOutput,
  kLoss,
  kSavedForInput,
  kSavedForWeight,
  kStash,
  kOutGrad,
  kInGrad,
};
inline constexpr int kRegions = 12;
using Regions = std::array<char*, kRegions>;

struct Location {
  Region region = Region::kArena;
  int64_t offset = 0;
};

// Where the tensors of a stage lie in their regions, each aligned.
struct StageLayout {
  explicit StageLayout(const StageProgram& program);

  Location Of(const Port& port) const;

  std::vector<int64_t> params;  // offsets, in kParams and in kGrads alike; experts' come last
  int64_t dense_bytes = 0;      // of those that are no experts'
  int64_t param_bytes = 0;
  std::vector<Location> saved;
  std::vector<int64_t> stash;
  StageBytes bytes = {};  // of one microbatch, for the memory plan
};

class Program {
 public:
  // Keeps pointing into `graph`.
  Program(const Graph& graph, const StageLayout& layout);

  // Gradients of parameters are added to what kGrads holds. Allocates nothing.
  void Run(const Regions& regions) const;

  int64_t arena_bytes() const { return arena_bytes_; }

 private:
  struct Operand {
    Location location;
    const Type* type;
  };
  struct Step {
    Kernel kernel;
    const Node* node;
    uint32_t first_operand;  // inputs, then outputs
    uint32_t first_output;   // in accumulates_
    int64_t workspace;       // offset in the arena
  };
  // A value that two ports name: its bytes are needed in a second place.
  struct Copy {
    Location from;
    Location to;
    int64_t bytes;
  };

  void PlacePorts(const Graph& graph, const StageLayout& layout);
  void PlaceTemporaries(const Graph& graph);
  void AddSteps(const Graph& graph);

  std::vector<Operand> values_;      // by ValueId
  std::vector<bool> placed_;         // by ValueId
  std::vector<bool> adds_;           // by ValueId: it is a gradient of a parameter
  std::vector<int64_t> workspaces_;  // by node
  std::vector<Operand> operands_;
  std::vector<char> accumulates_;
  std::vector<Step> steps_;
  std::vector<Copy> copies_before_;
  std::vector<Copy> copies_after_;
  int64_t arena_bytes_ = 0;
};

}  // namespace stringline::cpu
