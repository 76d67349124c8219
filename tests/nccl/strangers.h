// Strangers that knock at the ports of a test's processes: in a process of their own, until they
// are told to stop.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace stringline {

class Strangers {
 public:
  // So many, at every port on which a process of this one, or of its children, listens now or
  // later. Each of them connects again and again; and says nothing, random bytes, half a proof,
  // a frame that never ends, or closes at once.
  explicit Strangers(int count);
  ~Strangers();
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  // Stops them. Returns the number of connections that they had.
  int64_t Stop();

 private:
  pid_t pid_ = -1;
  int told_ = -1;   // closed to stop them
  int heard_ = -1;  // of their count
};

}  // namespace stringline
