#include "schedlang/tune/choices.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/fields.h"
#include "schedlang/tune/known_schedules.h"

namespace stringline::tune {
namespace {

std::vector<int64_t> DivisorsOf(int64_t number) {
  std::vector<int64_t> divisors, large;
  for (int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    divisors.push_back(d);
    if (d * d < number) large.push_back(number / d);
  }
  divisors.insert(divisors.end(), large.rbegin(), large.rend());
  return divisors;
}

template <typename T, typename U>
bool Allows(const std::optional<T>& pin, const U& value) {
  return !pin || *pin == value;
}

constexpr std::pair<Recompute, int64_t> kWaysToKeepLess[] = {
    {Recompute::kNone, 4},    {Recompute::kSelective, 4}, {Recompute::kPart, 1},
    {Recompute::kPart, 2},    {Recompute::kPart, 3},      {Recompute::kFull, 4},
    {Recompute::kOffload, 1}, {Recompute::kOffload, 2},   {Recompute::kOffload, 3},
    {Recompute::kOffload, 4}};

void AddSharings(Choice group, const Pins& pins, std::vector<Choice>* groups) {
  for (int s = 0; s < 4; ++s) {
    group.sharding = static_cast<Sharding>(s);
    if (!Allows(pins.sharding, group.sharding)) continue;
    if (group.sharding != Sharding::kNone && group.copies() == 1) continue;
    groups->push_back(group);
  }
}

// The groups of a mesh.
void AddGroups(const Choice& mesh, int64_t sequences, const Pins& pins,
               std::vector<Choice>* groups) {
  for (const int64_t microbatch : DivisorsOf(sequences)) {
    if (!Allows(pins.microbatch, microbatch)) continue;
    Choice group = mesh;
    group.microbatch = microbatch;
    group.microbatches = sequences / microbatch;
    for (const auto& [recompute, quarters] : kWaysToKeepLess) {
      const bool is_host = recompute == Recompute::kOffload;
      if (!Allows(pins.recompute, recompute) || (is_host && group.pipeline > 1)) continue;
      group.recompute = recompute;
      group.quarters = quarters;
      AddSharings(group, pins, groups);
    }
  }
}

bool Divides(int64_t tensor, const ModelShape& model) {
  const int64_t keys = model.kv_heads > 0 ? model.kv_heads : model.heads;
  return model.heads % tensor == 0 && keys % tensor == 0;
}

// The meshes of so many GPUs, in a fixed order.
std::vector<Choice> Meshes(const ModelShape& model, int64_t gpus, const Pins& pins) {
  std::vector<Choice> meshes;
  const int64_t experts = model.kind == kMoeModel ? model.experts : 1;
  for (const int64_t tensor : DivisorsOf(gpus)) {
    if (!Divides(tensor, model) || !Allows(pins.tensor, tensor)) continue;
    for (const int64_t context : DivisorsOf(gpus / tensor)) {
      const bool divides = context == 1 || model.context % (2 * context) == 0;
      if (!divides || !Allows(pins.context, context)) continue;
      for (const int64_t pipeline : DivisorsOf(gpus / tensor / context)) {
        if (pipeline > model.layers || !Allows(pins.pipeline, pipeline)) continue;
        const int64_t data = gpus / tensor / context / pipeline;
        if (!Allows(pins.data, data)) continue;
        for (const int64_t expert : DivisorsOf(gpus / pipeline)) {
          if (experts % expert != 0 || !Allows(pins.expert, expert)) continue;
          meshes.push_back({.tensor = tensor,
                            .context = context,
                            .pipeline = pipeline,
                            .expert = expert,
                            .data = data});
        }
      }
    }
  }
  return meshes;
}

}  // namespace

absl::StatusOr<std::vector<Choice>> ChoiceGroups(const ModelShape& model, int64_t gpus,
                                                 int64_t global_batch, const Pins& pins) {
  std::vector<Choice> groups;
  const std::vector<Choice> meshes = Meshes(model, gpus, pins);
  for (const Choice& mesh : meshes) {
    if (global_batch % mesh.data == 0) AddGroups(mesh, global_batch / mesh.data, pins, &groups);
  }
  if (!groups.empty()) return groups;
  if (meshes.empty()) {
    return FieldError(
        "pin", absl::StrCat("no mesh of ", gpus, " GPUs is so: tp divides the heads (", model.heads,
                            ") and heads of keys, 2 cp divides the context, pp is at most ",
                            model.layers, " layers, ep divides experts and the ranks of a stage, ",
                            "and tp x cp x pp x dp is ", gpus));
  }
  return FieldError("global_batch",
                    absl::StrCat("none of ", meshes.size(), " meshes divides ", global_batch,
                                 " sequences among its copies as asked; give another batch, or "
                                 "pin less"));
}

std::vector<Choice> ChoicesOf(const Choice& group, const ModelShape& model, const Pins& pins) {
  std::vector<Choice> choices;
  const auto schedules = static_cast<int>(KnownSchedules().size());
  const int plain = IndexOfSchedule("1f1b");
  for (int s = 0; s < schedules; ++s) {
    const KnownSchedule& schedule = KnownSchedules()[static_cast<size_t>(s)];
    if (*schedule.why_not != '\0' || !Allows(pins.schedule, s)) continue;
    if (group.pipeline == 1 && s != plain && !pins.schedule) continue;
    std::vector<int64_t> turns = TurnsToTry(schedule, group.pipeline, model.layers);
    if (pins.turns && schedule.place == Place::kLoop &&
        *pins.turns * group.pipeline <= model.layers + 2) {
      turns = {*pins.turns};
    }
    for (const int64_t of_rank : turns) {
      if (!Allows(pins.turns, of_rank)) continue;
      const int64_t stages = of_rank * group.pipeline;
      Choice choice = group;
      choice.schedule = s;
      choice.turns = of_rank;
      if (stages <= model.layers && pins.light_ends != true) choices.push_back(choice);
      choice.light_ends = true;
      const bool differs = stages > 1 && stages <= model.layers + 2;
      if (differs && pins.light_ends != false) choices.push_back(choice);
    }
  }
  return choices;
}

}  // namespace stringline::tune
