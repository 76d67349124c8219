#include "executor/checkpoint/param_places.h"

#include <algorithm>
#include <cstring>

#include "schedlang/base/sl_check.h"

namespace stringline {

std::vector<ParamPlace::Range> ParamPlace::Ranges(int64_t first, int64_t count) const {
  std::vector<Range> ranges;
  for (size_t p = 0; p < pieces.size(); ++p) {
    const Piece& piece = pieces[p];
    const int64_t begin = std::max(first, piece.first);
    const int64_t end = std::min(first + count, piece.first + piece.count);
    if (begin >= end) continue;
    Range& range = ranges.emplace_back();
    range.first = begin;
    range.count = end - begin;
    range.piece = p;
    for (const absl::Span<float> copy : piece.copies) {
      range.copies.push_back(
          copy.subspan(static_cast<size_t>(begin - piece.first), static_cast<size_t>(end - begin)));
    }
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

void ParamPlaces::AddPart(const Param& param, int expert, int64_t first, int64_t count,
                          absl::Span<float> values) {
  SL_CHECK(values.empty() || static_cast<int64_t>(values.size()) == count)
      << param.name << ": " << values.size();
  const std::string& name = param.tied_to.empty() ? param.name : param.tied_to;
  const auto [at, added] = index_.emplace(name, places_.size());
  if (added) places_.push_back({param, device_, {}});
  ParamPlace& place = places_[at->second];
  if (param.expert) {
    int64_t& rows = place.param.type.shape[0];
    rows = std::max(rows, param.type.shape[0] * (expert + int64_t{1}));
  }
  const int64_t begin = expert * param.type.elements() + first;
  const auto piece = std::lower_bound(
      place.pieces.begin(), place.pieces.end(), begin,
      [](const ParamPlace::Piece& one, int64_t wanted) { return one.first < wanted; });
  if (piece == place.pieces.end() || piece->first != begin) {
    const auto made = place.pieces.insert(piece, {begin, count, {}});
    if (!values.empty()) made->copies.push_back(values);
    return;
  }
  SL_CHECK(piece->count == count) << param.name << ": " << piece->count << " " << count;
  if (!values.empty()) piece->copies.push_back(values);
}

namespace {

// A sharded parameter: its blocks that follow each other in memory are a part.
void AddShared(const Trainer& trainer, StageId stage, int index, int coordinate,
               ParamPlaces* places) {
  const StatePieces& pieces = trainer.pieces(stage);
  const std::vector<StateBlock>& blocks = pieces.blocks();
  const Param& param = trainer.programs()[stage.value].params[index];
  std::vector<float*> here(blocks.size(), nullptr);
  if (trainer.holds(stage, coordinate)) {
    for (const OwnedBlock& owned : trainer.OwnedBlocks(stage, coordinate)) {
      here[owned.block] = owned.values.data();
    }
  }
  size_t b = 0;
  while (blocks[b].param != index) ++b;
  while (b < blocks.size() && blocks[b].param == index) {
    const auto block = static_cast<int>(b);
    int64_t count = 0;
    size_t end = b;
    for (; end < blocks.size() && blocks[end].param == index &&
           pieces.BucketOf(static_cast<int>(end)) == pieces.BucketOf(block) &&
           pieces.OwnerOf(static_cast<int>(end)) == pieces.OwnerOf(block);
         ++end) {
      count += blocks[end].count;
    }
    const absl::Span<float> values =
        here[b] == nullptr ? absl::Span<float>() : absl::MakeSpan(here[b], count);
    places->AddPart(param, param.expert ? trainer.mesh().expert_of(coordinate) : 0, blocks[b].first,
                    count, values);
    b = end;
  }
}

}  // namespace

ParamPlaces PlacesOf(Trainer& trainer) {
  ParamPlaces places(trainer.device());
  const Mesh& mesh = trainer.mesh();
  const absl::Span<const StageProgram> programs = trainer.programs();
  for (int c = 0; c < mesh.coordinates(); ++c) {
    for (size_t s = 0; s < programs.size(); ++s) {
      const StageId stage(static_cast<int32_t>(s));
      for (size_t i = 0; i < programs[s].params.size(); ++i) {
        if (trainer.sharing().sharding == Sharding::kParameters) {
          AddShared(trainer, stage, static_cast<int>(i), c, &places);
          continue;
        }
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
