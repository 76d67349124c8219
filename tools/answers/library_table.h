// The schedules of the library, for `stringline schedules`: name, parameters, a line of
// description.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "tools/io/json.h"

namespace stringline {

struct LibraryParameter {
  std::string name;
  std::string value;  // its default, as written; "" for a parameter without a default
};

struct LibraryEntry {
  std::string name;                          // as a FILE of a command line
  std::string summary;                       // the first line of its file
  std::string schedule;                      // its name in the text
  std::vector<LibraryParameter> parameters;  // in the order of the text
};

std::vector<LibraryEntry> LibraryEntries();

void PrintLibrary(std::ostream& out);
Json LibraryAsJson();

}  // namespace stringline
