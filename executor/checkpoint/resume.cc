#include "executor/checkpoint/resume.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/checkpoint/shard_files.h"
#include "executor/checkpoint/tensor_files.h"
#include "executor/checkpoint/training_state.h"
#include "schedlang/base/source.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

std::string StateFileOf(const std::string& folder) {
  return (fs::path(folder) / "state.json").string();
}

absl::StatusOr<CheckpointState> ReadState(const std::string& folder) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  const std::string path = StateFileOf(folder);
  SL_ASSIGN_OR_RETURN(const std::string text, ReadBytes(path, kMostBytes));
  absl::StatusOr<CheckpointState> state = ParseCheckpointState(text);
  if (state.ok()) return state;
  return absl::Status(state.status().code(), absl::StrCat(path, ": ", state.status().message()));
}

// Checks that all written values are there, value by value.
absl::Status CheckWhole(const std::string& folder) {
  SL_ASSIGN_OR_RETURN(const CheckpointState state, ReadState(folder));
  SL_ASSIGN_OR_RETURN(const ShardFiles files, ShardFiles::Open(folder, state));
  return files.CheckSums(state);
}

absl::Status Differs(const std::string& folder, absl::string_view what, absl::string_view there,
                     absl::string_view here) {
  return absl::InvalidArgumentError(absl::StrCat("`resume`: ", StateFileOf(folder), ": ", what, " ",
                                                 there, "; the run file's has ", here));
}

// Checks that a run with state `now` can resume from there.
absl::Status CheckFits(const std::string& folder, const CheckpointState& there,
                       const CheckpointState& now) {
  for (const auto& [name, wanted] : now.model) {
    const auto found = there.model.find(name);
    const std::string said = found == there.model.end() ? "none" : found->second;
    if (said == wanted) continue;
    return Differs(folder, "the checkpoint of a model with", absl::StrCat(name, " ", said), wanted);
  }
  if (there.data != now.data) {
    return Differs(folder, "the checkpoint of a run on other data:", there.data, now.data);
  }
  if (there.seed != now.seed) {
    return Differs(folder, "the checkpoint of a run with train.seed", absl::StrCat(there.seed),
                   absl::StrCat(now.seed));
  }
  if (there.context != now.context) {
    return Differs(folder, "the checkpoint of a run with model.context",
                   absl::StrCat(there.context), absl::StrCat(now.context));
  }
  if (there.deterministic != now.deterministic) {
    const auto print = [](bool deterministic) { return deterministic ? "on" : "off"; };
    return Differs(folder, "the checkpoint of a run with deterministic", print(there.deterministic),
                   print(now.deterministic));
  }
  const auto sequences = [](const CheckpointState& of) { return of.microbatches * of.microbatch; };
  if (sequences(there) == sequences(now)) return absl::OkStatus();
  const auto print = [&sequences](const CheckpointState& of) {
    return absl::StrCat(sequences(of), " sequences in a step (", of.microbatches,
                        " microbatches of ", of.microbatch, ")");
  };
  return Differs(folder, "the checkpoint of a run with", print(there), print(now));
}

absl::Status ReadTensor(const ShardFiles& files, const AnyShape& shape, const StateTensor& tensor,
                        Trainer* trainer) {
  std::vector<float> values;
  for (const StateKind kind : {kValues, kFirstMoment, kSecondMoment}) {
    int64_t first = -1;
    for (const StateTensor::Part& part : tensor.parts) {
      const absl::Span<float> to = part.of[kind];
      // Copies of the last part are read once.
      if (part.first != first || to.size() != values.size()) {
        values.resize(to.size());
        first = part.first;
        SL_RETURN_IF_ERROR(
            files.Read(tensor.param, shape, kind, part.first, absl::MakeSpan(values)));
      }
      SL_RETURN_IF_ERROR(trainer->device()->CopyNow(
          to.data(), values.data(), static_cast<int64_t>(to.size() * sizeof(float))));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ChosenCheckpoint> ChooseCheckpoint(const std::string& path) {
  ChosenCheckpoint chosen;
  if (IsThere(StateFileOf(path))) {
    const absl::Status whole = CheckWhole(path);
    if (!whole.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("`resume`: the checkpoint is not whole: ", whole.message()));
    }
    chosen.folder = path;
    return chosen;
  }
  for (const FoundCheckpoint& found : FindCheckpoints(path)) {
    const absl::Status whole = CheckWhole(found.folder);
    if (whole.ok()) {
      chosen.folder = found.folder;
      return chosen;
    }
    chosen.skipped.emplace_back(whole.message());
  }
  if (chosen.skipped.empty()) {
    return absl::NotFoundError(absl::StrCat("`resume`: ", path, ": no checkpoint is there"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("`resume`: ", path, ": no checkpoint there is whole: ", chosen.skipped.front()));
}

absl::Status RefuseLaterOnes(const std::string& folder, int64_t step) {
  for (const FoundCheckpoint& found : FindCheckpoints(folder)) {
    if (found.step <= step || !CheckWhole(found.folder).ok()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint.folder: ", found.folder, " is there already, and this run begins ",
                     step == 0 ? "anew" : absl::StrCat("after step ", step), "; `resume=", folder,
                     "` would go on from it; otherwise remove it, or name another folder"));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointState> Resume(const std::string& folder, const AnyShape& shape,
                                       const CheckpointState& now, Trainer* trainer) {
  SL_ASSIGN_OR_RETURN(CheckpointState state, ReadState(folder));
  SL_RETURN_IF_ERROR(CheckFits(folder, state, now));
  SL_ASSIGN_OR_RETURN(const ShardFiles files, ShardFiles::Open(folder, state));
  for (const StateTensor& tensor : StateOf(*trainer)) {
    const absl::Status read = ReadTensor(files, shape, tensor, trainer);
    if (read.ok()) continue;
    return absl::Status(read.code(), absl::StrCat("`resume`: ", folder, ": ", read.message()));
  }
  trainer->SetUpdates(state.step);
  SL_RETURN_IF_ERROR(trainer->RefreshWorking());
  return state;
}

}  // namespace stringline
