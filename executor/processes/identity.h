// Which process of a run this is, as flags or whatever started it say.
//
//   flags      --rank, --ranks, --local-rank, --master HOST:PORT, --run-id
//   mpirun     OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
//   srun       SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, where SLURM_STEP_ID is set too: else
//              they tell of an allocation and not of this process
//   torchrun,  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE
//   or by hand
//
// Flags come first, then the environment in that order. Of the environment two launchers that
// disagree are an error, unless flags say the rank; but torchrun's own processes
// (TORCHELASTIC_RUN_ID) are torchrun's, whatever started torchrun. Nothing of all this: the only
// process of its run.
//
// Where process 0 is: --master; else MASTER_ADDR and MASTER_PORT; else this host, if all processes
// are on it, or srun's first host, with a port made from the name of the job. If
// TORCHELASTIC_USE_AGENT_STORE is True then torchrun itself listens on MASTER_PORT, and the next
// port is taken.
#pragma once

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stringline {

struct IdentityFlags {
  std::optional<int> rank;
  std::optional<int> ranks;  // both or none
  std::optional<int> local_rank;
  std::string master;  // "HOST:PORT", "[IPV6]:PORT", or ""
  std::string run_id;
};

struct Identity {
  int process = 0;
  int processes = 1;
  int local = 0;  // number on its host: which GPU it takes
  std::string host;
  int port = 0;       // of process 0; both are only set where there are several
  std::string nonce;  // the same in all processes of this start of the job, and in no other's
  std::string source = "one process";
};

// The value of an environment variable, or null.
using EnvironmentLookup = absl::FunctionRef<const char*(const char* name)>;

// InvalidArgument names what is missing, not understood or contradicts each other.
absl::StatusOr<Identity> FindIdentity(const IdentityFlags& flags, EnvironmentLookup environment);

// "gpu[03-07,9],login" -> "gpu03". Empty if there is none.
std::string FirstSlurmHost(absl::string_view nodes);

}  // namespace stringline
