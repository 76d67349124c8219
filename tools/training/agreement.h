// Everything that must be equal in all processes of a run, as text: they compare it when they meet
// (executor/processes/hello.h), and a difference ends the run before its first step.
#pragma once

#include "absl/types/span.h"
#include "executor/processes/hello.h"
#include "executor/run/run_config.h"
#include "schedlang/plan/plan.h"
#include "tools/training/run_files.h"

namespace stringline {

// A key of a run file that may differ between processes.
struct OwnKey {
  const char* key;
  const char* why;
};
absl::Span<const OwnKey> OwnKeys();

// The version and the build, the plan, every key of the run file with its value (SettingsOf) but
// for the keys above, the options that shape a run, and fingerprints of all read files.
// `evaluation`: the plan of evaluations; null: none.
ConfigLines AgreementOf(const RunConfig& config, const Plan& plan, const RunFolders& folders,
                        const Plan* evaluation = nullptr);

}  // namespace stringline
