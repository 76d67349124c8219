// Costs of a stage's parts (plan/parts.h) from a model's shape: the halves of its layers
// (formula.h), and between them the collectives of t tensor-parallel ranks, and those of X
// coordinates that share out experts.
//
// Tensor parallelism with sequence parallelism (Korthikanti et al. 2022, Reducing Activation
// Recomputation in Large Transformer Models, section 4.2.2): between the halves of layers a rank
// has the rows of its share of the sequence. All rows are gathered before attention and before the
// feed-forward network, and outputs are reduced and scattered behind each. With u bytes of an
// activation, G(b) = (t - 1) (l + b / (t w)) is either of the two for b bytes, by a ring
// (data_parallel.h). Where experts are shared out, a mixture of experts sends the rows of a rank, k
// (top_k) for each of its tokens, to the coordinates of their experts and back, A = (X - 1) (l + k
// u / (t X w)) with the link between these, at even load; and the tensor-parallel ranks, which have
// a slice of every expert, gather and scatter these rows, as well as those of a shared expert
// (Megatron-LM's MoEAlltoAllTokenDispatcher). In Megatron's layout, where experts are whole, a row
// goes to another node once for each of its experts there, as in that dispatcher, or, where the
// model chooses experts by groups, once to a node and then on inside it (DeepSeek-AI 2024,
// DeepSeek-V3 Technical Report, section 3.2.2). So
//
//                a dense layer, or experts not shared out     experts shared out
//   F.dispatch   G(u) + G(u)                                  G(u) + A + N
//   F.combine    G(u) + G(u)                                  N + A + G(u)
//   B.combine    F.combine + G(u)                             F.combine + N
//   B.dispatch   F.dispatch + G(u)                            F.dispatch + G(u)
//
// with N = G(k u), and G(u) more if there is a shared expert. The second G of F.combine is that
// before the next layer's attention, for which a stage's last layer counts that of its first one.
// The gradient of a gather is a reduce-scatter, and the other way round: each takes as long. The
// last terms of B gather the inputs of the weight gradients again, since a rank has kept only its
// own rows of them (the paper's choice, too). They are on the network lane of the input gradient,
// where other computation can hide them; the rows that an I gathers for a later W are not counted
// in memory. The head gathers its input, in post: on the compute lane, since nothing runs beside
// it.
//
// In Megatron's layout computation hides the share `hidden` of all these (formula.h), but nothing
// of A where experts drop rows over a capacity: exchanges that are hidden came with those that drop
// none (the recipes of NVIDIA's Megatron Bridge 25.09 and 25.11).
//
// Not counted: the embedding's collectives and the loss's, uneven load, and a router's counts of
// rows. In a stage with layers of both kinds, every part is the mean over its layers, so their sum
// is right. A stage that recomputes repeats the collectives of its F, and nothing hides them. A
// chunk's part is a share of the whole part (overlapped.h), latencies included.
#pragma once

#include "schedlang/costs/data_parallel.h"
#include "schedlang/costs/formula.h"
#include "schedlang/costs/overlapped.h"

namespace stringline {

// True if layers have collectives inside.
bool HasCollectivesInside(const ModelShape& model);

PartCosts PartsOf(const ModelShape& model, const MachineSpeed& machine, const StagePart& part,
                  const LayerLinks& links);

}  // namespace stringline
