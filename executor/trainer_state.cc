// What of a training is saved and resumed, as it lies in this process.
#include "executor/trainer.h"

namespace stringline {

std::vector<StatePiece> Trainer::StatePieces() const {
  std::vector<StatePiece> pieces;
  for (size_t c = 0; c < copies_.size(); ++c) {
    const auto coordinate = static_cast<int>(c);
    for (int32_t s = 0; s < stages(); ++s) {
      const std::vector<ParamBlock>& blocks = copies_[c].blocks[s];
      for (size_t p = 0; p < blocks.size(); ++p) {
        const ParamBlock& block = blocks[p];
        pieces.push_back(
            {StageId(s), static_cast<int>(p), coordinate, 0, block.values, block.m, block.v});
      }
    }
  }
  return pieces;
}

}  // namespace stringline
