// Names of kernels for messages.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace stringline {

inline std::string Demangled(absl::string_view mangled) {
  int status = 0;
  char* const text = abi::__cxa_demangle(std::string(mangled).c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : std::string(mangled);
  std::free(text);
  return name;
}

// "Add<float> (256 threads)" of "void stringline::cuda::BodyKernel<256, …>(…)": without namespaces,
// the result's type and the parameters.
inline std::string ShownKernel(absl::string_view demangled) {
  std::string name(absl::StripPrefix(demangled, "void "));
  size_t end = 0;
  for (int depth = 0; end < name.size() && (depth > 0 || name[end] != '('); ++end) {
    depth += name[end] == '<' ? 1 : name[end] == '>' ? -1 : 0;
  }
  name = absl::StrReplaceAll(name.substr(0, end), {{"stringline::", ""},
                                                   {"cuda::", ""},
                                                   {"copy_kernels::", ""},
                                                   {"padded_kernels::", ""},
                                                   {" >", ">"}});
  absl::string_view rest = name;
  const size_t comma = name.find(", ");
  if (!absl::ConsumePrefix(&rest, "BodyKernel<") || comma == name.npos) return name;
  const absl::string_view threads = rest.substr(0, rest.find(", "));
  return absl::StrCat(name.substr(comma + 2, name.size() - comma - 3), " (", threads, " threads)");
}

}  // namespace stringline
