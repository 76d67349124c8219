// Every source is read into the same form of claim; the first source present counts, and the other
// sources of the environment must agree. Then the address of process 0 is found.
#include "executor/processes/identity.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int kFirstPort = 20000;  // for ports made from names; below the system's range
constexpr int kPorts = 10000;

// Names of environment variables.
struct Launcher {
  const char* name;
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* local_ranks;  // or null
  const char* only_with;    // null, or counts only where this variable is set too
};
constexpr Launcher kLaunchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr,
     "SLURM_STEP_NUM_TASKS"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", nullptr},
};
constexpr const Launcher& kMpirun = kLaunchers[0];
constexpr const Launcher& kSrun = kLaunchers[1];
constexpr const Launcher& kTorchrun = kLaunchers[2];

struct Claim {
  const Launcher* by = nullptr;  // null: flags
  int rank = 0;
  int ranks = 1;
  std::optional<int> local_rank;
  std::optional<int> local_ranks;
};

std::string TextOf(EnvironmentLookup environment, const char* name) {
  const char* const text = environment(name);
  return text == nullptr ? "" : text;
}

absl::StatusOr<int> NumberOf(EnvironmentLookup environment, const char* name) {
  const std::string text = TextOf(environment, name);
  int value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is \"", text, "\", and no number"));
  }
  return value;
}

absl::StatusOr<std::optional<int>> NumberIfSet(EnvironmentLookup environment, const char* name) {
  if (name == nullptr || environment(name) == nullptr) return std::optional<int>();
  SL_ASSIGN_OR_RETURN(const int value, NumberOf(environment, name));
  return std::optional<int>(value);
}

absl::StatusOr<std::optional<Claim>> ClaimOf(const Launcher& by, EnvironmentLookup environment) {
  if (by.only_with != nullptr && environment(by.only_with) == nullptr) return std::nullopt;
  const bool rank = environment(by.rank) != nullptr, ranks = environment(by.ranks) != nullptr;
  if (!rank && !ranks) return std::nullopt;
  if (!rank || !ranks) {
    return absl::InvalidArgumentError(absl::StrCat(rank ? by.rank : by.ranks, " is set, but ",
                                                   rank ? by.ranks : by.rank, " is not"));
  }
  Claim claim;
  claim.by = &by;
  SL_ASSIGN_OR_RETURN(claim.rank, NumberOf(environment, by.rank));
  SL_ASSIGN_OR_RETURN(claim.ranks, NumberOf(environment, by.ranks));
  SL_ASSIGN_OR_RETURN(claim.local_rank, NumberIfSet(environment, by.local_rank));
  SL_ASSIGN_OR_RETURN(claim.local_ranks, NumberIfSet(environment, by.local_ranks));
  if (claim.rank >= claim.ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat(by.rank, " is ", claim.rank, ", but ", by.ranks, " is ", claim.ranks));
  }
  return std::optional<Claim>(claim);
}

std::string Describe(const Claim& claim) {
  return absl::StrCat(claim.by->name, " says rank ", claim.rank, " of ", claim.ranks, " (",
                      claim.by->rank, ", ", claim.by->ranks, ")");
}

absl::StatusOr<std::optional<Claim>> EnvironmentClaim(EnvironmentLookup environment) {
  if (environment("TORCHELASTIC_RUN_ID") != nullptr) return ClaimOf(kTorchrun, environment);
  std::optional<Claim> first;
  for (const Launcher& launcher : kLaunchers) {
    SL_ASSIGN_OR_RETURN(const std::optional<Claim> claim, ClaimOf(launcher, environment));
    if (!claim.has_value()) continue;
    const bool of_mpirun = first.has_value() && first->by == &kMpirun && claim->by == &kSrun;
    if (!first.has_value() || first->ranks == 1) {
      first = claim;
    } else if (claim->ranks == 1 || of_mpirun) {
      continue;
    } else if (claim->rank != first->rank || claim->ranks != first->ranks) {
      return absl::InvalidArgumentError(absl::StrCat(Describe(*first), ", but ", Describe(*claim),
                                                     "; `rank` and `ranks` would settle it"));
    }
  }
  return first;
}

absl::StatusOr<std::optional<Claim>> FindClaim(const IdentityFlags& flags,
                                               EnvironmentLookup environment) {
  if (flags.rank.has_value() != flags.ranks.has_value()) {
    return absl::InvalidArgumentError("`rank` and `ranks` are given together or not at all");
  }
  if (!flags.rank.has_value()) return EnvironmentClaim(environment);
  if (*flags.rank < 0 || *flags.rank >= *flags.ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("`rank` is ", *flags.rank, ", but `ranks` is ", *flags.ranks));
  }
  Claim claim;
  claim.rank = *flags.rank;
  claim.ranks = *flags.ranks;
  return std::optional<Claim>(claim);
}

// Different for every start of a job, as far as the launcher tells.
std::string NonceOf(const Claim& claim, const IdentityFlags& flags, EnvironmentLookup environment) {
  if (!flags.run_id.empty()) return flags.run_id;
  if (claim.by == &kMpirun) return TextOf(environment, "PMIX_NAMESPACE");
  if (claim.by == &kSrun) {
    return absl::StrCat(TextOf(environment, "SLURM_JOB_ID"), ".",
                        TextOf(environment, "SLURM_STEP_ID"), "#",
                        TextOf(environment, "SLURM_RESTART_COUNT"));
  }
  if (claim.by == &kTorchrun && environment("TORCHELASTIC_RUN_ID") != nullptr) {
    return absl::StrCat(TextOf(environment, "TORCHELASTIC_RUN_ID"), "#",
                        TextOf(environment, "TORCHELASTIC_RESTART_COUNT"));
  }
  return "";
}

int PortFrom(absl::string_view name) {
  uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return kFirstPort + static_cast<int>(hash % kPorts);
}

absl::Status ReadMaster(absl::string_view master, Identity* identity) {
  const size_t colon = master.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(master.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("`master` is \"", master, "\", and not HOST:PORT"));
  }
  absl::string_view host = master.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  identity->host = std::string(host);
  identity->port = port;
  return absl::OkStatus();
}

absl::Status FindMaster(const Claim& claim, const IdentityFlags& flags,
                        EnvironmentLookup environment, Identity* identity) {
  if (!flags.master.empty()) return ReadMaster(flags.master, identity);
  identity->host = TextOf(environment, "MASTER_ADDR");
  if (environment("MASTER_PORT") != nullptr) {
    SL_ASSIGN_OR_RETURN(identity->port, NumberOf(environment, "MASTER_PORT"));
    if (identity->port < 1 || identity->port > 65535) {
      return absl::InvalidArgumentError(
          absl::StrCat("MASTER_PORT is ", identity->port, ", and no port"));
    }
    const std::string agent = TextOf(environment, "TORCHELASTIC_USE_AGENT_STORE");
    if (absl::AsciiStrToLower(agent) == "true") {
      identity->port += identity->port < 65535 ? 1 : -1;
    }
  }
  if (identity->host.empty()) {
    const bool on_one_node =
        claim.by == &kSrun && TextOf(environment, "SLURM_STEP_NUM_NODES") == "1";
    if (on_one_node || (claim.by != nullptr && claim.local_ranks == claim.ranks)) {
      identity->host = "127.0.0.1";
    } else if (claim.by == &kSrun && environment("SLURM_STEP_NODELIST") != nullptr) {
      identity->host = FirstSlurmHost(TextOf(environment, "SLURM_STEP_NODELIST"));
    } else if (claim.by == &kSrun || claim.by == &kMpirun) {
      identity->host = FirstSlurmHost(TextOf(environment, "SLURM_JOB_NODELIST"));
    }
  }
  if (identity->port == 0 && !identity->nonce.empty()) identity->port = PortFrom(identity->nonce);
  if (!identity->host.empty() && identity->port != 0) return absl::OkStatus();
  absl::Status nothing = absl::InvalidArgumentError(absl::StrCat(
      "nothing says ",
      identity->host.empty() ? "where process 0 is" : "on which port process 0 listens",
      ": `master=HOST:PORT`, or MASTER_ADDR and MASTER_PORT, would"));
  if (!identity->knows_mpi) return nothing;
  identity->no_address = std::move(nothing);
  return absl::OkStatus();
}

}  // namespace

std::string FirstSlurmHost(absl::string_view nodes) {
  const size_t end = nodes.find_first_of("[,");
  std::string host(nodes.substr(0, end));
  if (end == absl::string_view::npos || nodes[end] == ',') return host;
  const absl::string_view numbers = nodes.substr(end + 1);
  const size_t close = numbers.find(']');
  absl::StrAppend(&host, numbers.substr(0, numbers.find_first_of("-,]")));
  if (close == absl::string_view::npos) return host;
  const absl::string_view rest = numbers.substr(close + 1);
  return absl::StrCat(host, FirstSlurmHost(rest));
}

absl::StatusOr<Identity> FindIdentity(const IdentityFlags& flags, EnvironmentLookup environment) {
  SL_ASSIGN_OR_RETURN(const std::optional<Claim> claim, FindClaim(flags, environment));
  Identity identity;
  identity.nonce = flags.run_id;
  if (claim.has_value()) {
    identity.process = claim->rank;
    identity.processes = claim->ranks;
    // Without a number on its host, a process counts as alone there, or all processes as on the
    // same host.
    identity.local = claim->local_rank.value_or(0);
    identity.source = claim->by == nullptr ? "the command line" : claim->by->name;
    identity.nonce = NonceOf(*claim, flags, environment);
    identity.knows_mpi =
        claim->by == &kMpirun || (claim->by == &kSrun && environment("PMIX_NAMESPACE") != nullptr);
  }
  if (flags.local_rank.has_value()) identity.local = *flags.local_rank;
  if (identity.local < 0) {
    return absl::InvalidArgumentError(absl::StrCat("`local_rank` is ", identity.local));
  }
  if (identity.processes == 1) return identity;
  SL_RETURN_IF_ERROR(FindMaster(*claim, flags, environment, &identity));
  return identity;
}

}  // namespace stringline
