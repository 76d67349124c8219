// The number of this process in its run, from flags or from the launcher's environment.
//
//   flags      --rank, --ranks, --local-rank, --master HOST:PORT, --run-id
//   mpirun     OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
//   srun       SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID. SLURM_NTASKS is not read: in a
//              batch script, or a shell of salloc's, it tells of the allocation
//   torchrun,  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE
//   or by hand
//
// Flags come first, then the environment in that order. Two launchers in the environment that
// disagree are an error, unless flags give the rank. Three cases are no disagreement:
//   - torchrun's own processes (TORCHELASTIC_RUN_ID) are torchrun's, whatever started torchrun;
//   - mpirun's are mpirun's: on other hosts mpirun starts its own servants with srun;
//   - a launcher that reports a single process is ignored if another reports more.
// Without any of these: the only process of its run.
//
// The address of process 0: --master; else MASTER_ADDR and MASTER_PORT; else this host, if all
// processes are on it; else the first host of srun's step, or of the allocation that mpirun runs
// in. The port is then made from the name of the job. If TORCHELASTIC_USE_AGENT_STORE is True then
// torchrun itself listens on MASTER_PORT, and the next port is taken. Processes that MPI knows may
// do without an address: only over TCP it is an error that they have none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/processes/secret.h"

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
  int local = 0;  // number on its host, and of its GPU
  std::string host;
  int port = 0;       // process 0's; both are only set in a run of several processes
  std::string nonce;  // the same in all processes of this start of the job, and in no other's
  std::string source = "one process";
  Secret secret;               // of the run; FindIdentity leaves it to FindSecret
  int healed = 0;              // the times that the run has lost processes and gone on (healing.h)
  std::vector<int> listeners;  // of process 0, if it listens already; closed by who joins
  // True if mpirun, or srun with PMIx, started the process: MPI needs neither address nor secret.
  bool knows_mpi = false;
  absl::Status no_address;  // the reason if such a process could not find process 0 over TCP
};

// The value of an environment variable, or null.
using EnvironmentLookup = absl::FunctionRef<const char*(const char* name)>;

// InvalidArgument names a missing, malformed or contradictory value.
absl::StatusOr<Identity> FindIdentity(const IdentityFlags& flags, EnvironmentLookup environment);

// "gpu[03-07,9],login" -> "gpu03". Empty for an empty list.
std::string FirstSlurmHost(absl::string_view nodes);

}  // namespace stringline
