#include "schedlang/base/made_folders.h"

#include <unistd.h>

#include <filesystem>

namespace stringline {

namespace fs = std::filesystem;

MadeFolders::~MadeFolders() {
  // rmdir refuses a folder that is not empty.
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) (void)rmdir(folder->c_str());
}

std::error_code MadeFolders::Make(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> missing;
  for (fs::path at = fs::absolute(folder, error).lexically_normal(); !error && !at.empty();) {
    if (fs::exists(at, error) || error || at == at.root_path()) break;
    if (at.has_filename()) missing.push_back(at);
    at = at.parent_path();
  }
  if (error) return error;
  for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
    // Another process may make the folder first; then that process owns it.
    if (fs::create_directory(*at, error)) made_.push_back(at->string());
    if (error) return error;
  }
  if (!fs::is_directory(folder, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  return error;
}

}  // namespace stringline
