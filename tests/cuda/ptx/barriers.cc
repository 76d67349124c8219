#include "tests/cuda/ptx/barriers.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace stringline::ptx {
namespace {

void Restore(const std::vector<Saved>& all) {
  for (const Saved& saved : all) {
    if (saved.piece.constant) continue;
    std::memcpy(reinterpret_cast<char*>(saved.piece.begin), saved.bytes.data(), saved.bytes.size());
  }
}

bool IsPresent(const std::vector<Saved>& all) {
  return std::all_of(all.begin(), all.end(), [](const Saved& saved) {
    return std::memcmp(reinterpret_cast<const char*>(saved.piece.begin), saved.bytes.data(),
                       saved.bytes.size()) == 0;
  });
}

}  // namespace

Played BarrierRemoval::Play(Player* player, const Program& program, const LaunchSize& size,
                            void* const* args, const LaunchMemory& allowed) {
  const bool is_new = barriers_.count(&program) == 0;
  std::map<int32_t, Barrier>& barriers = barriers_[&program];
  for (size_t i = 0; is_new && i < program.steps.size(); ++i) {
    const Kind kind = program.steps[i].kind;
    if (kind == Kind::kBarrier || kind == Kind::kWarpBarrier) barriers[static_cast<int>(i)] = {};
  }
  const bool some_left = std::any_of(barriers.begin(), barriers.end(), [](const auto& barrier) {
    return !barrier.second.noticed && barrier.second.launches < kMostLaunches;
  });
  if (!some_left) return player->Play(program, size, args, allowed);
  std::vector<Saved> before;
  const Played played = player->Play(program, size, args, allowed, &before);
  if (!played.fault.empty()) return played;
  std::vector<Saved> after = before;
  for (Saved& saved : after) {
    std::memcpy(saved.bytes.data(), reinterpret_cast<const char*>(saved.piece.begin),
                saved.bytes.size());
  }
  for (auto& [step, barrier] : barriers) {
    if (barrier.noticed || barrier.launches == kMostLaunches) continue;
    ++barrier.launches;
    player->LeaveOut(&program, step);
    barrier.noticed = Notices(player, program, size, args, before, after, played.instructions);
    noticed_ += barrier.noticed ? 1 : 0;
  }
  player->LeaveOut(nullptr, -1);
  Restore(after);
  return played;
}

bool BarrierRemoval::Notices(Player* player, const Program& program, const LaunchSize& size,
                             void* const* args, const std::vector<Saved>& before,
                             const std::vector<Saved>& after, int64_t instructions) {
  Restore(before);
  // Only what the right launch used.
  LaunchMemory allowed;
  for (const Saved& saved : before) {
    if (!saved.piece.constant) allowed.allocations.push_back(saved.piece);
  }
  if (allowed.allocations.empty()) return false;
  player->LimitInstructions(20 * instructions + 1'000'000);
  const Played without = player->Play(program, size, args, allowed);
  player->LimitInstructions(Player::kMostInstructions);
  return !without.fault.empty() || !IsPresent(after);
}

std::vector<BarrierRemoval::Unnoticed> BarrierRemoval::UnnoticedOf(Kind kind) const {
  std::vector<Unnoticed> all;
  for (const auto& [program, barriers] : barriers_) {
    for (const auto& [index, barrier] : barriers) {
      const Step& step = program->steps[static_cast<size_t>(index)];
      if (barrier.noticed || step.kind != kind) continue;
      all.push_back({program->shown, absl::StrCat(program->TextOf(step), ", left out of ",
                                                  barrier.launches, " launches")});
    }
  }
  return all;
}

}  // namespace stringline::ptx
