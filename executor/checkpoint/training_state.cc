#include "executor/checkpoint/training_state.h"

#include <map>
#include <string>

namespace stringline {
namespace {

const std::string& NameOf(const Param& param) {
  return param.tied_to.empty() ? param.name : param.tied_to;
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
    tensors[index.at(NameOf(param))].parts.push_back(part);
  }
  return tensors;
}

}  // namespace stringline
