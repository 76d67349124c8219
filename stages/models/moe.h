// Mixture of experts: in all layers but the first few of a decoder, instead of one MLP a router and
// many small ones (Mixtral, Qwen2-MoE and Qwen3-MoE, DeepSeek-V2 and V3):
//
//   h    = norm(x)
//   x   += down(silu(gate) up) of the shared expert's gate_up(h), if the model has one
//   x   += sum over k of weight_k down_k(silu(gate) up), gate and up of gate_up_k(h)
//
// with the K experts and their weights from route (ops.def) of router(h). The weight is applied
// before `down`, so the experts' results need not be kept for its gradient.
//
// The experts are shared out over `expert_ranks` ranks, each of which runs the same program on its
// own microbatch: rows go to the rank of their expert and back. Parameters of experts are shared
// (Param::expert), all others are equal on all of these ranks.
//
// Parameters: router.weight (E,C), router.bias (E) if balance_rate is not 0, experts.gate_up.weight
// (e,2F,C), experts.down.weight (e,C,F), and shared.gate_up.weight, shared.down.weight as those of
// an MLP. First values are those of the MLP's weights. The router reads h as F32, and its weight,
// its logits and the weights of choices are F32.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/models/decoder.h"

namespace stringline {

// The part of a decoder's CheckShape for its experts.
absl::Status CheckMoe(const DecoderShape& shape);

// InvalidArgument if the experts cannot be shared out among so many ranks, or if the rows that a
// rank may receive would pass 2^31 elements.
absl::Status CheckExpertRanks(const DecoderShape& shape, int expert_ranks);

// The most rows that an expert takes of a rank's microbatch: `capacity` times its rows under an
// even choice, rounded up; without a capacity all tokens.
int64_t RowsPerExpert(const DecoderShape& shape);

// The most rows that the experts of a rank can receive from a microbatch of every rank.
int64_t RowsPerRank(const DecoderShape& shape, int expert_ranks);

// Parameters of a layer's router and experts, all ranks together.
int64_t CountMoeParams(const DecoderShape& shape);
// Their multiplications and additions per token.
double MoeWorkPerToken(const DecoderShape& shape);

class MoeStage : public DecoderStage {
 public:
  MoeStage(const DecoderShape& shape, const BuildOptions& options, const SlicePlace& slice)
      : DecoderStage(shape, options, slice), expert_ranks_(options.expert_ranks) {}

 protected:
  ValueId MlpHalf(ValueId x, int layer, const std::string& name) override;

 private:
  struct Routed {
    ValueId weight, choice;
  };
  // Rows on their way: `order` within the rank, the others between ranks.
  struct Way {
    ValueId order, counts, received;
  };
  Routed Route(ValueId h, const std::string& name);
  Way Plan(ValueId choice, const std::string& name);
  ValueId Experts(ValueId h, const Routed& routed, const Way& way, const std::string& name);
  // Weights (e, rows, columns) of this rank's experts.
  ValueId ExpertWeights(const std::string& name, int64_t rows, int64_t columns, float stddev);

  const int expert_ranks_;
  int moe_layers_ = 0;  // in this stage, so far
};

}  // namespace stringline
