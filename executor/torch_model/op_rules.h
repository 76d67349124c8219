// The rules by which ops of a torch program become nodes of ours, by the ops' names: values have
// the sizes of the program's.
#pragma once

#include <map>
#include <string>

#include "executor/torch_model/torch_operands.h"

namespace stringline {

// Makes the `output`-th result of the node. Unimplemented for arguments without a counterpart.
using OpRule = absl::StatusOr<ValueId> (*)(TorchOperands& in, const TorchNode& node, size_t output);
using OpRules = std::map<std::string, OpRule>;

// Functions of numbers, comparisons, and reductions.
const OpRules& ArithmeticRules();
// Other places, sizes and orders of the same numbers.
const OpRules& LayoutRules();
// Choices by value, and places given by values.
const OpRules& IndexRules();
// LSTM and its relatives.
const OpRules& RecurrentRules();
// Products of matrices, tables, norms and attention.
const OpRules& LayerRules();
// Convolutions and poolings.
const OpRules& WindowRules();

}  // namespace stringline
