// The loss of a decoder with experts in double precision, token by token and as plain as possible:
// the reference for the stages' graphs and kernels. It has no graph and no exchange of rows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stages/models/decoder.h"

namespace stringline::plain {

using Numbers = std::vector<double>;

// The choices of one layer, through which no gradient flows.
struct Routing {
  std::vector<std::vector<int>> choice;  // by token
  std::vector<std::vector<bool>> taken;  // by token and choice: within the expert's capacity
  Numbers load;                          // by expert: number of choices
};

struct Result {
  double loss = 0;     // the sum over the tokens
  Numbers aux_losses;  // by MoE layer
  std::vector<int> dropped;
  // The smallest distance between a chosen number and a smaller rejected one: below single
  // precision's resolution, the choice may differ.
  double gap = 1;
};

// Parameters by name, as in the stages. `routing` is by MoE layer: if empty, the choices are found
// and stored; otherwise they are taken from it.
Result Loss(const DecoderShape& shape, const std::map<std::string, Numbers>& params,
            const std::vector<int>& tokens, const std::vector<int>& targets,
            std::vector<Routing>* routing);

}  // namespace stringline::plain
