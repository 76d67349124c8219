// The processes of a run, and what their hosts tell each other.
//
// Every process holds some ranks of the mesh and runs the same plan on them. What passes between
// ranks is a Group's business; a World carries what the hosts need to agree on: losses, norms,
// whether somebody failed, the times of a step. It is slow, and nothing of a step waits for it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace stringline {

class World {
 public:
  virtual ~World() = default;

  // Of the mesh, over all processes; and those that this process holds, ascending.
  virtual int ranks() const = 0;
  virtual absl::Span<const int> local() const = 0;
  virtual int processes() const = 0;
  virtual int process() const = 0;  // this one's number
  // Where the others reach this process.
  virtual std::string address() const { return "127.0.0.1"; }

  // What every process gave, by process. All call it equally often and in the same order. Errors,
  // within the deadline of the run, and the same for all that are left:
  //   Unavailable       a process died or left
  //   DeadlineExceeded  a process did not come
  //   Aborted           a process gave up: its status, with its name before it (Fail)
  virtual absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view mine) = 0;

  // The processes that an Exchange did not wait for any longer, where it ended in that error.
  virtual std::vector<int> late() const { return {}; }

  // The same for process 0; the others get as many empty texts. For what is large, and nobody else
  // needs.
  virtual absl::StatusOr<std::vector<std::string>> GiveToFirst(absl::string_view mine) {
    return Exchange(mine);
  }

  // This process gives up: the others' Exchange returns this. Does not wait for them, and does
  // nothing where the world is in an error already.
  virtual void Fail(const absl::Status& status) = 0;

  // What is known of the others now, without waiting: OK, or what Exchange would return. Asked now
  // and then by whoever waits for something else, as a GPU that waits for a peer.
  virtual absl::Status state() { return absl::OkStatus(); }
};

}  // namespace stringline
