// How the processes of a run come to process 0, and the words that they share with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "executor/processes/frames.h"
#include "executor/processes/hello.h"
#include "executor/processes/identity.h"
#include "executor/processes/process_tree.h"

namespace stringline {

struct TcpWorldSettings {
  Identity identity;
  ConfigLines config;
  int ranks = 0;              // of the run, in blocks by process. 0: one per process
  int64_t join_ms = 120'000;  // limit on joining
  // The reason if this process cannot run: it joins only to report this, and waits for the others
  // at most tell_ms.
  absl::Status trouble;
  int64_t tell_ms = 5'000;
  int64_t exchange_ms = 600'000;  // from when process 0 comes to an exchange until all have
  int fan_out = kTreeFanOut;      // children of a process in the tree, at most; the same for all
};

inline constexpr int64_t kWorldMs = 1'000'000;
// Other processes wait so much longer than process 0 does, so that process 0 says what is wrong.
inline constexpr int64_t kWorldGraceNs = 2'000 * kWorldMs;
// The time between two words of a process at work.
inline constexpr int64_t kTellWorkNs = 100 * kWorldMs;

// Connects to process 0, proves the secret, says hello and waits for the welcome: then `socket` is
// the connection, and `address` that of process 0 for other hosts. Errors as TcpWorld::Join; after
// an error `socket` may still be open, to tell process 0.
absl::Status ReachFirst(const TcpWorldSettings& settings, const Hello& own, FrameSocket* socket,
                        std::string* address);

// The failure of a process as it tells the others: of a lost one the message says itself which one
// it is.
absl::Status ToldBy(const std::string& name, const absl::Status& status);
// A failure as process 0 tells it, with the processes that were late.
std::string FailBytes(const absl::Status& status, const std::vector<int>& late = {});
absl::Status ReadFail(const std::string& bytes, std::vector<int>* late = nullptr);
// The wait until then for poll: at most a second.
int MsUntil(int64_t ns);
// "1.5 s".
std::string SecondsOf(int64_t ms);

}  // namespace stringline
