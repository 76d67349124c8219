// Every process lists all parts in one order: a sum travels with its index in the list. Process 0
// compares, and tells the others its verdict, so that all end with the same message.
#include "executor/run/copy_check.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/engine/packed_numbers.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int64_t kAtOnce = 1 << 20;  // values copied from a GPU

struct ToldSum {
  int64_t part = 0;
  uint64_t sum = 0;
};

const std::string& NameOfParam(const Param& param) {
  return param.tied_to.empty() ? param.name : param.tied_to;
}

}  // namespace

uint64_t SumOfCopy(absl::Span<const float> values, int64_t first) {
  uint64_t sum = 0;
  auto odd = static_cast<uint32_t>(2 * static_cast<uint64_t>(first) + 1);
  for (const float value : values) {
    sum += static_cast<uint64_t>(std::bit_cast<uint32_t>(value)) * odd;
    odd += 2;
  }
  return sum;
}

CopyCheck::CopyCheck(Trainer* trainer) : trainer_(trainer) {
  const auto stages = static_cast<int32_t>(trainer->programs().size());
  for (int c = 0; c < trainer->mesh().coordinates(); ++c) {
    for (int32_t s = 0; s < stages; ++s) AddParts(c, StageId(s));
  }
  std::map<std::pair<std::string, int64_t>, size_t> index;
  std::vector<std::vector<int>> held;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const Param& param = trainer->programs()[part.stage.value].params[part.param];
    const auto [at, made] = index.emplace(std::pair(NameOfParam(param), part.first), held.size());
    if (made) held.emplace_back();
    held[at->second].push_back(static_cast<int>(i));
  }
  for (std::vector<int>& copies : held) {
    if (copies.size() < 2) continue;
    for (const int i : copies) parts_[i].tells = true;
    copied_.push_back(std::move(copies));
  }
}

// Whole parameters, or of sharded ones the blocks that the coordinate owns.
void CopyCheck::AddParts(int coordinate, StageId stage) {
  const Mesh& mesh = trainer_->mesh();
  const std::vector<Param>& params = trainer_->programs()[stage.value].params;
  const auto begin_of = [&](const Param& param) {
    return param.expert ? mesh.expert_of(coordinate) * param.type.elements() : 0;
  };
  const StateSharing sharing = trainer_->sharing();
  if (sharing.sharding != Sharding::kParameters) {
    for (size_t p = 0; p < params.size(); ++p) {
      parts_.push_back({coordinate, stage, static_cast<int>(p), -1, 0, begin_of(params[p])});
    }
    return;
  }
  const StatePieces& pieces = trainer_->pieces(stage);
  int place = 0;
  for (const int b : pieces.BlocksOf(mesh.shard_of(coordinate))) {
    const StateBlock& block = pieces.blocks()[b];
    parts_.push_back(
        {coordinate, stage, block.param, b, place++, begin_of(params[block.param]) + block.first});
  }
}

int CopyCheck::RankOf(const Part& part) const {
  const Plan& plan = trainer_->plan();
  return part.coordinate * plan.ranks() + plan.stage(part.stage).rank.value;
}

// "rank 3 on gpu1 (stage 1)"
std::string CopyCheck::NameOf(const Part& part) const {
  return absl::StrCat(NameOfRank(trainer_->world(), RankOf(part)), " (stage ", part.stage.value,
                      ")");
}

absl::StatusOr<uint64_t> CopyCheck::SumOf(const Part& part) {
  absl::Span<const float> values;
  if (part.block < 0) {
    values = trainer_->param(part.stage, part.param, part.coordinate);
  } else {
    values = trainer_->OwnedBlocks(part.stage, part.coordinate)[part.place].values;
  }
  Device* const device = trainer_->device();
  if (device->is_host()) return SumOfCopy(values);
  uint64_t sum = 0;
  const auto all = static_cast<int64_t>(values.size());
  buffer_.resize(static_cast<size_t>(std::min(kAtOnce, all)));
  for (int64_t at = 0; at < all; at += kAtOnce) {
    const auto piece = values.subspan(static_cast<size_t>(at), static_cast<size_t>(kAtOnce));
    SL_RETURN_IF_ERROR(device->CopyNow(buffer_.data(), piece.data(),
                                       static_cast<int64_t>(piece.size() * sizeof(float))));
    sum += SumOfCopy(absl::MakeConstSpan(buffer_).subspan(0, piece.size()), at);
  }
  return sum;
}

// By part, in process 0; the other processes have their own.
absl::StatusOr<std::vector<uint64_t>> CopyCheck::AllSums() {
  PackedNumbers mine;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    if (!part.tells || !trainer_->holds(part.stage, part.coordinate)) continue;
    SL_ASSIGN_OR_RETURN(const uint64_t sum, SumOf(part));
    mine.Add(ToldSum{static_cast<int64_t>(i), sum});
  }
  std::vector<std::string> told = {mine.bytes()};
  if (World* const world = trainer_->world(); world != nullptr) {
    SL_ASSIGN_OR_RETURN(told, world->GiveToFirst(mine.bytes()));
  }
  std::vector<uint64_t> sums(parts_.size());
  for (const std::string& one : told) {
    for (NumberReader numbers(one); !numbers.done();) {
      const auto sum = numbers.Take<ToldSum>();
      sums[static_cast<size_t>(sum.part)] = sum.sum;
    }
  }
  return sums;
}

// "" if these copies are equal. Where most are, the others have drifted; of two, either may have.
std::string CopyCheck::DescribeOne(absl::Span<const int> copies,
                                   const std::vector<uint64_t>& sums) const {
  std::map<uint64_t, size_t> count;
  for (const int i : copies) ++count[sums[i]];
  if (count.size() == 1) return "";
  size_t most = 0;
  for (const auto& [sum, of] : count) most = std::max(most, of);
  const auto kept =
      std::find_if(copies.begin(), copies.end(), [&](int i) { return count.at(sums[i]) == most; });
  std::vector<std::string> drifted, others;
  for (const int i : copies) {
    const bool same = sums[i] == sums[*kept];
    (same ? others : drifted).push_back(NameOf(parts_[i]));
  }
  const Part& first = parts_[copies[0]];
  const std::string& name =
      NameOfParam(trainer_->programs()[first.stage.value].params[first.param]);
  if (2 * most > copies.size()) {
    return absl::StrCat("the copy of ", name, " on ", absl::StrJoin(drifted, ", "),
                        " has drifted: ", absl::StrJoin(others, ", "),
                        others.size() == 1 ? " holds" : " hold", " other values");
  }
  return absl::StrCat("the copies of ", name, " on ", absl::StrJoin(drifted, ", "), " and on ",
                      absl::StrJoin(others, ", "), " hold different values");
}

std::string CopyCheck::Describe(const std::vector<uint64_t>& sums) const {
  std::string text;
  std::map<std::string, bool> params;
  for (const std::vector<int>& copies : copied_) {
    const std::string one = DescribeOne(copies, sums);
    if (one.empty()) continue;
    if (text.empty()) text = one;
    const Part& part = parts_[copies[0]];
    params[NameOfParam(trainer_->programs()[part.stage.value].params[part.param])] = true;
  }
  if (params.size() > 1) {
    absl::StrAppend(&text, ", and so of ", params.size() - 1,
                    params.size() == 2 ? " further parameter" : " further parameters");
  }
  return text;
}

absl::Status CopyCheck::Compare(int64_t step) {
  if (!has_copies()) return absl::OkStatus();
  SL_ASSIGN_OR_RETURN(const std::vector<uint64_t> sums, AllSums());
  World* const world = trainer_->world();
  std::string verdict;
  if (IsFirst(world)) verdict = Describe(sums);
  if (world != nullptr) {
    SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world->Exchange(verdict));
    verdict = all.front();
  }
  if (verdict.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(step == 0 ? "before the first step" : absl::StrCat("after step ", step), " ",
                   verdict, "; memory, a link or a library of that host may be faulty"));
}

}  // namespace stringline
