// The common part of the models: the construction of a stage's forward graph, and its parameters.
//
// A family is a class that builds the parts of a model; BuildPrograms puts them together, cut as
// requested, and brings the values that a part reads from the stages that make them (routes.h). A
// layer's parameters carry its number in the whole model, so neither their names nor their first
// values depend on the cut.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/builder.h"
#include "stages/models/routes.h"
#include "stages/split.h"
#include "stages/stage_program.h"

namespace stringline {

// Multiplications and additions of a forward, by part of the model: for comparing stages.
struct ModelWork {
  double embedding = 0;
  double layer = 0;
  double head = 0;
};

// Options for building the stages of any family.
struct BuildOptions {
  int expert_ranks = 1;  // ranks that share out the experts (models/moe.h)
  RecomputePolicy recompute;
  // The type of activations and of the weights, tables and biases of products: F32 or BF16. Scales
  // of norms and routers are F32.
  DType dtype = DType::kF32;
  int slices = 1;  // of each sequence, equally long (StageProgram::later_slices)
  // Sequences hold documents one behind the other (Role::kPositions): positions begin anew in each,
  // and attention sees its own document only. Without slices.
  bool packed = false;
  std::vector<StageEdge> edges;  // of the schedule; empty: every stage leads to the next one
};

// Builds a stage's forward graph.
class StageBuilder {
 public:
  // Activations are of options.dtype (microbatch, positions, width), tokens I32 (microbatch,
  // positions): the positions of a whole sequence, or of a slice of it.
  StageBuilder(int64_t microbatch, int64_t positions, int64_t width, const BuildOptions& options,
               const SlicePlace& slice = {})
      : stage_{.slice = slice},
        microbatch_(microbatch),
        positions_(positions),
        width_(width),
        dtype_(options.dtype),
        packed_(options.packed) {}
  virtual ~StageBuilder() = default;
  StageBuilder(const StageBuilder&) = delete;
  StageBuilder& operator=(const StageBuilder&) = delete;

  // Builds part 0, the embedding, from tokens; a layer, from 1; or behind them the head with its
  // loss. A part reads carried values, and carries those that it makes (PartValue).
  virtual void Part(int part) = 0;

  // A value that another stage makes, as the stage's next input.
  void Receive(int id, const Type& type, int edge) {
    Carry(id, AddInput(type, {.edge = edge}, "x"));
  }
  void Send(int id, int edge) {
    builder_.Output(Role::kOutput, static_cast<int>(stage_.outputs.size()), Carried(id));
    stage_.outputs.push_back({.edge = edge});
  }
  // Recomputing may begin anew at the value: a layer's input.
  void Checkpoint(int id) { AddOutput(Role::kSaved, checkpoints_++, Carried(id)); }
  bool Carries(int id) const { return carried_.count(id) > 0; }
  const Type& TypeOf(int id) const { return builder_.TypeOf(Carried(id)); }
  ForwardStage Finish(bool first, bool last) &&;

 protected:
  void Carry(int id, ValueId value) { carried_[id] = value; }
  ValueId Carried(int id) const { return carried_.at(id); }
  // An input of the stage's tokens: of each sequence as many as it has positions, from `first` on.
  ValueId TakeTokens(int64_t first = 0) {
    return AddInput(Tokens(), {.edge = Crossing::kNoEdge, .first = first}, "tokens");
  }
  // For targets of tokens from this place of their sequences on.
  void TargetsFrom(int64_t first) { stage_.first_target = first; }
  // Positions of the stage's tokens and activations from now on.
  void SetPositions(int64_t positions) { positions_ = positions; }
  ValueId AddParam(Param param);
  // An output beside the result, as ForwardStage has them.
  void AddOutput(Role role, int index, ValueId value) { beside_.push_back({role, index, value}); }
  // Weights (rows, columns) of activations, normal with `stddev`, with weight decay.
  ValueId Matrix(const std::string& name, int64_t rows, int64_t columns, float stddev) {
    return Matrix(name, {dtype_, {rows, columns}}, stddev);
  }
  ValueId Matrix(const std::string& name, Type type, float stddev);
  // Zeros, the initial bias of a product.
  ValueId Bias(const std::string& name, int64_t size);
  // F32: scales and shifts of norms, and a router's bias.
  ValueId Vector(const std::string& name, int64_t size, Init init);
  // x plus the rows of a table of learned positions.
  ValueId AddPositions(ValueId x, ValueId table);
  // Rotary positions of all heads of queries and keys.
  ValueId Rotary(ValueId qkv, double heads, double kv_heads, double theta, const std::string& name);
  // Causal attention of packed queries, keys and values, also to those that earlier slices left;
  // leaves its own to later ones.
  ValueId Attention(ValueId qkv, double heads, double kv_heads, const std::string& name);
  // Adds `embedding.weight` (vocabulary, width), behind `name`, and looks the tokens from `first`
  // on up in it.
  ValueId EmbedTokens(int64_t vocabulary, float stddev, int64_t first = 0,
                      const std::string& name = "");
  // Adds `head.weight` (vocabulary, width), which may be the embedding's (Param::tied_to), and the
  // loss of x against the target.
  void HeadLoss(ValueId x, int64_t vocabulary, float stddev, bool tied);

  Type Tokens() const { return {DType::kI32, {microbatch_, positions_}}; }
  Type Activation() const { return {dtype_, {microbatch_, positions_, width_}}; }

  Builder builder_;
  ForwardStage stage_;  // so far; its graph is the builder's

 private:
  // The position of the first row of activations in its sequence.
  double first_position() const { return static_cast<double>(stage_.slice.index * positions_); }
  // The input with the positions of tokens in their documents, of packed sequences.
  ValueId PositionsInDocuments();

  ValueId AddInput(const Type& type, const Crossing& crossing, const std::string& name) {
    const auto index = static_cast<int>(stage_.inputs.size());
    stage_.inputs.push_back(crossing);
    return builder_.Input(Role::kInput, index, type, name);
  }

  const int64_t microbatch_;
  int64_t positions_;
  const int64_t width_;
  const DType dtype_;
  const bool packed_;
  int attention_layers_ = 0;
  ValueId in_documents_ = kNone;  // PositionsInDocuments, once it was asked for
  std::vector<Port> beside_;
  int checkpoints_ = 0;
  std::unordered_map<int, ValueId> carried_;  // by PartValue::id
};

// A family whose layers stand in a row (ValuesInARow).
class LayeredStage : public StageBuilder {
 public:
  LayeredStage(int64_t microbatch, int64_t positions, int64_t width, int layers,
               const BuildOptions& options, const SlicePlace& slice)
      : StageBuilder(microbatch, positions, width, options, slice), layers_(layers) {}

  void Part(int part) override;

 protected:
  virtual ValueId Embed() = 0;
  virtual ValueId Layer(ValueId x, int layer) = 0;  // `layer` counts in the whole model, from 0
  virtual void Loss(ValueId x) = 0;

 private:
  const int layers_;
};

// InvalidArgument for a model without experts and several ranks to share them out.
absl::Status CheckNotShared(int expert_ranks);

// InvalidArgument for a sequence of so many tokens that cannot be cut into `slices`, or that is
// packed and cut.
absl::Status CheckSlices(int context, const BuildOptions& options);

// A program per element of `layers_per_stage` (layers.h), with those of its later slices; `make`
// gives a fresh builder for each, and `values` are those that go from part to part. InvalidArgument
// if the numbers do not add up to `layers`, options.recompute is of other stages, or options.edges
// do not lead where the values go.
absl::StatusOr<std::vector<StageProgram>> BuildPrograms(
    int layers, const std::vector<int>& layers_per_stage, const BuildOptions& options,
    const std::vector<PartValue>& values,
    const std::function<std::unique_ptr<StageBuilder>(const SlicePlace& slice)>& make);

}  // namespace stringline
