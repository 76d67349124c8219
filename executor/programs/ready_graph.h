// A stage's graph made ready to run: every tensor has a region and an offset in it, so
// that running it for a microbatch takes nothing but the addresses of the regions.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "executor/programs/kernels.h"
#include "schedlang/values.h"
#include "stages/stage_program.h"

namespace stringline {

// The blocks of memory that a program reads and writes. Those after kGrads belong to one
// microbatch: the values a stage holds of it, each in a block of its own, come last.
enum class Region : uint8_t {
  kArena,    // temporaries
  kParams,   // F32, those of BF16 too
  kWorking,  // of BF16 parameters what graphs read of them
  kGrads,
  kTarget,
  kLoss,
  kTallies,  // scalars that F gives beside its output: balance losses, dropped slots
#define VALUE(value, printed) value,
#include "schedlang/values.def"
};
inline constexpr int kRegions = static_cast<int>(Region::kTallies) + 1 + kStageValues;
constexpr Region RegionOf(StageValue value) {
  return static_cast<Region>(kRegions - kStageValues + static_cast<int>(value));
}
using Regions = std::array<char*, kRegions>;

struct Location {
  Region region = Region::kArena;
  int64_t offset = 0;
};

// Where the tensors of a stage lie in their regions, each aligned.
struct StageLayout {
  // Where parameters are shared out, graphs read working copies of all of them, which are there
  // from UNSHARD to RESHARD.
  explicit StageLayout(const StageProgram& program, bool gathered = false);

  Location Of(const Port& port) const;

  // The parameters as they lie in memory: experts' come last, and of both BF16 ones behind F32
  // ones.
  std::vector<int> InOrder() const;

  std::vector<int64_t> params;  // offsets, in kParams and in kGrads alike
  int64_t param_bytes = 0;
  std::vector<int64_t> working;  // offsets in kWorking; -1 for an F32 parameter that has none
  int64_t working_bytes = 0;
  std::vector<Location> saved;
  std::vector<int64_t> stash;
  int layers;        // of mixtures of experts: each has two tallies
  StageBytes bytes;  // of one microbatch, for the memory plan
};

class ReadyGraph {
 public:
  // Keeps pointing into `graph` and `kernels`. Its parts (StageProgram) may be none: then it is
  // one.
  ReadyGraph(const Graph& graph, absl::Span<const GraphPart> parts, const StageLayout& layout,
             Kernels* kernels);
  // Of making its kernels ready; where it is an error, the graph cannot be run.
  const absl::Status& status() const { return status_; }

  int parts() const { return static_cast<int>(parts_.size()); }
  // Runs a compute part; the parts of a microbatch run in order, and share their temporaries.
  // Gradients of parameters are added to what kGrads holds. Allocates nothing.
  void Run(int part, const Regions& regions, NativeStream stream) const;

  // A node of a network part with its operands.
  struct Exchange {
    const Node* node = nullptr;
    std::vector<Tensor> in, out;
  };
  std::vector<Exchange> ExchangesOf(int part, const Regions& regions) const;

  int64_t arena_bytes() const { return arena_bytes_; }

 private:
  struct Operand {
    Location location;
    const Type* type;
  };
  struct Step {
    ReadyKernel kernel;
    const Node* node;
    uint32_t first_operand;  // inputs, then outputs
    uint32_t inputs = 0, outputs = 0;
    uint32_t first_output;  // in accumulates_
    int64_t workspace;      // offset in the arena
  };
  // A value that two ports name: its bytes are needed in a second place.
  struct Copy {
    Location from;
    Location to;
    int64_t bytes;
  };

  void CopyAll(const std::vector<Copy>& copies, const Regions& regions, NativeStream stream) const;
  void PlacePorts(const Graph& graph, const StageLayout& layout);
  void PlaceTemporaries(const Graph& graph);
  void AddSteps(const Graph& graph);
  void AddInputs(const Graph& graph, const Node& node, ValueId unwritten, Step* step);
  void AddOutputs(const Node& node, Step* step);

  Kernels* const kernels_;
  std::vector<GraphPart> parts_;
  std::vector<Operand> values_;      // by ValueId
  std::vector<bool> placed_;         // by ValueId
  std::vector<bool> adds_;           // by ValueId: it is a gradient of a parameter
  std::vector<ReadyKernel> ready_;   // by node
  std::vector<int> runs_at_;         // by node: itself, or the later one that does its work
  std::vector<int64_t> workspaces_;  // by node
  std::vector<Operand> operands_;
  std::vector<char> accumulates_;
  std::vector<Step> steps_;  // by node
  std::vector<Copy> copies_before_;
  std::vector<Copy> copies_after_;
  int64_t arena_bytes_ = 0;
  absl::Status status_;
};

}  // namespace stringline
