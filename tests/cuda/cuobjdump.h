// The toolkit's cuobjdump, which reads what nvcc compiled.
#pragma once

#include <gtest/gtest.h>
#include <stdio.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace stringline {

// Its output. The tool is STRINGLINE_CUOBJDUMP, and finds nvdisasm beside itself.
inline std::string Cuobjdump(const std::string& options, const std::string& file) {
  const std::string tool = STRINGLINE_CUOBJDUMP;
  const std::string folder = tool.substr(0, tool.rfind('/'));
  const std::string command =
      absl::StrCat("PATH=\"$PATH\":'", folder, "' '", tool, "' ", options, " '", file, "' 2>&1");
  FILE* const pipe = popen(command.c_str(), "r");
  EXPECT_NE(pipe, nullptr) << command;
  if (pipe == nullptr) return "";
  std::string text;
  char piece[4096];
  for (size_t got = 0; (got = fread(piece, 1, sizeof(piece), pipe)) > 0;) text.append(piece, got);
  EXPECT_EQ(pclose(pipe), 0) << command << "\n" << text;
  return text;
}

}  // namespace stringline
