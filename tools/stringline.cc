// The executable: the command line in, the exit status out.
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>

#include "tools/command.h"

int main(int argc, char** argv) {
  // A reader that goes away (`stringline plan … | head`) is an error of the stream, not a signal.
  std::signal(SIGPIPE, SIG_IGN);
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> args(argv + 1, argv + argc);
  const int status = stringline::RunTool(args, std::cout, std::cerr);
  errno = 0;
  std::cout.flush();
  if (!std::cout && errno != EPIPE && errno != 0) {
    std::cerr << "stringline: cannot write to standard output: " << std::strerror(errno) << "\n";
    return stringline::kUsage;
  }
  return status;
}
