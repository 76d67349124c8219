// The memory that processes share in the stand-in for NCCL, and how a transfer in it goes on.
#pragma once

#include <pthread.h>

#include <cstdint>

namespace standin {

constexpr int kMostNcclComms = 256;
constexpr int kMostNcclRanks = 8;
constexpr int kMostNcclSplits = 64;
constexpr int64_t kNcclChunkBytes = 16384;

// From one member to another: transfers follow each other.
struct NcclPair {
  // The k-th send is under way when sends > k, the k-th receive when receives > k; over is how many
  // transfers are.
  uint64_t sends, receives, over;
  int64_t send_bytes, receive_bytes;
  int32_t send_type, receive_type;
  int64_t filled;  // of the chunk, to be taken
  bool sender_connects, receiver_connects;
  char chunk[kNcclChunkBytes];
};

// What a member comes to a collective with.
struct NcclHeader {
  uint64_t collectives;  // how many it has come to
  int32_t kind, type, root;
  int64_t count;
};

struct NcclSplit {
  bool given[kMostNcclRanks];
  int32_t color[kMostNcclRanks], key[kMostNcclRanks];
};

struct NcclSharedComm {
  char id[128];  // made from it, or
  int32_t parent, split, color;
  int32_t size;
  bool joined[kMostNcclRanks], finalized[kMostNcclRanks];
  NcclHeader headers[kMostNcclRanks];
  NcclSplit splits[kMostNcclSplits];
  // By sender and receiver: of messages, and of collectives.
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
  // The communicator with that number, which is new, or found.
  int Find(const char* id, int parent, int split, int color, int size);
};

// Holds the lock, also where a process died with it.
class NcclLock {
 public:
  NcclLock();
  ~NcclLock();
  NcclLock(const NcclLock&) = delete;
  NcclLock& operator=(const NcclLock&) = delete;
};

// One end of a transfer, as its process keeps it.
struct NcclTransfer {
  bool sends = false;
  int32_t comm = 0, lane = 0, own = 0, peer = 0;
  const char* from = nullptr;
  char* to = nullptr;
  int64_t bytes = 0;
  int32_t type = 0;

  bool begun = false, over = false;
  uint64_t number = 0;  // among those of the pair
  int64_t moved = 0;

  // Under the lock: does what can be done now.
  void GoOn();
};

}  // namespace standin
