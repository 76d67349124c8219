// The connections of a process to its neighbours in the tree of processes (process_tree.h), but for
// the one to process 0, which is there already. A process with children listens for them until the
// first meeting of all has ended, and each connects to its parent, which process 0 tells it. Both
// ends prove the run's secret (proof.h). Nothing waits for a single connection.
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/processes/gate.h"
#include "executor/processes/identity.h"
#include "executor/processes/process_tree.h"
#include "executor/processes/proof.h"

namespace stringline {

class TreeLinks {
 public:
  // The links of a process other than 0. `identity` outlives the object.
  TreeLinks(const Identity* identity, const TreePlace& place);

  // Listens there, if the process has children, and returns what process 0 has to know; nothing for
  // a process without children. Errors: those of ListenOn.
  absl::StatusOr<std::optional<std::string>> Listen(const std::string& address);
  // The parent's words, handed on by process 0. Internal: they cannot be read.
  absl::Status FindParent(absl::string_view told);

  // Appends what to wait for before the next Advance.
  void AddTo(std::vector<pollfd>* polled) const;
  // The time of the next attempt to connect, or none.
  std::optional<int64_t> again_ns() const;
  // A connection to a neighbour; the caller's from now on.
  struct Made {
    int process = 0;
    int fd = -1;
  };
  // Goes on as far as possible without waiting for long. Unavailable if the parent cannot be
  // reached; ResourceExhausted as Gate::Admit.
  absl::StatusOr<std::vector<Made>> Advance();

 private:
  absl::Status Connect();

  const Identity& identity_;
  const TreePlace place_;
  std::optional<Gate> gate_;
  std::vector<bool> came_;  // by child
  struct {
    std::string host;  // "": not known
    int port = 0;
    bool reached = false;
    int64_t again_ns = 0;
    int failures = 0;  // in a row
  } parent_;
  std::optional<Prover> prover_;
};

}  // namespace stringline
