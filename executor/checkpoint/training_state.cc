#include "executor/checkpoint/training_state.h"

#include <map>
#include <string>

namespace stringline {
namespace {

const std::string& NameOf(const Param& param) {
  return param.tied_to.empty() ? param.name : param.tied_to;
}

// True if `next` lies behind `part`, in the parameter and in memory, and now belongs to it. A
// parameter's blocks do wherever one coordinate owns them all, and then its files are written and
// read in large pieces: a stored matrix that is transposed has a value of each row at a time.
bool Lengthened(StateTensor::Part* part, const StateTensor::Part& next) {
  if (next.first != part->end()) return false;
  for (int kind = 0; kind < kStateKinds; ++kind) {
    if (next.of[kind].data() != part->of[kind].data() + part->of[kind].size()) return false;
  }
  for (int kind = 0; kind < kStateKinds; ++kind) {
    absl::Span<float>& of = part->of[kind];
    of = {of.data(), of.size() + next.of[kind].size()};
  }
  return true;
}

}  // namespace

std::vector<StateTensor> StateOf(const Trainer& trainer) {
  std::vector<StateTensor> tensors;
  std::map<std::string, size_t> index;
  for (const StageProgram& program : trainer.programs()) {
    for (const Param& param : program.params) {
      if (!index.emplace(NameOf(param), tensors.size()).second) continue;
      StateTensor& tensor = tensors.emplace_back();
      tensor.param = param;
      if (param.expert) tensor.param.type.shape[0] *= trainer.mesh().expert;
    }
  }
  for (const StatePiece& piece : trainer.LocalState()) {
    const Param& param = trainer.programs()[piece.stage.value].params[piece.param];
    const int expert = param.expert ? trainer.mesh().expert_of(piece.coordinate) : 0;
    StateTensor::Part part;
    part.first = expert * param.type.elements() + piece.begin;
    part.of[kValues] = piece.values;
    part.of[kFirstMoment] = piece.m;
    part.of[kSecondMoment] = piece.v;
    std::vector<StateTensor::Part>& parts = tensors[index.at(NameOf(param))].parts;
    if (parts.empty() || !Lengthened(&parts.back(), part)) parts.push_back(part);
  }
  return tensors;
}

}  // namespace stringline
