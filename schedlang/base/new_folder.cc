#include "schedlang/base/new_folder.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "schedlang/base/write_file.h"

namespace stringline {

namespace fs = std::filesystem;

absl::Status WriteNewFolder(const std::string& folder,
                            const std::vector<std::pair<std::string, std::string>>& files) {
  std::error_code error;
  fs::path place = fs::path(folder).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();
  if (fs::exists(place, error)) {
    return absl::InvalidArgumentError(absl::StrCat(folder, " is there already; name a new folder"));
  }
  const std::string part = absl::StrCat(place.string(), ".", getpid(), ".tmp");
  absl::Status written;
  for (const auto& [name, text] : files) {
    written = WriteFileAtomically(absl::StrCat(part, "/", name), text);
    if (!written.ok()) break;
  }
  if (written.ok()) {
    fs::rename(part, place, error);
    if (!error) return absl::OkStatus();
    written =
        absl::InvalidArgumentError(absl::StrCat("cannot write ", folder, ": ", error.message()));
  }
  std::error_code ignored;
  fs::remove_all(part, ignored);
  return written;
}

}  // namespace stringline
