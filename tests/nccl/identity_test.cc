// The identity of a process, by flags and by every launcher's environment.
#include "executor/processes/identity.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "executor/processes/tcp_world.h"
#include "gtest/gtest.h"

namespace stringline {
namespace {

using Environment = std::map<std::string, std::string>;

absl::StatusOr<Identity> Find(const Environment& environment, const IdentityFlags& flags = {}) {
  return FindIdentity(flags, [&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

// "RANK/RANKS local LOCAL at HOST:PORT of NONCE by SOURCE", or the error.
std::string Text(const absl::StatusOr<Identity>& found) {
  if (!found.ok()) return std::string(found.status().message());
  return absl::StrCat(found->process, "/", found->processes, " local ", found->local, " at ",
                      found->host, ":", found->port, " of ", found->nonce, " by ", found->source);
}

const Environment kTorchrun = {{"RANK", "5"},           {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},     {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "gpu1"}, {"MASTER_PORT", "29500"}};
const Environment kElastic = {{"TORCHELASTIC_RUN_ID", "job"},
                              {"TORCHELASTIC_RESTART_COUNT", "2"},
                              {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Environment kMpirun = {{"OMPI_COMM_WORLD_RANK", "1"},
                             {"OMPI_COMM_WORLD_SIZE", "2"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                             {"PMIX_NAMESPACE", "1234@0"}};
const Environment kSrun = {{"SLURM_PROCID", "3"},  {"SLURM_STEP_NUM_TASKS", "4"},
                           {"SLURM_LOCALID", "1"}, {"SLURM_STEP_ID", "0"},
                           {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_NODELIST", "gpu[03-04]"},
                           {"SLURM_NTASKS", "8"},  {"SLURM_JOB_NODELIST", "gpu[02-04]"}};

Environment With(Environment one, const Environment& other) {
  for (const auto& [name, value] : other) one[name] = value;
  return one;
}
Environment Without(Environment from, const std::string& name) {
  from.erase(name);
  return from;
}

TEST(Identity, NothingSaysOneProcess) {
  EXPECT_EQ(Text(Find({})), "0/1 local 0 at :0 of  by one process");
}

TEST(Identity, EveryLauncherIsRead) {
  EXPECT_EQ(Text(Find(kTorchrun)), "5/8 local 1 at gpu1:29500 of  by torchrun");
  EXPECT_EQ(Text(Find(kMpirun)).substr(0, 26), "1/2 local 1 at 127.0.0.1:2");
  EXPECT_EQ(Text(Find(kSrun)).substr(0, 22), "3/4 local 1 at gpu03:2");
  EXPECT_EQ(Find(kMpirun)->nonce, "1234@0");
  EXPECT_EQ(Find(kSrun)->nonce, "77.0#");
  EXPECT_EQ(Find(With(kSrun, {{"SLURM_RESTART_COUNT", "1"}}))->nonce, "77.0#1");
}

TEST(Identity, TheAgentOfTorchrunKeepsItsPort) {
  const Environment elastic = With(kTorchrun, kElastic);
  EXPECT_EQ(Text(Find(elastic)), "5/8 local 1 at gpu1:29501 of job#2 by torchrun");
  EXPECT_EQ(Find(With(elastic, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}))->port, 29500);
  EXPECT_EQ(Find(With(elastic, {{"MASTER_PORT", "65535"}}))->port, 65534);
}

TEST(Identity, FlagsComeFirst) {
  IdentityFlags flags;
  flags.rank = 1;
  flags.ranks = 2;
  EXPECT_EQ(Text(Find({}, flags)),
            "nothing says where process 0 is: `master=HOST:PORT`, or MASTER_ADDR and MASTER_PORT, "
            "would");
  flags.master = "there:4000";
  flags.run_id = "again";
  EXPECT_EQ(Text(Find({}, flags)), "1/2 local 0 at there:4000 of again by the command line");
  EXPECT_EQ(Text(Find(kTorchrun, flags)), "1/2 local 0 at there:4000 of again by the command line");
  flags.local_rank = 3;
  flags.master = "[::1]:4000";
  EXPECT_EQ(Text(Find({}, flags)), "1/2 local 3 at ::1:4000 of again by the command line");
  flags.rank = flags.ranks = std::nullopt;
  EXPECT_EQ(Text(Find(kTorchrun, flags)), "5/8 local 3 at ::1:4000 of again by torchrun");
}

TEST(Identity, AnAddressOfTheEnvironmentHelpsEveryLauncher) {
  const Environment master = {{"MASTER_ADDR", "head"}, {"MASTER_PORT", "5000"}};
  EXPECT_EQ(Text(Find(With(kMpirun, master))), "1/2 local 1 at head:5000 of 1234@0 by mpirun");
  EXPECT_EQ(Text(Find(With(kSrun, master))), "3/4 local 1 at head:5000 of 77.0# by srun");
}

// A step of one node needs no address that other nodes reach, and so no secret.
TEST(Identity, AStepOfSlurmOnOneNodeStaysOnIt) {
  EXPECT_EQ(Text(Find(With(kSrun, {{"SLURM_STEP_NUM_NODES", "1"}}))),
            Text(Find(With(kSrun, {{"MASTER_ADDR", "127.0.0.1"}}))));
  EXPECT_EQ(Find(With(kSrun, {{"SLURM_STEP_NUM_NODES", "2"}}))->host, Find(kSrun)->host);
}

TEST(Identity, PortsOfDifferentJobsDiffer) {
  EXPECT_NE(Find(kSrun)->port, Find(With(kSrun, {{"SLURM_JOB_ID", "78"}}))->port);
  for (int job = 0; job < 100; ++job) {
    const int port = Find(With(kSrun, {{"SLURM_JOB_ID", absl::StrCat(job)}}))->port;
    EXPECT_GE(port, 20000);
    EXPECT_LT(port, 30000);
  }
}

// An allocation's variables are in the environment of every program that runs in the allocation.
TEST(Identity, AnAllocationIsNoRank) {
  const Environment batch = {{"SLURM_PROCID", "0"},
                             {"SLURM_NTASKS", "8"},
                             {"SLURM_LOCALID", "0"},
                             {"SLURM_JOB_ID", "77"},
                             {"SLURM_JOB_NODELIST", "gpu[02-04]"}};
  EXPECT_EQ(Find(batch)->processes, 1);
  EXPECT_EQ(Find(With(batch, kMpirun))->source, "mpirun");
  EXPECT_EQ(Find(With(batch, kTorchrun))->source, "torchrun");
}

// Slurm's interactive step: salloc's shell, in which SLURM_NTASKS describes the allocation.
TEST(Identity, AShellOfSallocIsNoRank) {
  const Environment shell = {{"SLURM_PROCID", "0"},
                             {"SLURM_NTASKS", "2"},
                             {"SLURM_LOCALID", "0"},
                             {"SLURM_STEP_NUM_TASKS", "1"},
                             {"SLURM_STEP_ID", "4294967290"}};
  EXPECT_EQ(Find(shell)->processes, 1);
  EXPECT_EQ(Find(With(shell, kTorchrun))->source, "torchrun");
  EXPECT_EQ(Find(With(shell, kMpirun))->source, "mpirun");
}

// On the hosts of an allocation mpirun starts one daemon each with srun, and the daemons start the
// processes.
TEST(Identity, UnderSlurmMpirunsProcessesAreMpiruns) {
  const Environment servant = {{"SLURM_PROCID", "1"},
                               {"SLURM_STEP_NUM_TASKS", "2"},
                               {"SLURM_LOCALID", "0"},
                               {"SLURM_STEP_ID", "0"},
                               {"SLURM_STEP_NODELIST", "gpu[03-04]"},
                               {"SLURM_JOB_NODELIST", "gpu[02-04]"}};
  const Environment rank = {{"OMPI_COMM_WORLD_RANK", "5"},
                            {"OMPI_COMM_WORLD_SIZE", "6"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_NAMESPACE", "1234@0"}};
  EXPECT_EQ(Text(Find(With(servant, rank))).substr(0, 22), "5/6 local 1 at gpu02:2");
  EXPECT_EQ(Find(With(servant, rank))->source, "mpirun");
}

TEST(Identity, TorchrunStartedByAnotherLauncherIsTorchrun) {
  EXPECT_EQ(Text(Find(With(With(kSrun, kTorchrun), kElastic))),
            "5/8 local 1 at gpu1:29501 of job#2 by torchrun");
}

struct Bad {
  Environment environment;
  IdentityFlags flags;
  const char* message;
};

TEST(Identity, WhatContradictsIsNamed) {
  const Bad cases[] = {
      {With(kSrun, {{"RANK", "1"}, {"WORLD_SIZE", "4"}}),
       {},
       "srun says rank 3 of 4 (SLURM_PROCID, SLURM_STEP_NUM_TASKS), but torchrun says rank 1 of 4 "
       "(RANK, WORLD_SIZE); `rank` and `ranks` would settle it"},
      {With(kMpirun, {{"RANK", "1"}, {"WORLD_SIZE", "4"}}),
       {},
       "mpirun says rank 1 of 2 (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE), but torchrun says "
       "rank 1 of 4 (RANK, WORLD_SIZE); `rank` and `ranks` would settle it"},
      {Without(kTorchrun, "WORLD_SIZE"), {}, "RANK is set, but WORLD_SIZE is not"},
      {Without(kSrun, "SLURM_PROCID"), {}, "SLURM_STEP_NUM_TASKS is set, but SLURM_PROCID is not"},
      {With(kTorchrun, {{"RANK", "8"}}), {}, "RANK is 8, but WORLD_SIZE is 8"},
      {With(kTorchrun, {{"RANK", "two"}}), {}, "RANK is \"two\", and no number"},
      {With(kTorchrun, {{"LOCAL_RANK", "-1"}}), {}, "LOCAL_RANK is \"-1\", and no number"},
      {With(kTorchrun, {{"MASTER_PORT", "99999"}}), {}, "MASTER_PORT is 99999, and no port"},
      {Without(kTorchrun, "MASTER_PORT"),
       {},
       "nothing says on which port process 0 listens: `master=HOST:PORT`, or MASTER_ADDR and "
       "MASTER_PORT, would"},
      {{}, {1, std::nullopt}, "`rank` and `ranks` are given together or not at all"},
      {{}, {2, 2}, "`rank` is 2, but `ranks` is 2"},
      {{}, {-1, 2}, "`rank` is -1, but `ranks` is 2"},
      {{}, {0, 2, std::nullopt, "here"}, "`master` is \"here\", and not HOST:PORT"},
      {{}, {0, 2, std::nullopt, "here:0"}, "`master` is \"here:0\", and not HOST:PORT"},
      {{}, {0, 2, std::nullopt, ":80"}, "`master` is \":80\", and not HOST:PORT"},
      {{}, {0, 1, -1}, "`local_rank` is -1"},
  };
  for (const Bad& bad : cases) {
    const auto found = Find(bad.environment, bad.flags);
    EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Text(found), bad.message);
  }
}

TEST(Identity, MpiKnowsTheProcessesOfMpirunAndOfSrunWithPmix) {
  EXPECT_TRUE(Find(kMpirun)->knows_mpi);
  EXPECT_FALSE(Find(kSrun)->knows_mpi);
  EXPECT_TRUE(Find(With(kSrun, {{"PMIX_NAMESPACE", "slurm.pmix.77.0"}}))->knows_mpi);
  EXPECT_FALSE(Find(kTorchrun)->knows_mpi);
  EXPECT_FALSE(Find(With(kMpirun, With(kTorchrun, kElastic)))->knows_mpi);
  EXPECT_FALSE(Find(kMpirun, {0, 2, std::nullopt, "here:4000"})->knows_mpi);
}

// On several hosts without Slurm nothing says where process 0 is, and only TCP has to know.
TEST(Identity, MpiNeedsNoAddress) {
  const auto found = Find(With(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}));
  ASSERT_TRUE(found.ok()) << found.status();
  TcpWorldSettings settings;
  settings.identity = *found;
  EXPECT_EQ(TcpWorld::Join(settings).status().message(),
            "nothing says where process 0 is: `master=HOST:PORT`, or MASTER_ADDR and MASTER_PORT, "
            "would");
}

TEST(Identity, LaunchersThatAgreeAreFine) {
  EXPECT_EQ(Find(With(kMpirun, {{"RANK", "1"}, {"WORLD_SIZE", "2"}}))->source, "mpirun");
}

TEST(Identity, TheFirstHostOfAList) {
  const std::pair<const char*, const char*> cases[] = {
      {"gpu7", "gpu7"},
      {"gpu7,gpu8", "gpu7"},
      {"gpu[03-07,9],login", "gpu03"},
      {"gpu[9,11-12]", "gpu9"},
      {"gpu[5]", "gpu5"},
      {"rack[1-2]n[30-44]x,cpu", "rack1n30x"},
      {"", ""},
      {"gpu[", "gpu"},
      {"gpu[3", "gpu3"},
  };
  for (const auto& [nodes, first] : cases) EXPECT_EQ(FirstSlurmHost(nodes), first) << nodes;
}

}  // namespace
}  // namespace stringline
