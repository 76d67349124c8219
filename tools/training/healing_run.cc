#include "tools/training/healing_run.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/held_state.h"
#include "executor/processes/heal_decision.h"
#include "executor/processes/healing.h"
#include "executor/processes/member_parcels.h"
#include "executor/processes/return_door.h"
#include "tools/training/restarts.h"

namespace stringline {
namespace {

int64_t WaitMsOf(const RunConfig& config) {
  constexpr int64_t kForeverMs = int64_t{1} << 40;
  return config.timeout_ns > 0 ? std::max<int64_t>(config.timeout_ns / 1'000'000, 1) : kForeverMs;
}

class ChangingRun {
 public:
  ChangingRun(const RunConfig& config, const Identity& identity, const ConfigLines& agreement,
              const PartOfRun& part, const Output& output)
      : config_(config),
        start_{identity, config.mesh.data, agreement},
        part_(part),
        output_(output),
        now_(config),
        healing_(identity, config.heal_return),
        parcels_(&healing_, WaitMsOf(config)),
        held_(&parcels_) {}
  ChangingRun(const ChangingRun&) = delete;
  ChangingRun& operator=(const ChangingRun&) = delete;

  int Run(bool comes_back) {
    std::optional<int> status;
    if (comes_back) status = ComeBack();
    while (!status.has_value()) status = RunPart();
    return *status;
  }

 private:
  // An exit status; nothing: the run goes on.
  std::optional<int> RunPart() {
    const Identity& identity = healing_.identity();
    held_.SetLayout(identity.healed, ProcessesOfUnit(now_.mesh.data, identity.processes));
    held_.NoteMeeting();
    const bool opens = config_.heal_return && identity.process == 0;
    if (opens && !door_) door_.emplace(&start_);
    if (!opens) door_.reset();
    std::optional<HealedPlace> next;
    Heals heals = {&healing_, &held_, door_ ? &*door_ : nullptr, {}, {}};
    if (door_) {
      heals.grows = [this] {
        const int processes = healing_.identity().processes;
        return CopiesWith(door_->Waiting(), processes, start_) > now_.mesh.data;
      };
    }
    heals.change = [&](int64_t step, World* world) -> absl::Status {
      absl::StatusOr<HealedPlace> place =
          Grow(start_, healing_, door_ ? &*door_ : nullptr, {identity.healed, step}, world);
      if (!place.ok()) return place.status();
      next = *std::move(place);
      return absl::OkStatus();
    };
    const absl::StatusOr<std::optional<int>> ended = part_.train(now_, identity, heals);
    if (!ended.ok()) return GoOnWithout(ended.status());
    if (!ended->has_value()) return GoOn(*next);
    if (door_) door_->Close();
    return *ended;
  }

  std::optional<int> GoOnWithout(const absl::Status& lost) {
    const absl::StatusOr<HealedPlace> place =
        healing_.Meet({held_.versions(), now_.mesh.data, WaitMsOf(config_), held_.met_ns()});
    if (!place.ok()) {
      // A process that came back, and whose new run did not come about, holds nothing.
      const bool holds_nothing = held_.versions().empty() && healing_.identity().healed > 0;
      if (config_.heal_return && holds_nothing) return ComeBack();
      Fail(output_,
           absl::StrCat(lost.message(), "; the others cannot go on: ", place.status().message()));
      return kLost;
    }
    held_.HandOver(place->age, place->gives_to, place->takes_from);
    if (place->process >= 0) return GoOn(*place);
    output_.err << "stringline: this process leaves the run"
                << (config_.heal_return ? ", and waits to come back: " : ": ") << place->told
                << "\n";
    if (!config_.heal_return) return kLeft;
    door_.reset();
    held_.Drop();
    return ComeBack();
  }

  std::optional<int> ComeBack() {
    const absl::StatusOr<HealedPlace> place = KnockToReturn(start_, &healing_);
    if (place.ok()) return GoOn(*place);
    Fail(output_, absl::StrCat("this process cannot come back: ", place.status().message()));
    return kLeft;
  }

  std::optional<int> GoOn(const HealedPlace& place) {
    healing_.Enter(place);
    std::ostream& told = output_.json ? output_.err : output_.out;
    if (place.process == 0) told << place.told << "\n" << std::flush;
    held_.GoOnFrom(place.age);
    now_ = config_;
    const absl::Status fewer = UseFewerCopies(place.data, &now_);
    if (!fewer.ok()) return Fail(output_, fewer.message());
    const int status = part_.plan(now_);
    return status == kOk ? std::nullopt : std::optional<int>(status);
  }

  const RunConfig& config_;
  const RunAtStart start_;
  const PartOfRun& part_;
  const Output& output_;
  RunConfig now_;
  Healing healing_;
  MemberParcels parcels_;
  HeldState held_;
  std::optional<ReturnDoor> door_;  // in process 0
};

}  // namespace

absl::Status CheckHeals(const RunConfig& config, int processes) {
  if (config.mesh.data == 1) {
    return absl::InvalidArgumentError(
        "heal: the run has a single copy of the pipeline; mesh.data would make more");
  }
  if (processes == 1) {
    return absl::InvalidArgumentError(
        "heal: the run is a single process, without which nobody goes on; --processes would help");
  }
  RunConfig one = config;
  const absl::Status fewer = UseFewerCopies(1, &one);
  if (!fewer.ok()) return absl::InvalidArgumentError(absl::StrCat("heal: ", fewer.message()));
  return CheckHealable(config.mesh.data, processes);
}

int TrainAndHeal(const RunConfig& config, const Identity& identity, const ConfigLines& agreement,
                 bool comes_back, const PartOfRun& part, const Output& output) {
  return ChangingRun(config, identity, agreement, part, output).Run(comes_back);
}

}  // namespace stringline
