#include "executor/checkpoint/param_places.h"

namespace stringline {

void ParamPlaces::Add(const Param& param, absl::Span<float> values) {
  const std::string& name = param.tied_to.empty() ? param.name : param.tied_to;
  const auto [at, added] = index_.emplace(name, places_.size());
  if (added) places_.push_back({&param, {}});
  places_[at->second].values.push_back(values);
}

ParamPlaces PlacesOf(Trainer& trainer) {
  ParamPlaces places;
  const absl::Span<const StageProgram> programs = trainer.programs();
  for (size_t s = 0; s < programs.size(); ++s) {
    for (size_t i = 0; i < programs[s].params.size(); ++i) {
      places.Add(programs[s].params[i],
                 trainer.param(StageId(static_cast<int32_t>(s)), static_cast<int>(i)));
    }
  }
  return places;
}

}  // namespace stringline
