// The loss of a decoder with experts in double precision, token by token and written down as
// plainly as it can be: what the stages' graphs and kernels are compared with. It knows no graph
// and no rows that travel.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stages/models/decoder.h"

namespace stringline::plain {

using Numbers = std::vector<double>;

// What is chosen, and no gradient goes through, of one layer.
struct Routing {
  std::vector<std::vector<int>> choice;  // by token
  std::vector<std::vector<bool>> taken;  // by token and choice: within the expert's capacity
  Numbers load;                          // by expert: how often chosen
};

struct Result {
  double loss = 0;     // the sum over the tokens
  Numbers aux_losses;  // by MoE layer
  std::vector<int> dropped;
  // The smallest distance between two numbers of which the larger was chosen: below what single
  // precision tells apart, the choice may differ.
  double gap = 1;
};

// Parameters by name, as the stages have them. `routing` is by MoE layer: empty, it is found and
// stored; otherwise it is what is chosen.
Result Loss(const DecoderShape& shape, const std::map<std::string, Numbers>& params,
            const std::vector<int>& tokens, const std::vector<int>& targets,
            std::vector<Routing>* routing);

}  // namespace stringline::plain
