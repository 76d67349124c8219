// Missing folders that are made for files, and removed again if no file is written into them.
#pragma once

#include <string>
#include <system_error>
#include <vector>

namespace stringline {

// Remembers the folders it has made. Its destructor removes those that are empty, so a failure
// leaves no empty folder behind.
class MadeFolders {
 public:
  MadeFolders() = default;
  MadeFolders(MadeFolders&&) = default;
  MadeFolders& operator=(MadeFolders&&) = delete;
  ~MadeFolders();

  // Makes the folder and the missing folders above it.
  std::error_code Make(const std::string& folder);

 private:
  std::vector<std::string> made_;  // every folder comes after its parents
};

}  // namespace stringline
