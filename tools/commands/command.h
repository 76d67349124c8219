// The tool's subcommands, in a table, and the function that runs a subcommand.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tools/io/flags.h"
#include "tools/io/output.h"

namespace stringline {

absl::Span<const Command> Commands();

// Runs the tool: args are those of the command line without the program's name. Returns the exit
// status (ExitStatus). Reads no global state but the environment, so tests call it in-process; the
// program itself answers --version.
int RunTool(const std::vector<std::string>& args, std::ostream& out, std::ostream& err);

int RunBench(const Flags& flags, const Output& output);
int RunCalibrate(const Flags& flags, const Output& output);
int RunCheck(const Flags& flags, const Output& output);
int RunCompare(const Flags& flags, const Output& output);
int RunCompletion(const Flags& flags, const Output& output);
int RunCheckFor(const Flags& flags, const Output& output);  // check, with --for
int RunDiagnose(const Flags& flags, const Output& output);
int RunExplain(const Flags& flags, const Output& output);
int RunExport(const Flags& flags, const Output& output);
int RunFormat(const Flags& flags, const Output& output);
int RunImport(const Flags& flags, const Output& output);
int RunLint(const Flags& flags, const Output& output);
int RunLanguageServer(const Flags& flags, const Output& output);
int RunRehearsal(const Flags& flags, const Output& output);
int RunPlan(const Flags& flags, const Output& output);
int RunProgram(const Flags& flags, const Output& output);
int RunManual(const Flags& flags, const Output& output);
int RunReport(const Flags& flags, const Output& output);
int RunSchedules(const Flags& flags, const Output& output);
int RunSearch(const Flags& flags, const Output& output);
int RunSearchFor(const Flags& flags, const Output& output);  // search, with --for
int RunShow(const Flags& flags, const Output& output);
int RunSimFor(const Flags& flags, const Output& output);  // sim, with --for
int RunSim(const Flags& flags, const Output& output);
int RunTune(const Flags& flags, const Output& output);
int RunTraining(const Flags& flags, const Output& output);
int RunWatch(const Flags& flags, const Output& output);

}  // namespace stringline
