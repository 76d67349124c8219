// A report is a letter with its arguments:
//
//   w SUMS     the files are written and on the disk; the parts of their sums, as bytes
//   v          process 0: the checkpoint has its name
//   f MESSAGE  it cannot be written
#include "executor/checkpoint/checkpoints.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/checkpoint/model_folder.h"
#include "executor/checkpoint/resume.h"
#include "executor/engine/packed_numbers.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

std::string In(const std::string& folder, const char* name) {
  return (fs::path(folder) / name).string();
}

// transformers' index: the file of each tensor.
std::string PrintIndex(const StateLayout& layout) {
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  uint64_t bytes = 0;
  for (const StateFile& file : layout.files) {
    if (!absl::StartsWith(file.name, "model-")) continue;
    bytes += file.tensors.back().end;
    for (const StoredTensor& tensor : file.tensors) map[tensor.name] = file.name;
  }
  const nlohmann::ordered_json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", map}};
  return index.dump(2) + "\n";
}

}  // namespace

Checkpoints::Checkpoints(const CheckpointWish& wish, const AnyShape& shape, CheckpointState state,
                         Trainer* trainer, std::unique_ptr<CheckpointFolder> folder)
    : wish_(wish),
      shape_(shape),
      state_(std::move(state)),
      trainer_(trainer),
      folder_(std::move(folder)),
      tensors_(StateOf(*trainer)) {}

Checkpoints::~Checkpoints() {
  if (job_ == nullptr) return;
  (void)job_->Wait();
  const bool others = told_ && process() != 0;
  if (phase_ == Phase::kNone || others) return;
  std::error_code ignored;
  fs::remove_all(Unfinished(), ignored);
}

absl::StatusOr<std::unique_ptr<Checkpoints>> Checkpoints::Make(
    const CheckpointWish& wish, const AnyShape& shape, CheckpointState state, Trainer* trainer,
    std::unique_ptr<CheckpointFolder> folder, const AvailableMemory& before) {
  std::unique_ptr<Checkpoints> made(
      new Checkpoints(wish, shape, std::move(state), trainer, std::move(folder)));
  SL_RETURN_IF_ERROR(made->Prepare(before));
  return made;
}

absl::Status Checkpoints::Prepare(const AvailableMemory& before) {
  last_ = state_.step;
  if (folder_ != nullptr) {
    SL_RETURN_IF_ERROR(RefuseLaterOnes(wish_.folder, state_.step, trainer_->world()));
    state_.run = folder_->run();
  }
  std::vector<std::vector<StateRange>> written;
  SL_RETURN_IF_ERROR(FindShares(&written));
  SL_RETURN_IF_ERROR(CheckFolder());
  SL_RETURN_IF_ERROR(CheckCopyRoom(static_cast<double>(StateCopy::BytesOf(written[process()])),
                                   BytesOfRanks(), before));
  layout_ = LayoutOf(shape_, tensors_, written);
  copy_ = StateCopy(written[process()]);
  SL_ASSIGN_OR_RETURN(job_, BackgroundJob::Make());
  return absl::OkStatus();
}

// Every process tells the state it holds; process 0 also tells the run's name.
absl::Status Checkpoints::FindShares(std::vector<std::vector<StateRange>>* written) {
  PackedNumbers mine;
  std::vector<int64_t> sizes;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    sizes.push_back(tensors_[t].param.type.elements());
    for (const StateTensor::Part& part : tensors_[t].parts) {
      mine.Add(StateRange{static_cast<int>(t), part.first, part.end() - part.first});
    }
  }
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> ids, Exchange(state_.run));
  state_.run = ids.front();
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, Exchange(mine.bytes()));
  std::vector<std::vector<StateRange>> held(all.size());
  for (size_t p = 0; p < all.size(); ++p) {
    for (NumberReader numbers(all[p]); !numbers.done();) {
      held[p].push_back(numbers.Take<StateRange>());
    }
  }
  *written = ShareWriting(sizes, held);
  return absl::OkStatus();
}

// The other processes look for a folder that process 0 makes at this moment.
absl::Status Checkpoints::CheckFolder() {
  if (trainer_->world() == nullptr) return absl::OkStatus();
  const std::string seen = UnfinishedFolder(wish_.folder, 0, state_.run);
  std::error_code error;
  if (folder_ != nullptr) fs::create_directory(seen, error);
  SL_RETURN_IF_ERROR(Exchange("").status());
  const bool sees = fs::exists(seen, error);
  const absl::StatusOr<std::vector<std::string>> said = Exchange(sees ? "" : "blind");
  if (folder_ != nullptr) fs::remove(seen, error);
  SL_RETURN_IF_ERROR(said.status());
  for (size_t p = 0; p < said->size(); ++p) {
    if ((*said)[p].empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint.folder: process ", p, " does not see ", wish_.folder,
                     " as process 0 does; a folder that all hosts share would help"));
  }
  return absl::OkStatus();
}

double Checkpoints::BytesOfRanks() const {
  if (!trainer_->device()->is_host()) return 0;
  double bytes = 0;
  const int pipeline = trainer_->plan().ranks();
  const std::vector<RankBytes> of_ranks = trainer_->rank_bytes();
  for (size_t r = 0; r < of_ranks.size(); ++r) {
    const auto rank = static_cast<int>(r);
    if (!trainer_->local().Has(rank / pipeline, RankId(rank % pipeline))) continue;
    bytes += static_cast<double>(of_ranks[r].allocated);
  }
  return bytes;
}

absl::Status CheckCopyRoom(double copy, double ranks, const AvailableMemory& available) {
  if (copy + ranks <= static_cast<double>(available.bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "a checkpoint's copy of the state takes %.3g GB of memory beside the %.3g GB of the run, but "
      "%.3g GB are available (%s); more processes on other hosts, or a run without 'checkpoint' "
      "would help",
      copy * 1e-9, ranks * 1e-9, static_cast<double>(available.bytes) * 1e-9, available.limit));
}

absl::Status Checkpoints::Take(int64_t step, const StepHistory& history) {
  SL_RETURN_IF_ERROR(Finish());
  last_ = state_.step = step;
  state_.files.clear();
  if (process() == 0) state_.history = history;
  SL_RETURN_IF_ERROR(CopyState());
  phase_ = Phase::kWriting;
  told_ = false;
  job_->Start([this]() -> absl::Status {
    const std::string folder = Unfinished();
    std::error_code error;
    fs::create_directory(folder, error);
    if (error) {
      return absl::UnavailableError(absl::StrCat(folder, ": cannot be made: ", error.message()));
    }
    SL_ASSIGN_OR_RETURN(sums_, WriteShards(folder, layout_, state_, process(), copy_));
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

absl::Status Checkpoints::CopyState() {
  for (size_t r = 0; r < copy_.ranges().size(); ++r) {
    const StateRange& range = copy_.ranges()[r];
    const auto& parts = tensors_[range.tensor].parts;
    const auto part = std::find_if(parts.begin(), parts.end(), [&](const StateTensor::Part& one) {
      return one.first <= range.first && range.first + range.count <= one.end();
    });
    SL_CHECK(part != parts.end()) << tensors_[range.tensor].param.name;
    for (const StateKind kind : {kValues, kFirstMoment, kSecondMoment}) {
      SL_RETURN_IF_ERROR(trainer_->device()->CopyNow(
          copy_.Of(r, kind).data(), part->of[kind].data() + (range.first - part->first),
          range.count * static_cast<int64_t>(sizeof(float))));
    }
  }
  return absl::OkStatus();
}

Checkpoints::News Checkpoints::Report() {
  News news;
  if (phase_ == Phase::kNone || !job_->done()) return news;
  if (!job_->Wait().ok()) {
    news.failed = 1;
  } else if (phase_ == Phase::kPublishing) {
    news.visible = process() == 0 ? 1 : 0;
  } else {
    told_ = true;
    news.written = 1;
  }
  return news;
}

absl::Status Checkpoints::Hear(const News& all) {
  if (phase_ == Phase::kNone) return absl::OkStatus();
  if (all.failed > 0) return FirstFailure();
  if (phase_ == Phase::kPublishing) {
    if (all.visible == 0) return absl::OkStatus();
    newest_ = (fs::path(wish_.folder) / NameOfCheckpoint(state_.step)).string();
    phase_ = Phase::kNone;
    return absl::OkStatus();
  }
  const World* const world = trainer_->world();
  if (all.written < static_cast<uint64_t>(world == nullptr ? 1 : world->processes())) {
    return absl::OkStatus();
  }
  phase_ = Phase::kPublishing;
  return SumFiles();
}

// The failure of the first process that has one, told to all.
absl::Status Checkpoints::FirstFailure() {
  const absl::Status mine = job_->done() ? job_->Wait() : absl::OkStatus();
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> told,
                      Exchange(mine.ok() ? "" : absl::StrCat("1", mine.message())));
  const World* const world = trainer_->world();
  const auto first =
      std::find_if(told.begin(), told.end(), [](const std::string& one) { return !one.empty(); });
  SL_CHECK(first != told.end()) << "a checkpoint failed, and nobody says how";
  return absl::UnavailableError(absl::StrCat(
      "the checkpoint of step ", state_.step, ": ",
      world == nullptr
          ? ""
          : absl::StrCat(world->NameOfProcess(static_cast<int>(first - told.begin())), ": "),
      first->substr(1)));
}

absl::Status Checkpoints::SumFiles() {
  std::vector<uint64_t> sums = sums_;
  if (World* const world = trainer_->world()) {
    SL_RETURN_IF_ERROR(world->Sum(absl::MakeSpan(sums)));
  }
  if (process() != 0) return absl::OkStatus();
  for (size_t f = 0; f < layout_.files.size(); ++f) {
    const StateFile& file = layout_.files[f];
    const std::string header = HeaderOf(file, state_);
    state_.files[file.name] = {
        static_cast<int64_t>(header.size()) + static_cast<int64_t>(file.tensors.back().end),
        sums[f], SumOfText(header)};
  }
  job_->Start([this] { return Publish(); });
  return absl::OkStatus();
}

absl::Status Checkpoints::Publish() {
  const std::string folder = Unfinished();
  auto texts = TextsOf(shape_);
  texts.emplace_back("model.safetensors.index.json", PrintIndex(layout_));
  for (const auto& [name, text] : texts) {
    SL_RETURN_IF_ERROR(WriteWhole(In(folder, name.c_str()), text));
    state_.texts[name] = SumOfText(text);
  }
  SL_RETURN_IF_ERROR(WriteWhole(In(folder, "state.json"), Print(state_)));
  return folder_->Publish(state_.step, wish_.keep);
}

absl::Status Checkpoints::Finish() {
  while (phase_ != Phase::kNone) {
    (void)job_->Wait();  // Report tells
    const News mine = Report();
    std::array<uint64_t, 3> all = {mine.failed, mine.written, mine.visible};
    if (World* const world = trainer_->world()) {
      SL_RETURN_IF_ERROR(world->Sum(absl::MakeSpan(all)));
    }
    SL_RETURN_IF_ERROR(Hear({all[0], all[1], all[2]}));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Checkpoints::Exchange(const std::string& mine) {
  if (trainer_->world() == nullptr) return std::vector<std::string>{mine};
  return trainer_->world()->Exchange(mine);
}

int Checkpoints::process() const {
  return trainer_->world() == nullptr ? 0 : trainer_->world()->process();
}

std::string Checkpoints::Unfinished() const {
  return UnfinishedFolder(wish_.folder, state_.step, state_.run);
}

}  // namespace stringline
