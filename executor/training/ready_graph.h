// A stage's graph prepared to run: every tensor has a region and an offset in the region, so that a
// run for a microbatch needs only the regions' addresses.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "executor/engine/kernels.h"
#include "schedlang/plan/values.h"
#include "stages/stage_program.h"

namespace stringline {

// The blocks of memory that a program reads and writes. Those after kGrads belong to a single
// microbatch: the values that a stage holds for it, each in a block of its own, come last.
enum class Region : uint8_t {
  kArena,    // temporaries
  kParams,   // F32, also of BF16 parameters
  kWorking,  // BF16 parameters as graphs read them
  kGrads,
  kTokens,
  kTarget,
  kPositions,  // of tokens in their documents
  kMaskKey,
  kLoss,
  kTallies,        // scalars beside F's output: balance losses, dropped slots
  kKeyGradBefore,  // the gradients of keys that a slice gives to the one before
  kKeysOn,         // without backwards: all keys so far, which a slice gives to the one behind
#define VALUE(value, printed) value,
#define OWN(value)
#include "schedlang/plan/values.def"
};
inline constexpr int kRegions = static_cast<int>(Region::kKeysOn) + 1 + kBuiltInValues;
constexpr Region RegionOf(StageValue value) {
  return static_cast<Region>(kRegions - kBuiltInValues + static_cast<int>(value));
}
// The values that move over edges. The values of an edge, or their gradients, lie one behind the
// other in a region; those of the stage's first edge in one of these.
inline constexpr StageValue kMoving[] = {StageValue::kInput, StageValue::kInGrad,
                                         StageValue::kOutput, StageValue::kOutGrad};
struct Regions : std::array<char*, kRegions> {
  // By earlier slice of the microbatch, its kSliceKeys, if those stay there; then, for each value
  // of kMoving, its memory for every edge but the first.
  absl::Span<char* const> further;
};

struct Location {
  Region region = Region::kArena;
  int64_t offset = 0;
  int32_t further = -1;  // the index in Regions::further; -1: the region itself
};

// The offsets of a stage's tensors in their regions, each aligned.
struct StageLayout {
  // `gathered`: parameters are sharded, and graphs read working copies of all of them, which are
  // live from UNSHARD to RESHARD.
  explicit StageLayout(const StageProgram& program, bool gathered = false);

  Location Of(const Port& port) const;

  // Bytes of a chunk of a microbatch by edge, of a value of kMoving.
  const std::vector<int64_t>& EdgesOf(StageValue value) const {
    return edges_[static_cast<size_t>(value)];
  }

  // The parameters in memory order: experts' come last, and in both groups BF16 follows F32.
  std::vector<int> InOrder() const;

  std::vector<int64_t> params;  // offsets, in kParams and in kGrads alike
  int64_t param_bytes = 0;
  std::vector<int64_t> working;  // offsets in kWorking; -1 for an F32 parameter without a working
                                 // copy
  int64_t working_bytes = 0;
  // The beginning of kParams, up to the last parameter that graphs read there.
  int64_t wide_bytes = 0;
  // The bytes that graphs read: this beginning and the working copies.
  int64_t read_bytes() const { return wide_bytes + working_bytes; }
  std::vector<Location> saved;
  std::vector<int64_t> stash;
  int layers;        // mixtures of experts: two tallies each
  StageBytes bytes;  // of a chunk of a microbatch, or of a slice (SlicesIn); without edges
  SlicePlace slice;
  bool hands_keys_on;       // StageProgram's
  int64_t key_bytes = 0;    // of a slice in an attention layer
  int64_t token_bytes = 0;  // of all inputs of tokens, one behind the other

 private:
  // `further`: the number of further regions so far.
  void PlaceCrossings(const std::vector<Crossing>& crossings, StageValue value, int32_t* further);
  const Location& CrossingAt(StageValue value, int index) const {
    return crossings_[static_cast<size_t>(value)][static_cast<size_t>(index)];
  }

  std::array<std::vector<int64_t>, kBuiltInValues> edges_;       // by value that moves
  std::array<std::vector<Location>, kBuiltInValues> crossings_;  // by value, then index of the port
};

class ReadyGraph {
 public:
  // Keeps references to `graph` and `kernels`. `parts` (StageProgram) may be empty: then the whole
  // graph is a single part.
  ReadyGraph(const Graph& graph, absl::Span<const GraphPart> parts, const StageLayout& layout,
             Kernels* kernels);
  // The status of preparing its kernels; after an error the graph cannot run.
  const absl::Status& status() const { return status_; }

  int parts() const { return static_cast<int>(parts_.size()); }
  // Runs a compute part; the parts of a microbatch run in order, and share their temporaries.
  // Parameter gradients are added to kGrads. Allocates nothing.
  void Run(int part, const Regions& regions, NativeStream stream) const;

  // The nodes from `first` to before `end`: a graph without a network in pieces, in order.
  int nodes() const { return static_cast<int>(steps_.size()); }
  void Run(int first, int end, const Regions& regions, NativeStream stream) const;
  // The first node that reads, and the last that writes, a byte of these in the region; -1: none.
  int FirstReadOf(Region region, int64_t offset, int64_t bytes) const;
  int LastWriteOf(Region region, int64_t offset, int64_t bytes) const;
  // True if a node of the part reads, or writes, any of them.
  bool Reads(int part, Region region, int64_t offset, int64_t bytes) const;
  bool Writes(int part, Region region, int64_t offset, int64_t bytes) const;

  // A node of a network part with its operands.
  struct Exchange {
    const Node* node = nullptr;
    std::vector<Tensor> in, out;
  };
  std::vector<Exchange> ExchangesOf(int part, const Regions& regions) const;

  int64_t arena_bytes() const { return arena_bytes_; }
  // An upper bound on the kernels that a part launches, and its copies.
  int64_t most_launches() const {
    return kMostLaunchesOfNode *
           static_cast<int64_t>(steps_.size() + copies_before_.size() + copies_after_.size());
  }

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
  // A value named by two ports: its bytes are needed in a second place.
  struct Copy {
    Location from;
    Location to;
    int64_t bytes;
  };

  bool NodeReads(int node, Region region, int64_t offset, int64_t bytes) const;
  bool NodeWrites(int node, Region region, int64_t offset, int64_t bytes) const;
  bool Touches(uint32_t operand, Region region, int64_t offset, int64_t bytes) const;
  void CopyAll(const std::vector<Copy>& copies, const Regions& regions, NativeStream stream) const;
  void PlacePorts(const Graph& graph, const StageLayout& layout);
  void PlaceAsInput(const Graph& graph, ValueId from, ValueId to);
  std::vector<GraphPart> TogetherWith(const Graph& graph) const;
  void PlaceTemporaries(const Graph& graph);
  void AddSteps(const Graph& graph);
  void AddInputs(const Graph& graph, const Node& node, ValueId unwritten, Step* step);
  void AddOutputs(const Node& node, int first, Step* step);

  Kernels* const kernels_;
  std::vector<GraphPart> parts_;
  std::vector<Operand> values_;      // by ValueId
  std::vector<bool> placed_;         // by ValueId
  std::vector<bool> adds_;           // by ValueId: a gradient of a parameter
  std::vector<ReadyKernel> ready_;   // by node
  std::vector<int> runs_at_;         // by node: itself, or the later node whose kernel does its
                                     // work
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
