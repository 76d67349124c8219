// A stage's computation as a small graph in static single assignment.
//
// Values are dense row-major tensors; nodes are in topological order; a node is a pure function of
// its inputs. Nothing aliases and nothing is done in place: shared buffers are the memory planner's
// business. Views do not exist, layout changes are ops.
//
// The purpose of a graph's inputs and outputs is given by their roles: the executor binds buffers
// by role and index and never by name.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace stringline {

// kBF16: the upper half of an F32's bits (sign, eight bits of exponent, seven of the fraction).
enum class DType : uint8_t { kF32, kI32, kBF16 };
int BytesOf(DType dtype);
const char* NameOf(DType dtype);  // "f32", "i32", "bf16"
inline bool IsFloat(DType dtype) { return dtype != DType::kI32; }

struct Type {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // empty: a scalar
  int64_t elements() const;
  int64_t bytes() const;
  friend bool operator==(const Type&, const Type&) = default;
};

// The ops; stages/ops.def is their table.
enum class Op : uint8_t {
#define X(op, name, ...) op,
#include "stages/ops.def"
#undef X
};

enum class Role : uint8_t {
  // inputs
  kParam,      // index: the parameter of the stage
  kInput,      // index: a value that enters the stage; tokens (I32) for the model's first stage
  kTarget,     // last stage: the tokens that the loss compares with; kNoTarget: none
  kPositions,  // of packed sequences: I32, each token's position in its document
  kMaskKey,    // of stages with dropout: I32 (4), the microbatch's key of masks (MaskKey)
  kOutGrad,    // index: the output with this gradient (not for the last stage: its seed is 1)
  kPast,     // of slice k: keys and values of an earlier slice; index: attention layer * k + slice
  kKeyGrad,  // of slice k, not the last: gradients of the keys and values of a slice up to k, from
             // the slices behind k; index: attention layer * (k + 1) + slice
  // outputs of a program, inputs of a later program
  kSaved,  // index: F -> B, or F -> I and W
  kStash,  // index: I -> W
  // outputs
  kOutput,   // index: a value that leaves the stage (not for the last stage)
  kLoss,     // last stage: F32 scalar, the sum over the microbatch's tokens
  kAuxLoss,  // index: the MoE layer of the stage; F32 scalar, added to the loss: a sum as well
  kDropped,  // index as kAuxLoss; F32 scalar: slots without an expert, for lack of capacity
  kInGrad,   // index: the input with this gradient (not for the first stage)
  kKeys,     // of a slice, not the last: its keys and values; index: attention layer
  kKeyGradBefore,  // of slice k, not the first: kKeyGrad of slice k - 1
  kParamGrad,      // index: the parameter; *added* into its accumulator, never overwriting it
};
const char* NameOf(Role role);

// The target of a token that has none, such as the last one of a document.
inline constexpr int32_t kNoTarget = -1;

// From what the masks of dropout are made, beside the op's own number and the place in the tensor.
// So they are the same on every schedule, cut and number of processes, and of a resumed run. The
// tensor of Role::kMaskKey has the low and the high word of the seed, then those of the sample.
struct MaskKey {
  uint64_t seed = 0;          // the run's
  uint64_t first_sample = 0;  // the number of the microbatch's first sample in the run

  std::array<int32_t, 4> words() const {
    const auto word = [](uint64_t number) { return static_cast<int32_t>(number & 0xffffffffu); };
    return {word(seed), word(seed >> 32), word(first_sample), word(first_sample >> 32)};
  }
};

using ValueId = int32_t;
inline constexpr ValueId kNone = -1;  // no value

struct Value {
  Type type;
  std::string name;  // for people; unique in its graph
  friend bool operator==(const Value&, const Value&) = default;
};

struct Node {
  Op op;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  // Attributes by position, as the op's row in ops.def names them. Integers are exact up to 2^53.
  std::vector<double> attributes;
  friend bool operator==(const Node&, const Node&) = default;
};

struct Port {
  Role role;
  int index = 0;
  ValueId value = -1;
  friend bool operator==(const Port&, const Port&) = default;
};

// Ports are in any order and of any number; a value may be in several of them, also as an input and
// an output: then it is handed on without a copy.
//
// A graph is canonical when its values are numbered by their definition: the inputs in the order of
// their ports, then every node's outputs. All functions that return a graph return a canonical one.
struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  friend bool operator==(const Graph&, const Graph&) = default;
};

// The graph of some of `graph`'s nodes (ascending indices) between these ports: canonical, with the
// same names. Every value read must come from an input port or an earlier kept node.
Graph Extract(const Graph& graph, const std::vector<int>& nodes, const std::vector<Port>& inputs,
              const std::vector<Port>& outputs);

// The nodes (ascending) on which `targets` depend.
std::vector<int> NodesBehind(const Graph& graph, const std::vector<ValueId>& targets);

// By value: its producer, or -1 for an input.
std::vector<int> Producers(const Graph& graph);

}  // namespace stringline
