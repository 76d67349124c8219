// The common part of the models: the construction of a stage's forward graph, and its parameters.
//
// A family is a class that defines an embedding, a layer and a loss; BuildPrograms puts them
// together, cut as requested. A layer's parameters carry its number in the whole model, so neither
// their names nor their first values depend on the cut.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/builder.h"
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
};

// Builds a stage's forward graph.
class StageBuilder {
 public:
  // Activations are of options.dtype (microbatch, positions, width), tokens I32 (microbatch,
  // positions): the positions of a whole sequence, or of a slice of it.
  StageBuilder(int64_t microbatch, int64_t positions, int64_t width, const BuildOptions& options,
               const SlicePlace& slice = {})
      : microbatch_(microbatch),
        positions_(positions),
        width_(width),
        dtype_(options.dtype),
        packed_(options.packed),
        slice_(slice) {}
  virtual ~StageBuilder() = default;
  StageBuilder(const StageBuilder&) = delete;
  StageBuilder& operator=(const StageBuilder&) = delete;

  virtual ValueId Embed() = 0;                      // on the first stage: from tokens
  virtual ValueId Layer(ValueId x, int layer) = 0;  // `layer` counts in the whole model
  virtual void Loss(ValueId x) = 0;                 // on the last stage

  ValueId Receive();  // on the other stages: the incoming activation
  void Send(ValueId x) { builder_.Output(Role::kOutput, 0, x); }
  // Recomputing may begin anew at x: a layer's input.
  void Checkpoint(ValueId x) { AddOutput(Role::kSaved, checkpoints_++, x); }
  ForwardStage Finish(bool first, bool last) &&;

 protected:
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
  // Adds `embedding.weight` (vocabulary, width) and looks the tokens up in it.
  ValueId EmbedTokens(int64_t vocabulary, float stddev);
  // Adds `head.weight` (vocabulary, width), which may be the embedding's (Param::tied_to), and the
  // loss of x against the target.
  void HeadLoss(ValueId x, int64_t vocabulary, float stddev, bool tied);

  Type Tokens() const { return {DType::kI32, {microbatch_, positions_}}; }
  Type Activation() const { return {dtype_, {microbatch_, positions_, width_}}; }

  Builder builder_;
  std::vector<Param> params_;

 private:
  // The position of the first row of activations in its sequence.
  double first_position() const { return static_cast<double>(slice_.index * positions_); }
  // The input with the positions of tokens in their documents, of packed sequences.
  ValueId PositionsInDocuments();

  const int64_t microbatch_, positions_, width_;
  const DType dtype_;
  const bool packed_;
  const SlicePlace slice_;
  int attention_layers_ = 0;
  ValueId in_documents_ = kNone;  // PositionsInDocuments, once it was asked for
  std::vector<Port> beside_;
  int checkpoints_ = 0;
};

// InvalidArgument for a model without experts and several ranks to share them out.
absl::Status CheckNotShared(int expert_ranks);

// InvalidArgument for a sequence of so many tokens that cannot be cut into `slices`, or that is
// packed and cut.
absl::Status CheckSlices(int context, const BuildOptions& options);

// A program per element of `layers_per_stage` (layers.h), with those of its later slices; `make`
// gives a fresh builder for each. InvalidArgument if the numbers do not add up to `layers`, or
// options.recompute is of other stages.
absl::StatusOr<std::vector<StageProgram>> BuildPrograms(
    int layers, const std::vector<int>& layers_per_stage, const BuildOptions& options,
    const std::function<std::unique_ptr<StageBuilder>(const SlicePlace& slice)>& make);

}  // namespace stringline
