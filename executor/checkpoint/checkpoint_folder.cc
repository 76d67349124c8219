#include "executor/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "schedlang/base/new_file.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kStep = "step-";
constexpr absl::string_view kUnfinished = ".tmp-";
constexpr size_t kRunDigits = 16;

bool AreAll(absl::string_view text, int (*is)(int)) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [is](unsigned char c) { return is(c) != 0; });
}

// The number in a name like "step-000200"; -1 for any other name.
int64_t StepOf(absl::string_view name) {
  int64_t step = 0;
  if (!absl::ConsumePrefix(&name, kStep) || !AreAll(name, std::isdigit)) return -1;
  return absl::SimpleAtoi(name, &step) ? step : -1;
}

bool IsLeftover(absl::string_view name) {
  const size_t at = name.find(kUnfinished);
  if (at == absl::string_view::npos || StepOf(name.substr(0, at)) < 0) return false;
  absl::string_view run = name.substr(at + kUnfinished.size());
  absl::ConsumeSuffix(&run, "-old");
  return run.size() == kRunDigits && AreAll(run, std::isxdigit);
}

absl::Status ForceFolder(const std::string& folder) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int error = file < 0 ? errno : 0;
  // Some file systems cannot force a folder to the disk.
  if (file >= 0 && fsync(file) != 0 && errno != EINVAL) error = errno;
  if (file >= 0) (void)close(file);
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(folder, ": cannot be forced to the disk: ", std::strerror(error)));
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(from, ": cannot be renamed to ", to, ": ", std::strerror(errno)));
}

template <typename Visit>
void ForEveryEntry(const std::string& folder, Visit visit) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    visit(at->path().filename().string(), at->path().string());
  }
}

}  // namespace

std::string NameOfCheckpoint(int64_t step) { return absl::StrFormat("%s%06d", kStep, step); }

std::vector<FoundCheckpoint> FindCheckpoints(const std::string& folder) {
  std::vector<FoundCheckpoint> found;
  ForEveryEntry(folder, [&found](const std::string& name, const std::string& path) {
    if (const int64_t step = StepOf(name); step >= 0) found.push_back({step, path});
  });
  std::sort(found.begin(), found.end(), [](const FoundCheckpoint& a, const FoundCheckpoint& b) {
    return std::pair(a.step, a.folder) > std::pair(b.step, b.folder);
  });
  return found;
}

std::string UnfinishedFolder(const std::string& folder, int64_t step, const std::string& run) {
  return (fs::path(folder) / absl::StrCat(NameOfCheckpoint(step), kUnfinished, run)).string();
}

CheckpointFolder::CheckpointFolder(std::string folder, std::string run, int file, MadeFolders made)
    : made_(std::move(made)), folder_(std::move(folder)), run_(std::move(run)), file_(file) {}

CheckpointFolder::~CheckpointFolder() { (void)close(file_); }

absl::StatusOr<std::unique_ptr<CheckpointFolder>> CheckpointFolder::Open(const std::string& folder,
                                                                         const std::string& run) {
  MadeFolders made;
  std::error_code error = made.Make(folder);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("checkpoint.folder: ", folder, ": cannot be made: ", error.message()));
  }
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) {
    return absl::UnavailableError(
        absl::StrCat("checkpoint.folder: ", folder, ": ", std::strerror(errno)));
  }
  std::unique_ptr<CheckpointFolder> opened(
      new CheckpointFolder(folder, run, file, std::move(made)));
  // A file system without locks gives another error; there the user takes care.
  if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError(absl::StrCat(
        "checkpoint.folder: ", folder,
        ": another run writes its checkpoints there; it has to end first, or another folder"));
  }
  opened->RemoveLeftovers();
  const std::string tried = opened->Unfinished(0);
  absl::Status written = WriteWhole((fs::path(tried) / "state.json").string(), "x");
  fs::remove_all(tried, error);
  if (written.ok()) return opened;
  return absl::UnavailableError(absl::StrCat(
      "checkpoint.folder: nothing can be written into the folder: ", written.message()));
}

void CheckpointFolder::RemoveLeftovers() const {
  std::vector<std::string> left;
  ForEveryEntry(folder_, [&left](const std::string& name, const std::string& path) {
    if (IsLeftover(name)) left.push_back(path);
  });
  std::error_code ignored;
  for (const std::string& path : left) fs::remove_all(path, ignored);
}

std::string CheckpointFolder::Finished(int64_t step) const {
  return (fs::path(folder_) / NameOfCheckpoint(step)).string();
}

// Renamed first: a half-removed folder must not have the name of a whole checkpoint.
void CheckpointFolder::Remove(const std::string& checkpoint, int64_t step) const {
  const std::string old = Unfinished(step) + "-old";
  std::error_code ignored;
  fs::remove_all(old, ignored);
  if (rename(checkpoint.c_str(), old.c_str()) == 0) fs::remove_all(old, ignored);
}

absl::Status CheckpointFolder::Publish(int64_t step, int keep) const {
  const std::string unfinished = Unfinished(step), finished = Finished(step);
  SL_RETURN_IF_ERROR(ForceFolder(unfinished));
  std::error_code ignored;
  if (fs::exists(finished, ignored)) Remove(finished, step);
  SL_RETURN_IF_ERROR(Rename(unfinished, finished));
  SL_RETURN_IF_ERROR(ForceFolder(folder_));
  int kept = 0;
  for (const FoundCheckpoint& found : FindCheckpoints(folder_)) {
    if (found.step <= step && ++kept > keep) Remove(found.folder, found.step);
  }
  return absl::OkStatus();
}

absl::Status WriteWhole(const std::string& path, const std::string& text) {
  SL_ASSIGN_OR_RETURN(NewFile file, NewFile::Create(path));
  SL_RETURN_IF_ERROR(file.Append(text));
  return file.Commit();
}

}  // namespace stringline
