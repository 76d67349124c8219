#include "nccl_shared.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace standin {

NcclShared& NcclShared::Get() {
  static NcclShared* const shared = [] {
    void* const memory = mmap(nullptr, sizeof(NcclShared), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    auto* const made = static_cast<NcclShared*>(memory);
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&made->mutex, &how);
    pthread_mutexattr_destroy(&how);
    return made;
  }();
  return *shared;
}

namespace {
[[maybe_unused]] const NcclShared& kMadeAtLoad = NcclShared::Get();
}  // namespace

void NcclShared::Reset() {
  const NcclLock lock;
  std::memset(static_cast<void*>(comm), 0, static_cast<size_t>(comms) * sizeof(NcclSharedComm));
  comms = 0;
  fault[0] = '\0';
}

void NcclShared::Note(const char* text) {
  if (fault[0] == '\0') std::snprintf(fault, sizeof(fault), "%s", text);
}

int NcclShared::Find(const char* id, int parent, int split, int color, int size) {
  for (int c = 0; c < comms; ++c) {
    const NcclSharedComm& one = comm[c];
    if (id != nullptr ? one.parent < 0 && std::memcmp(one.id, id, sizeof(one.id)) == 0
                      : one.parent == parent && one.split == split && one.color == color) {
      return c;
    }
  }
  if (comms == kMostNcclComms) std::abort();
  NcclSharedComm& made = comm[comms];
  if (id != nullptr) std::memcpy(made.id, id, sizeof(made.id));
  made.parent = parent;
  made.split = split;
  made.color = color;
  made.size = size;
  return comms++;
}

// A process killed between releasing a robust lock and waking a sleeper wakes none: the lock is
// free, and the others would sleep forever. So sleepers recheck from time to time.
NcclLock::NcclLock() {
  constexpr long kLookAgainNs = 10'000'000, kSecondNs = 1'000'000'000;
  pthread_mutex_t* const mutex = &NcclShared::Get().mutex;
  int taken = ETIMEDOUT;
  while (taken == ETIMEDOUT) {
    timespec until = {};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += kLookAgainNs;
    until.tv_sec += until.tv_nsec / kSecondNs;
    until.tv_nsec %= kSecondNs;
    taken = pthread_mutex_timedlock(mutex, &until);
  }
  if (taken == EOWNERDEAD) pthread_mutex_consistent(mutex);
}

NcclLock::~NcclLock() { pthread_mutex_unlock(&NcclShared::Get().mutex); }

void NcclTransfer::GoOn() {
  if (over) return;
  NcclShared& shared = NcclShared::Get();
  NcclPair& pair =
      sends ? shared.comm[comm].pairs[lane][own][peer] : shared.comm[comm].pairs[lane][peer][own];
  if (!begun) {
    begun = true;
    number = sends ? pair.sends++ : pair.receives++;
    (sends ? pair.send_bytes : pair.receive_bytes) = bytes;
    (sends ? pair.send_type : pair.receive_type) = type;
  }
  if (pair.over > number) {
    over = true;
    return;
  }
  if (pair.sends <= number || pair.receives <= number) return;
  if (pair.send_bytes != pair.receive_bytes || pair.send_type != pair.receive_type) {
    char text[256];
    std::snprintf(text, sizeof(text),
                  "communicator %d: message %llu from %d to %d is sent with %lld bytes of type %d "
                  "and received with %lld of type %d",
                  comm, static_cast<unsigned long long>(number), sends ? own : peer,
                  sends ? peer : own, static_cast<long long>(pair.send_bytes), pair.send_type,
                  static_cast<long long>(pair.receive_bytes), pair.receive_type);
    return shared.Note(text);
  }
  if (sends) {
    if (pair.filled > 0 || moved == bytes) return;
    pair.filled = std::min(bytes - moved, kNcclChunkBytes);
    std::memcpy(pair.chunk, from + moved, static_cast<size_t>(pair.filled));
    moved += pair.filled;
    return;
  }
  if (pair.filled > 0) {
    std::memcpy(to + moved, pair.chunk, static_cast<size_t>(pair.filled));
    moved += pair.filled;
    pair.filled = 0;
  }
  if (moved == bytes) {
    ++pair.over;
    over = true;
  }
}

}  // namespace standin
