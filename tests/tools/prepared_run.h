// A folder in which `stringline run run.yaml` trains a very small model.
#pragma once

#include <string>

namespace stringline {

// Writes a schedule (zb_h1, P=2 M=4), a text and a run file of 6 steps in which `from` is replaced
// by `to` into the scratch folder. Returns the folder.
std::string PrepareRun(const std::string& from = "", const std::string& to = "");

}  // namespace stringline
