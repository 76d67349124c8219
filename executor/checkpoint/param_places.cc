#include "executor/checkpoint/param_places.h"

#include <algorithm>
#include <cstring>

#include "schedlang/base/sl_check.h"

namespace stringline {

int64_t ParamPlace::PieceSize() const {
  return param.type.elements() / static_cast<int64_t>(pieces.size());
}

std::vector<ParamPlace::Range> ParamPlace::Ranges(int64_t first, int64_t count) const {
  const int64_t size = PieceSize();
  std::vector<Range> ranges;
  for (int64_t at = first; at < first + count;) {
    const int64_t piece = at / size, within = at % size;
    const int64_t here = std::min(size - within, first + count - at);
    Range& range = ranges.emplace_back();
    range.first = at;
    range.count = here;
    for (const absl::Span<float> copy : pieces[static_cast<size_t>(piece)]) {
      SL_CHECK(static_cast<int64_t>(copy.size()) == size) << param.name << ": " << copy.size();
      range.copies.push_back(copy.subspan(static_cast<size_t>(within), static_cast<size_t>(here)));
    }
    at += here;
  }
  return ranges;
}

absl::Status ParamPlace::Read(absl::Span<const float> values, float* to) const {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
  if (device != nullptr) return device->CopyNow(to, values.data(), bytes);
  std::memcpy(to, values.data(), bytes);
  return absl::OkStatus();
}

absl::Status ParamPlace::Write(const float* from, absl::Span<float> values) const {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
  if (device != nullptr) return device->CopyNow(values.data(), from, bytes);
  std::memcpy(values.data(), from, bytes);
  return absl::OkStatus();
}

void ParamPlaces::Add(const Param& param, absl::Span<float> values, int piece) {
  const std::string& name = param.tied_to.empty() ? param.name : param.tied_to;
  const auto [at, added] = index_.emplace(name, places_.size());
  if (added) places_.push_back({param, device_, {}});
  ParamPlace& place = places_[at->second];
  if (place.pieces.size() <= static_cast<size_t>(piece)) {
    place.pieces.resize(static_cast<size_t>(piece) + 1);
    place.param.type.shape[0] = param.type.shape[0] * (piece + int64_t{1});
  }
  if (!values.empty()) place.pieces[static_cast<size_t>(piece)].push_back(values);
}

ParamPlaces PlacesOf(Trainer& trainer) {
  ParamPlaces places(trainer.device());
  const Mesh& mesh = trainer.mesh();
  const absl::Span<const StageProgram> programs = trainer.programs();
  for (int c = 0; c < mesh.coordinates(); ++c) {
    for (size_t s = 0; s < programs.size(); ++s) {
      const StageId stage(static_cast<int32_t>(s));
      for (size_t i = 0; i < programs[s].params.size(); ++i) {
        const Param& param = programs[s].params[i];
        places.Add(param,
                   trainer.holds(stage, c) ? trainer.param(stage, static_cast<int>(i), c)
                                           : absl::Span<float>(),
                   param.expert ? mesh.expert_of(c) : 0);
      }
    }
  }
  return places;
}

}  // namespace stringline
