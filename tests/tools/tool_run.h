// Runs the tool in-process, as if from a folder, and keeps its output.
#pragma once

#include <string>
#include <vector>

namespace stringline {

struct Answer {
  int status = 0;
  std::string out;
  std::string err;
};

// `folder` becomes the current folder, so paths in messages are the arguments' own.
Answer RunToolIn(const std::string& folder, const std::vector<std::string>& args);

// "check a.sched P=2 --cost F=1" -> its words; no quoting.
std::vector<std::string> Words(const std::string& line);

// The lines of a text, without their ends.
std::vector<std::string> Lines(const std::string& text);

// The number of characters, not bytes, in a line.
size_t Width(const std::string& line);

// The top of the repository.
std::string SourceFolder();

// A file's text. Fails the test if the file cannot be read.
std::string ReadText(const std::string& path);
void WriteText(const std::string& path, const std::string& text);

// UPDATE_GOLDEN=1 is in the environment: expected output is rewritten.
bool UpdatesGolden();

// The running test's own folder under the temporary folder, empty at its first call. It lasts until
// the process ends.
std::string ScratchFolder();

}  // namespace stringline
