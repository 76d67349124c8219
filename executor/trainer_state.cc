// What of a training is saved and resumed, as it lies in this process.
#include "executor/trainer.h"

namespace stringline {

std::vector<StatePiece> Trainer::LocalState() const {
  std::vector<StatePiece> all;
  for (int c = 0; c < settings_.mesh.coordinates(); ++c) {
    for (int32_t s = 0; s < stages(); ++s) {
      const StageId stage(s);
      if (!holds(stage, c)) continue;
      const std::vector<Stages::Owned> owned = OwnedBlocks(stage, c);
      const std::vector<ParamBlock>& blocks = copies_[c].blocks[s];
      for (size_t b = 0; b < blocks.size(); ++b) {
        const StateBlock& cut = pieces(stage).blocks()[owned[b].block];
        const ParamBlock& block = blocks[b];
        all.push_back({stage, cut.param, c, cut.first, block.values, block.m, block.v});
      }
    }
  }
  return all;
}

}  // namespace stringline
