// The memory shared by the processes in the stand-in for NCCL, and the progress of a transfer in
// it.
#pragma once

#include <pthread.h>

#include <cstdint>

namespace standin {

constexpr int kMostNcclComms = 256;
constexpr int kMostNcclRanks = 8;
constexpr int kMostNcclSplits = 64;
constexpr int64_t kNcclChunkBytes = 16384;

// From one member to another: transfers are sequential.
struct NcclPair {
  // The k-th send is under way if sends > k, the k-th receive if receives > k; `over` counts
  // completed transfers.
  uint64_t sends, receives, over;
  int64_t send_bytes, receive_bytes;
  int32_t send_type, receive_type;
  int64_t filled;  // bytes of the chunk to be taken
  bool sender_connects, receiver_connects;
  char chunk[kNcclChunkBytes];
};

// A member's arguments of a collective.
struct NcclHeader {
  uint64_t collectives;  // number of collectives begun
  int32_t kind, type, root;
  int64_t count;
};

struct NcclSplit {
  bool given[kMostNcclRanks];
  int32_t color[kMostNcclRanks], key[kMostNcclRanks];
};

struct NcclSharedComm {
  char id[128];  // unique id; a split has the three numbers below
  int32_t parent, split, color;
  int32_t size;
  bool joined[kMostNcclRanks], finalized[kMostNcclRanks];
  NcclHeader headers[kMostNcclRanks];
  NcclSplit splits[kMostNcclSplits];
  // By sender and receiver: for messages, and for collectives.
  NcclPair pairs[2][kMostNcclRanks][kMostNcclRanks];
};

struct NcclShared {
  pthread_mutex_t mutex;
  int32_t comms;
  char fault[512];
  NcclSharedComm comm[kMostNcclComms];

  // Made when the library is loaded; processes forked later share it.
  static NcclShared& Get();
  void Reset();
  void Note(const char* fault);
  // The index of the communicator with this origin, new or found.
  int Find(const char* id, int parent, int split, int color, int size);
};

// Holds the lock, also after a process died with it.
class NcclLock {
 public:
  NcclLock();
  ~NcclLock();
  NcclLock(const NcclLock&) = delete;
  NcclLock& operator=(const NcclLock&) = delete;
};

// An end of a transfer, as its process keeps it.
struct NcclTransfer {
  bool sends = false;
  int32_t comm = 0, lane = 0, own = 0, peer = 0;
  const char* from = nullptr;
  char* to = nullptr;
  int64_t bytes = 0;
  int32_t type = 0;

  bool begun = false, over = false;
  uint64_t number = 0;  // among the pair's
  int64_t moved = 0;

  // Under the lock: makes all progress possible now.
  void GoOn();
};

}  // namespace standin
