// The processes of a run, and the data that their hosts exchange.
//
// Every process holds some ranks of the mesh and runs the same plan on them. Data between ranks is
// a Group's business; a World carries the hosts' agreement on losses, norms, failures and the times
// of a step. It is slow, and no part of a step waits for it. In every step only Sum is called:
// Exchange takes memory and time for all processes in each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace stringline {

class World {
 public:
  virtual ~World() = default;

  // Ranks of the mesh over all processes; and those of this process, ascending.
  virtual int ranks() const = 0;
  virtual absl::Span<const int> local() const = 0;
  virtual int processes() const = 0;
  virtual int process() const = 0;  // this process's number
  // The address at which other processes reach this process.
  virtual std::string address() const { return "127.0.0.1"; }
  // For messages: "rank 3 on gpu1", "process 1 on gpu1".
  virtual std::string NameOfRank(int rank) const { return "rank " + std::to_string(rank); }
  virtual std::string NameOfProcess(int process) const {
    return "process " + std::to_string(process);
  }

  // Returns every process's text, by process. All call it equally often and in the same order.
  // Errors, within the deadline of the run, and the same for all surviving processes:
  //   Unavailable       a process died or left
  //   DeadlineExceeded  a process did not come
  //   Aborted           a process gave up: its status, with its name before it (Fail)
  virtual absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view mine) = 0;

  // This process gets on with work that may take longer than that deadline, such as reading a
  // checkpoint: who waits for it in an exchange waits anew from now. Between exchanges; does not
  // wait, and costs no more than a look at the clock where it is called often.
  virtual void Working() {}

  // True if process 0 answers within so long, or the run has failed: asked before another process
  // is said to be late, which may only wait for process 0.
  virtual bool FirstAnswers(int64_t /*most_ms*/) { return true; }

  // The processes that the last Exchange gave up waiting for, if it ended in DeadlineExceeded.
  virtual std::vector<int> late() const { return {}; }

  // The same for process 0 alone; the others get as many empty texts. For large texts that no other
  // process needs.
  virtual absl::StatusOr<std::vector<std::string>> GiveToFirst(absl::string_view mine) {
    return Exchange(mine);
  }

  // Adds up all processes' numbers, each modulo 2^64: every process has the sums instead of its
  // own. All give equally many. Calls, order and errors as with Exchange, but a process moves no
  // more than its own numbers and their sums, and process 0 as much for each process. Without
  // numbers it is a meeting of all.
  virtual absl::Status Sum(absl::Span<uint64_t> numbers);

  // This process gives up: the others' Exchange returns `status`. Does not wait for them, and has
  // no effect in a world that is in an error already.
  virtual void Fail(const absl::Status& status) = 0;

  // The present state of the others, without waiting: OK, or the error that Exchange would return.
  // Polled by code that waits for something else, as a GPU that waits for a peer.
  virtual absl::Status state() { return absl::OkStatus(); }
};

// True in process 0, and in a run of one process, which has no world.
inline bool IsFirst(const World* world) { return world == nullptr || world->process() == 0; }
// For messages: "rank 3 on gpu1"; without a world "rank 3".
inline std::string NameOfRank(const World* world, int rank) {
  return world == nullptr ? "rank " + std::to_string(rank) : world->NameOfRank(rank);
}

}  // namespace stringline
