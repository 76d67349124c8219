// A choice of the planner: how a model is shared out over the GPUs of a cluster, and the schedule
// of its pipelines.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/plan/sharding.h"

namespace stringline::tune {

// The ways in which layers keep less until their backwards: none; again what is cheap (norms,
// the gate, the last products of latent attention); again all of their forward, some layers of each
// stage or all; or copies to the host and back, some layers or all, as Megatron-LM does where there
// is no pipeline.
enum class Recompute : uint8_t { kNone, kSelective, kPart, kFull, kOffload };
inline constexpr const char* kRecomputes[] = {"none", "selective", "part", "full", "offload"};
inline const char* NameOf(Recompute recompute) { return kRecomputes[static_cast<int>(recompute)]; }

// tensor x context x pipeline x data GPUs, in Megatron's layout (data_parallel.h): `data` copies of
// a pipeline, in each of whose stages tensor x context ranks share layers and sequences. Of all
// ranks of a stage, in all copies, `expert` consecutive ones share the experts out.
struct Choice {
  int64_t tensor = 1, context = 1, pipeline = 1, expert = 1, data = 1;
  int64_t microbatch = 1;    // sequences
  int64_t microbatches = 1;  // of a pipeline, in a step
  Recompute recompute = Recompute::kNone;
  int64_t quarters = 4;  // of each stage's layers, those that do so: kPart, kOffload
  Sharding sharding = Sharding::kNone;
  // The schedule, its index in KnownSchedules; -1 in a group of choices, which leaves it and what
  // follows open.
  int schedule = -1;
  int64_t turns = 1;        // stages of a rank
  bool light_ends = false;  // layers are shared out by their times and the head's (LayersOfStages)

  // Copies of the parameters that are not of experts.
  int64_t copies() const { return context * data; }
  friend bool operator==(const Choice&, const Choice&) = default;
};

using MeshKey = std::array<int64_t, 5>;
inline MeshKey MeshOf(const Choice& choice) {
  return {choice.tensor, choice.context, choice.pipeline, choice.expert, choice.data};
}

// "none", "part 2/4".
std::string PrintRecompute(const Choice& choice);
// The number of layers of each stage of so many that do what `recompute` says, rounded up.
int64_t LayersOf(const Choice& choice, int64_t layers);

// "tp=8 pp=16 dp=8 microbatch=1 interleaved vp=8 sharding=optimizer": parts at their usual value
// are left out.
std::string Print(const Choice& choice);

// The fields that are given; empty ones are free.
struct Pins {
  std::optional<int64_t> tensor, context, pipeline, expert, data, microbatch, turns;
  std::optional<Recompute> recompute;
  std::optional<Sharding> sharding;
  std::optional<int> schedule;
  std::optional<bool> light_ends;
};

// "tp=4,pp=8,schedule=zb_v", after those before. Errors name the field `pin`, the key, and the keys
// or values that there are.
absl::Status AddPins(const std::string& text, Pins* pins);

}  // namespace stringline::tune
