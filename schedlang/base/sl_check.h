// CHECK: our own bugs, never the user's. Prints the condition and the values streamed into the
// check, then aborts; also in release builds.
#pragma once

#include <cstdlib>
#include <iostream>
#include <sstream>

namespace stringline {

class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition) {
    text_ << file << ":" << line << ": this is a bug in stringline: " << condition << " is false ";
  }
  [[noreturn]] ~CheckFailure() {
    std::cerr << text_.str() << std::endl;
    std::abort();
  }
  std::ostream& stream() { return text_; }

 private:
  std::ostringstream text_;
};

}  // namespace stringline

#define SL_CHECK(condition) \
  switch (0)                \
  case 0:                   \
  default:                  \
    if (condition) {        \
    } else                  \
      ::stringline::CheckFailure(__FILE__, __LINE__, #condition).stream()
