// Real processes over the loopback that share a world, for tests.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "executor/processes/tcp_world.h"

namespace stringline {

TcpWorldSettings SettingsOf(int process, int processes, int port);

// The texts of all processes after a join with changed settings and a call of `then`.
using Change = std::function<void(int process, TcpWorldSettings*)>;
using Then = std::function<std::string(World* world)>;
std::vector<std::string> RunAll(int processes, const Change& change, const Then& then);

// The texts of all processes, or "failed" of one in which an expectation fails. `ranks`: of the
// world; 0: one for each process.
std::vector<std::string> RunInProcesses(int processes, int ranks, const Then& body);

// Expects that process `victim` was killed, and that all others say the same of it.
void ExpectDeathNamed(const std::vector<std::string>& said, int victim);

// "good" if texts of so many bytes come to all, whole and twice; else what is wrong.
std::string ExchangeTexts(World* world, size_t bytes);

void SleepMs(int64_t ms);
// "from 0, from 1, …", or an error.
std::string ExchangeOnce(World* world);

}  // namespace stringline
