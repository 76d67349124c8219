// The executable: the command line in, the exit status out.
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "tools/commands/command.h"
#include "tools/commands/commit.h"

namespace {

// Has whoever reads our standard output gone away, as in `stringline plan … | head`?
bool ReaderIsGone() {
  pollfd output = {STDOUT_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

}  // namespace

int main(int argc, char** argv) {
  // Writing to a closed pipe shall fail, not kill.
  std::signal(SIGPIPE, SIG_IGN);
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (!args.empty() && args[0] == "--version") {
    std::cout << "stringline " STRINGLINE_VERSION " (" << stringline::BuiltCommit() << ")\n";
    return 0;
  }
  const int status = stringline::RunTool(args, std::cout, std::cerr);
  std::cout.flush();
  if (std::cout || ReaderIsGone()) return status;
  std::cerr << "stringline: standard output could not be written\n";
  return stringline::kUsage;
}
