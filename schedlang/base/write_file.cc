#include "schedlang/base/write_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "schedlang/base/new_file.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

absl::Status CannotWrite(const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat(path, ": cannot be written: ", std::strerror(error)));
}

// A pipe or a device is written to, not replaced.
bool IsSpecial(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

absl::Status WriteInPlace(const std::string& path, absl::string_view text) {
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return CannotWrite(path, errno);
  int error = WriteAll(file, text);
  if (close(file) != 0 && error == 0) error = errno;
  return error == 0 ? absl::OkStatus() : CannotWrite(path, error);
}

// While alive, SIGINT and SIGTERM stay pending; they act when the object ends, after half-written
// files have been removed.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&held_);
    sigaddset(&held_, SIGINT);
    sigaddset(&held_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &held_, &before_);
    // A signal that the caller had blocked already is the caller's to handle.
    for (const int number : {SIGINT, SIGTERM}) {
      if (sigismember(&before_, number) == 1) sigdelset(&held_, number);
    }
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  bool HaveCome() const {
    sigset_t pending;
    sigpending(&pending);
    for (const int number : {SIGINT, SIGTERM}) {
      if (sigismember(&held_, number) == 1 && sigismember(&pending, number) == 1) return true;
    }
    return false;
  }

 private:
  sigset_t held_;
  sigset_t before_;
};

}  // namespace

absl::Status WriteFileAtomically(const std::string& path, absl::string_view text) {
  constexpr size_t kPiece = 1 << 20;
  if (IsSpecial(path)) return WriteInPlace(path, text);
  const HeldSignals signals;
  SL_ASSIGN_OR_RETURN(NewFile file, NewFile::Create(path));
  for (size_t at = 0; at < text.size(); at += kPiece) {
    SL_RETURN_IF_ERROR(file.Append(text.substr(at, kPiece)));
    if (signals.HaveCome()) return absl::CancelledError(absl::StrCat(path, ": stopped"));
  }
  return file.Commit();
}

}  // namespace stringline
