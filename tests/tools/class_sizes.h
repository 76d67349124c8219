// Sizes of classes, read from sources formatted by clang-format: a class is its definition and its
// member functions, in whatever files they are.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace stringline {

struct SourceFile {
  std::string path;  // from the top of the repository
  std::vector<std::string> lines;
};

struct ClassSize {
  std::string file;       // of the definition
  bool is_class = false;  // declared with `class`
  int lines = 0;          // of code: neither empty nor a comment
  int members = 0;        // data members, without those of nested types
};

// By name with its namespaces; with the file's path for a class that only its file sees.
std::map<std::string, ClassSize> ClassSizesOf(const std::vector<SourceFile>& files);

}  // namespace stringline
