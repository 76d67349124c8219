// Process 0 lists what is there, newest first. Each process checks its share of the values of one
// after the other, until the shares of all say that a checkpoint is whole.
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
#include "executor/engine/packed_numbers.h"
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

void TellWorking(World* world) {
  if (world != nullptr) world->Working();
}

// `sums` are by file, in the order of the state.
absl::Status CheckSums(const std::string& folder, const CheckpointState& state,
                       absl::Span<const uint64_t> sums) {
  size_t f = 0;
  for (const auto& [name, file] : state.files) {
    if (sums[f++] == file.sum) continue;
    return absl::InvalidArgumentError(
        absl::StrCat((fs::path(folder) / name).string(), ": holds other values than were written"));
  }
  return absl::OkStatus();
}

// Texts are for programs that read the folder as a model; a damaged one would mislead them.
absl::Status CheckTexts(const std::string& folder, const CheckpointState& state) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  for (const auto& [name, sum] : state.texts) {
    const std::string path = (fs::path(folder) / name).string();
    SL_ASSIGN_OR_RETURN(const std::string text, ReadBytes(path, kMostBytes));
    if (SumOfText(text) == sum) continue;
    return absl::InvalidArgumentError(absl::StrCat(path, ": holds another text than was written"));
  }
  return absl::OkStatus();
}

// A checkpoint of which a process reads a part of the values.
struct ReadPart {
  CheckpointState state;
  std::vector<uint64_t> sums;  // of the part, by file
};

absl::StatusOr<ReadPart> CheckPart(const std::string& folder, int part, int parts, World* world) {
  ReadPart read;
  SL_ASSIGN_OR_RETURN(read.state, ReadState(folder));
  if (part == 0) SL_RETURN_IF_ERROR(CheckTexts(folder, read.state));
  SL_ASSIGN_OR_RETURN(const ShardFiles files, ShardFiles::Open(folder, read.state));
  SL_ASSIGN_OR_RETURN(read.sums, files.SumsOfPart(part, parts, [world] { TellWorking(world); }));
  return read;
}

// Checks, in this process alone, that all written values are there.
absl::Status CheckWhole(const std::string& folder, World* world) {
  SL_ASSIGN_OR_RETURN(const ReadPart read, CheckPart(folder, 0, 1, world));
  return CheckSums(folder, read.state, read.sums);
}

// Texts as bytes, and back.
std::string PackTexts(const std::vector<std::string>& texts) {
  PackedNumbers packed;
  for (const std::string& text : texts) {
    packed.Add(static_cast<int64_t>(text.size()));
    packed.AddAll(absl::MakeConstSpan(text));
  }
  return packed.bytes();
}

std::vector<std::string> UnpackTexts(const std::string& bytes) {
  std::vector<std::string> texts;
  for (NumberReader reader(bytes); !reader.done();) {
    texts.emplace_back(static_cast<size_t>(reader.Take<int64_t>()), '\0');
    reader.TakeAll(absl::MakeSpan(texts.back()));
  }
  return texts;
}

// Told to process 0: a fault; or "", and the sum over state.json, by which all have read the same
// one.
std::string PackPart(const absl::StatusOr<ReadPart>& part) {
  if (!part.ok()) return PackTexts({std::string(part.status().message())});
  PackedNumbers sum;
  sum.Add(SumOfText(Print(part->state)));
  return PackTexts({"", sum.bytes()});
}

// The first fault that processes told; "" if there is none.
std::string FirstFault(const std::string& folder, const World& world,
                       const std::vector<std::string>& all) {
  for (size_t p = 0; p < all.size(); ++p) {
    const std::string name = world.NameOfProcess(static_cast<int>(p));
    const std::vector<std::string> told = UnpackTexts(all[p]);
    if (told.size() == 1) return p == 0 ? told[0] : absl::StrCat(name, ": ", told[0]);
    if (told == UnpackTexts(all[0])) continue;
    return absl::StrCat(StateFileOf(folder), ": ", name, " reads another one than process 0");
  }
  return "";
}

// The fault of a checkpoint, of which each process reads a part; "" for a whole one. An error is
// the world's.
absl::StatusOr<std::string> FaultOf(const std::string& folder, World* world) {
  if (world == nullptr) return std::string(CheckWhole(folder, nullptr).message());
  const absl::StatusOr<ReadPart> part =
      CheckPart(folder, world->process(), world->processes(), world);
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> told, world->GiveToFirst(PackPart(part)));
  const std::string found = IsFirst(world) ? FirstFault(folder, *world, told) : "";
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world->Exchange(found));
  if (!all.front().empty()) return all.front();
  std::vector<uint64_t> sums = part->sums;
  SL_RETURN_IF_ERROR(world->Sum(absl::MakeSpan(sums)));
  return std::string(CheckSums(folder, part->state, sums).message());
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

// A part in pieces, of which a matrix of most models is one: a piece of a transposed one is read in
// as small pieces as it has rows.
absl::Status ReadTensor(const ShardFiles& files, const AnyShape& shape, const StateTensor& tensor,
                        Trainer* trainer) {
  constexpr size_t kMostValues = size_t{1} << 24;
  std::vector<float> values;
  for (const StateKind kind : {kValues, kFirstMoment, kSecondMoment}) {
    int64_t read = -1;  // the place of the values that were read last
    for (const StateTensor::Part& part : tensor.parts) {
      for (size_t at = 0; at < part.of[kind].size(); at += kMostValues) {
        const absl::Span<float> to = part.of[kind].subspan(at, kMostValues);
        const int64_t first = part.first + static_cast<int64_t>(at);
        // Copies of the last piece are read once.
        if (first != read || to.size() != values.size()) {
          values.resize(to.size());
          read = first;
          SL_RETURN_IF_ERROR(files.Read(tensor.param, shape, kind, first, absl::MakeSpan(values)));
        }
        SL_RETURN_IF_ERROR(trainer->device()->CopyNow(
            to.data(), values.data(), static_cast<int64_t>(to.size() * sizeof(float))));
        TellWorking(trainer->world());
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ChosenCheckpoint> ChooseCheckpoint(const std::string& path, World* world) {
  const bool first = IsFirst(world);
  // Itself, or those in it, the newest first.
  std::vector<std::string> there;
  if (first && IsThere(StateFileOf(path))) {
    there = {path, path};
  } else if (first) {
    for (const FoundCheckpoint& found : FindCheckpoints(path)) there.push_back(found.folder);
  }
  if (world != nullptr) {
    SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world->Exchange(PackTexts(there)));
    there = UnpackTexts(all.front());
  }
  const bool itself = there.size() == 2 && there[0] == there[1];
  if (itself) there.pop_back();
  ChosenCheckpoint chosen;
  for (const std::string& folder : there) {
    SL_ASSIGN_OR_RETURN(std::string fault, FaultOf(folder, world));
    if (fault.empty()) {
      chosen.folder = folder;
      return chosen;
    }
    if (itself) {
      return absl::InvalidArgumentError(
          absl::StrCat("`resume`: the checkpoint is not whole: ", fault));
    }
    chosen.skipped.push_back(std::move(fault));
  }
  if (chosen.skipped.empty()) {
    return absl::NotFoundError(absl::StrCat("`resume`: ", path, ": no checkpoint is there"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("`resume`: ", path, ": no checkpoint there is whole: ", chosen.skipped.front()));
}

absl::Status RefuseLaterOnes(const std::string& folder, int64_t step, World* world) {
  for (const FoundCheckpoint& found : FindCheckpoints(folder)) {
    if (found.step <= step || !CheckWhole(found.folder, world).ok()) continue;
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
