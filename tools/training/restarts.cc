#include "tools/training/restarts.h"

#include <algorithm>
#include <iostream>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// Without an option and its value.
std::vector<std::string> Without(const std::vector<std::string>& arguments,
                                 const std::string& option) {
  std::vector<std::string> kept;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == option) {
      ++i;
    } else if (!absl::StartsWith(arguments[i], option + "=")) {
      kept.push_back(arguments[i]);
    }
  }
  return kept;
}

void Set(const std::string& option, const std::string& value, std::vector<std::string>* arguments) {
  *arguments = Without(*arguments, option);
  arguments->push_back(option);
  arguments->push_back(value);
}

// The lost processes whose host or program is to blame: those that were killed here, long after
// another was lost, only where there is none of the former.
std::vector<LocalRun::Lost> LostAlone(const LocalRun& run) {
  std::vector<LocalRun::Lost> lost = run.lost;
  const size_t alone = lost.size() - static_cast<size_t>(run.killed_late);
  if (alone > 0) lost.resize(alone);
  return lost;
}

}  // namespace

LocalRunSettings LocalSettingsOf(const RunConfig& config, bool holds_output) {
  return {
      .holds_output = holds_output, .heals = config.heal_every > 0, .returns = config.heal_return};
}

std::vector<std::string> ArgumentsOfEach(const Flags& flags) {
  std::vector<std::string> arguments = {"run"};
  arguments.insert(arguments.end(), flags.arguments.begin(), flags.arguments.end());
  return Without(Without(arguments, "--processes"), "--restarts");
}

int CopiesLeft(int data, int processes, absl::Span<const LocalRun::Lost> lost) {
  std::vector<bool> lives(static_cast<size_t>(data), true);
  for (const LocalRun::Lost& one : lost) {
    // Ranks are shared out in blocks, copy by copy.
    const int first = one.process * data / processes;
    const int last = ((one.process + 1) * data - 1) / processes;
    for (int copy = first; copy <= std::min(last, data - 1); ++copy) lives[copy] = false;
  }
  for (auto left = static_cast<int>(std::count(lives.begin(), lives.end(), true)); left > 0;
       --left) {
    if (data % left == 0) return left;
  }
  return data;
}

absl::Status UseFewerCopies(int data, RunConfig* config) {
  const int before = config->mesh.data;
  if (before % data != 0) {
    return absl::InvalidArgumentError(absl::StrCat("--mesh-data ", data,
                                                   ": the run file's mesh.data is ", before,
                                                   ", of which that is no divisor"));
  }
  if (data == before) return absl::OkStatus();
  const auto found = std::find_if(config->parameters.begin(), config->parameters.end(),
                                  [](const Parameter& parameter) { return parameter.name == "M"; });
  if (found == config->parameters.end()) {
    return absl::InvalidArgumentError(
        "--mesh-data: the run file says no schedule.M, which would have to grow");
  }
  found->value *= before / data;
  config->mesh.data = data;
  if (config->mesh.coordinates() == 1) config->check_copies = 0;  // no copies are left
  if (config->mesh.shard > 0) config->mesh.shard = std::gcd(config->mesh.shard, data);
  return absl::OkStatus();
}

int EndOf(const LocalRun& run, const Output& output) {
  std::cout << run.output << std::flush;
  if (!run.told && !run.lost.empty() && !run.healed) Fail(output, PrintLost(run));
  return run.status;
}

absl::StatusOr<int> RunWithRestarts(const Flags& flags, const RunConfig& config,
                                    const Output& output) {
  std::vector<std::string> arguments = ArgumentsOfEach(flags);
  int processes = std::max(1, flags.processes);
  int data = config.mesh.data;
  const std::string secret = SecretForProcesses();
  for (int restart = 0;; ++restart) {
    SL_ASSIGN_OR_RETURN(const LocalRun run, RunLocalProcesses(processes, arguments, secret,
                                                              LocalSettingsOf(config, flags.json)));
    if (!run.MayStartAgain() || run.stopped || restart == flags.restarts) return EndOf(run, output);
    std::string where = "the start";
    const auto found = config.checkpoint.every > 0 ? FindCheckpoints(config.checkpoint.folder)
                                                   : std::vector<FoundCheckpoint>();
    if (!found.empty()) {
      where = found.front().folder;
      Set("--resume", kResumeAuto, &arguments);
    } else if (!flags.resume.empty()) {
      where = flags.resume;
    }
    std::string on;
    if (const int left = CopiesLeft(data, processes, LostAlone(run));
        config.elastic && left < data) {
      processes = std::max(1, processes * left / data);
      data = left;
      Set("--mesh-data", absl::StrCat(data), &arguments);
      on = absl::StrCat(" on mesh.data ", data, " in ", processes,
                        processes == 1 ? " process" : " processes");
    }
    output.err << "stringline: " << PrintLost(run) << "; starting again from " << where << on
               << ", restart " << restart + 1 << " of " << flags.restarts << "\n"
               << std::flush;
  }
}

}  // namespace stringline
