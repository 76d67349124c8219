// The functions of the stand-in for NCCL. A call becomes an operation; its stream polls the
// operation until the end, and each poll moves as many bytes as possible.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "executor/nccl/nccl_library.h"
#include "nccl_shared.h"
#include "nccl_standin.h"
#include "standin.h"

namespace {

using namespace stringline::nccl;
using standin::NcclHeader;
using standin::NcclLock;
using standin::NcclShared;
using standin::NcclSharedComm;
using standin::NcclTransfer;

enum Collective : int32_t { kNone, kAllGather, kBroadcast, kAllReduce, kReduceScatter };

struct LocalComm {
  int number = -1;  // index in the shared memory
  int rank = 0, size = 1;
  uint64_t called = 0, over = 0, collectives = 0;
  int splits = 0;
  int64_t ctas = 0;
  bool aborted = false, unready = true;
  int64_t bytes = 0;              // in the GPU's memory
  std::function<bool()> pending;  // the operation in progress; true when over
  ~LocalComm() { standin_use_memory(-bytes); }
  // Shared by graphs that contain calls on this communicator.
  const std::shared_ptr<void> captured = std::make_shared<char>();
  bool InGraphs() const { return captured.use_count() > 1; }
  NcclSharedComm& shared() const { return NcclShared::Get().comm[number]; }
};
using CommPtr = std::shared_ptr<LocalComm>;

struct State {
  std::map<Comm*, CommPtr> comms;
  int64_t calls = 0, fail_at = 0, aborted = 0, comm_bytes = 0;
  int fail_with = 0, async_error = 0;
  const char* failed_call = nullptr;
  bool in_order = false;
  uint64_t launched = 0, started = 0;
  unsigned puts = 0;

  static State& Get() {
    static auto* const state = new State;
    return *state;
  }
};

// The calls made on a communicator at once.
struct Operation {
  CommPtr comm;
  uint64_t turn = 0, launch = 0;
  bool started = false, ended = false;
  std::vector<NcclTransfer> transfers;
  NcclHeader header = {};  // for a collective
  std::vector<std::vector<char>> pieces;
  std::function<void(Operation& self)> finish;

  bool Over();
  bool MembersAreThere();
  bool Connected();
};

bool Operation::MembersAreThere() {
  if (header.kind == kNone) return true;
  NcclSharedComm& shared = comm->shared();
  for (int m = 0; m < comm->size; ++m) {
    const NcclHeader& other = shared.headers[m];
    if (other.collectives < header.collectives) return false;
    if (other.collectives > header.collectives) continue;
    if (other.kind == header.kind && other.type == header.type && other.root == header.root &&
        other.count == header.count) {
      continue;
    }
    char text[256];
    std::snprintf(
        text, sizeof(text),
        "communicator %d: collective %llu is %d of %lld (type %d, root %d) for one and %d "
        "of %lld (type %d, root %d) for another",
        comm->number, static_cast<unsigned long long>(header.collectives), header.kind,
        static_cast<long long>(header.count), header.type, header.root, other.kind,
        static_cast<long long>(other.count), other.type, other.root);
    NcclShared::Get().Note(text);
    return false;
  }
  return true;
}

bool Operation::Over() {
  if (comm->aborted || ended) return true;
  if (comm->over != turn) return false;
  State& state = State::Get();
  if (!started) {
    if (state.in_order && state.started != launch) return false;
    ++state.started;
    started = true;
    const NcclLock lock;
    if (header.kind != kNone) comm->shared().headers[comm->rank] = header;
  }
  const NcclLock lock;
  if (!MembersAreThere()) return false;
  bool over = true;
  for (size_t i = 0; i < transfers.size(); ++i) {
    NcclTransfer& transfer = transfers[i];
    const auto before = [&](const NcclTransfer& other) {
      return !other.over && other.sends == transfer.sends && other.peer == transfer.peer;
    };
    const auto own = transfers.begin() + static_cast<ptrdiff_t>(i);
    if (std::none_of(transfers.begin(), own, before)) transfer.GoOn();
    over = over && transfer.over;
  }
  if (!over) return false;
  if (finish) finish(*this);
  ++comm->over;
  ended = true;
  return true;
}

// Makes the operation anew: a graph performs it in every launch.
using Call = std::function<std::shared_ptr<Operation>()>;

// Marks this side as called, and returns true if all others have called.
bool Operation::Connected() {
  const NcclLock lock;
  bool all = true;
  for (const NcclTransfer& transfer : transfers) {
    auto& pair = transfer.sends ? comm->shared().pairs[transfer.lane][transfer.own][transfer.peer]
                                : comm->shared().pairs[transfer.lane][transfer.peer][transfer.own];
    (transfer.sends ? pair.sender_connects : pair.receiver_connects) = true;
    all = all && pair.sender_connects && pair.receiver_connects;
  }
  return all;
}

CommPtr Find(Comm* handle) {
  const auto found = State::Get().comms.find(handle);
  return found == State::Get().comms.end() ? nullptr : found->second;
}

// NCCL's connections of messages have a power of two of channels.
int64_t RoundedUp(int64_t ctas) {
  int64_t rounded = 1;
  while (rounded < ctas) rounded *= 2;
  return rounded;
}

// A call of every communicator may wait on the GPU at once, and then needs all its CTAs.
void NoteCtas() {
  int sms = 0;
  (void)cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, standin_current_device());
  if (const int64_t ctas = standin_nccl_ctas(); ctas > sms) {
    char text[128];
    std::snprintf(text, sizeof(text), "calls of all communicators have %lld CTAs, the GPU %d SMs",
                  static_cast<long long>(ctas), sms);
    NcclShared::Get().Note(text);
  }
}

Comm* NewComm(CommPtr* made) {
  *made = std::make_shared<LocalComm>();
  (*made)->bytes = State::Get().comm_bytes;
  standin_use_memory((*made)->bytes);
  auto* const handle = reinterpret_cast<Comm*>(made->get());
  State::Get().comms[handle] = *made;
  return handle;
}

// The beginning of every function. During its lifetime, this thread is in the stand-in.
struct Inside {
  Inside() { standin_enter(1); }
  ~Inside() { standin_enter(-1); }
};
Result Enter(const char* name) {
  State& state = State::Get();
  if (++state.calls != state.fail_at) return kSuccess;
  state.failed_call = name;
  return static_cast<Result>(state.fail_with);
}
#define NCCL_ENTER(name) \
  const Inside inside;   \
  if (const Result entered = Enter("nccl" name); entered != kSuccess) return entered

void Put(const LocalComm& comm, const Call& call, cudaStream_t stream) {
  const auto begin = [call, graph = comm.captured]() -> std::function<bool()> {
    const std::shared_ptr<Operation> operation = call();
    operation->turn = operation->comm->called++;
    operation->launch = State::Get().launched++;
    if (operation->header.kind != kNone) {
      operation->header.collectives = ++operation->comm->collectives;
    }
    return [operation] { return operation->Over(); };
  };
  if (standin_enqueue_until(stream, begin) != cudaSuccess) {
    NcclShared::Get().Note("a stream takes no calls");
  }
}

// At once, or at a later query.
Result Submit(const Call& call, cudaStream_t stream) {
  const std::shared_ptr<Operation> first = call();
  LocalComm& comm = *first->comm;
  if (first->Connected() && ++State::Get().puts % 3 != 0) {
    Put(comm, call, stream);
    return kSuccess;
  }
  comm.pending = [first, call, stream] {
    if (!first->Connected()) return false;
    Put(*first->comm, call, stream);
    return true;
  };
  return kInProgress;
}

struct Grouped {
  std::shared_ptr<Operation> operation;
  cudaStream_t stream;
};
thread_local int group_depth = 0;
thread_local std::vector<Grouped> grouped;

Result EndGroup() {
  Result result = kSuccess;
  for (const Grouped& one : std::exchange(grouped, {})) {
    const auto again = [operation = *one.operation] {
      return std::make_shared<Operation>(operation);
    };
    const Result put = Submit(again, one.stream);
    if (put != kSuccess) result = put;
  }
  return result;
}

Result Usable(Comm* handle, CommPtr* comm) {
  *comm = Find(handle);
  if (*comm == nullptr || (*comm)->aborted) return kInvalidArgument;
  if ((*comm)->pending || (*comm)->unready) return kInvalidUsage;
  return kSuccess;
}

int64_t SizeOf(DataType type) { return type == kFloat32 ? 4 : 1; }

bool OnDevice(const void* buffer, int64_t bytes) {
  return bytes == 0 || (buffer != nullptr && standin_on_device(buffer, static_cast<size_t>(bytes)));
}

NcclTransfer TransferOf(const LocalComm& comm, bool sends, int peer, int lane, const void* from,
                        void* to, int64_t bytes, DataType type) {
  NcclTransfer transfer;
  transfer.sends = sends;
  transfer.comm = comm.number;
  transfer.lane = lane;
  transfer.own = comm.rank;
  transfer.peer = peer;
  transfer.from = static_cast<const char*>(from);
  transfer.to = static_cast<char*>(to);
  transfer.bytes = bytes;
  transfer.type = type;
  return transfer;
}

Result Message(Comm* handle, bool sends, const void* from, void* to, size_t count, DataType type,
               int peer, cudaStream_t stream) {
  CommPtr comm;
  if (const Result usable = Usable(handle, &comm); usable != kSuccess) return usable;
  const int64_t bytes = static_cast<int64_t>(count) * SizeOf(type);
  if (peer < 0 || peer >= comm->size || !OnDevice(sends ? from : to, bytes)) {
    return kInvalidArgument;
  }
  const auto same = [&](const Grouped& one) { return one.operation->comm == comm; };
  auto one = std::find_if(grouped.begin(), grouped.end(), same);
  if (one == grouped.end()) {
    grouped.push_back({std::make_shared<Operation>(), stream});
    one = grouped.end() - 1;
    one->operation->comm = comm;
  }
  if (one->stream != stream) return kInvalidUsage;
  one->operation->transfers.push_back(TransferOf(*comm, sends, peer, 0, from, to, bytes, type));
  return group_depth > 0 ? kSuccess : EndGroup();
}

std::shared_ptr<Operation> CollectiveOf(const CommPtr& comm, Collective kind, const void* from,
                                        void* to, size_t count, DataType type, int root) {
  const int n = comm->size, own = comm->rank;
  const int64_t bytes = static_cast<int64_t>(count) * SizeOf(type);
  const bool reads = kind != kBroadcast || own == root;
  auto operation = std::make_shared<Operation>();
  operation->comm = comm;
  operation->header = {0, kind, type, root, static_cast<int64_t>(count)};
  const auto* const source = static_cast<const char*>(from);
  auto* const target = static_cast<char*>(to);
  const bool sums = kind == kAllReduce || kind == kReduceScatter;
  if (sums) operation->pieces.assign(n, std::vector<char>(static_cast<size_t>(bytes)));
  for (int m = 0; m < n; ++m) {
    if (m == own) continue;
    const char* const sent = kind == kReduceScatter ? source + m * bytes : source;
    char* const got = sums                 ? operation->pieces[m].data()
                      : kind == kAllGather ? target + m * bytes
                                           : target;
    if (kind != kBroadcast || own == root) {
      operation->transfers.push_back(TransferOf(*comm, true, m, 1, sent, nullptr, bytes, type));
    }
    if (kind != kBroadcast || m == root) {
      operation->transfers.push_back(TransferOf(*comm, false, m, 1, nullptr, got, bytes, type));
    }
  }
  operation->finish = [=](Operation& self) {
    const char* const mine = kind == kReduceScatter ? source + own * bytes : source;
    if (!sums) {
      char* const place = kind == kAllGather ? target + own * bytes : target;
      if (reads && place != mine) std::memmove(place, mine, static_cast<size_t>(bytes));
      return;
    }
    // From last to first: an order that our own code never uses.
    std::vector<float> sum(count, 0);
    std::memcpy(self.pieces[own].data(), mine, static_cast<size_t>(bytes));
    for (int m = n - 1; m >= 0; --m) {
      const auto* const values = reinterpret_cast<const float*>(self.pieces[m].data());
      for (size_t i = 0; i < count; ++i) sum[i] += values[i];
    }
    std::memcpy(target, sum.data(), static_cast<size_t>(bytes));
  };
  return operation;
}

// A call outside a group.
Result Collect(Comm* handle, Collective kind, const void* from, void* to, size_t count,
               DataType type, int root, cudaStream_t stream) {
  CommPtr comm;
  if (const Result usable = Usable(handle, &comm); usable != kSuccess) return usable;
  const int n = comm->size;
  const int64_t bytes = static_cast<int64_t>(count) * SizeOf(type);
  const bool reads = kind != kBroadcast || comm->rank == root;
  if (group_depth > 0 || !OnDevice(to, kind == kAllGather ? n * bytes : bytes) ||
      (reads && !OnDevice(from, kind == kReduceScatter ? n * bytes : bytes))) {
    return kInvalidArgument;
  }
  return Submit([=] { return CollectiveOf(comm, kind, from, to, count, type, root); }, stream);
}

}  // namespace

extern "C" {

Result ncclGetVersion(int* version) {
  NCCL_ENTER("GetVersion");
  *version = 22809;
  return kSuccess;
}

Result ncclGetUniqueId(UniqueId* id) {
  NCCL_ENTER("GetUniqueId");
  static int made = 0;
  std::memset(id, 0, sizeof(*id));
  std::snprintf(
      id->bytes, sizeof(id->bytes), "%d %d %lld", getpid(), ++made,
      static_cast<long long>(std::chrono::steady_clock::now().time_since_epoch().count()));
  return kSuccess;
}

const char* ncclGetErrorString(Result result) {
  switch (result) {
    case kSuccess:
      return "no error";
    case kRemoteError:
      return "remote process exited or there was a network error";
    case kInvalidUsage:
      return "invalid usage";
    case kInProgress:
      return "operation in progress";
    default:
      return "an error of the stand-in";
  }
}

const char* ncclGetLastError(Comm* /*comm*/) { return "the stand-in's last error"; }

Result ncclCommInitRankConfig(Comm** handle, int ranks, UniqueId id, int rank, Config* how) {
  NCCL_ENTER("CommInitRankConfig");
  if (how->magic != 0xcafebeef || how->blocking != 0 || ranks > standin::kMostNcclRanks ||
      rank < 0 || rank >= ranks) {
    return kInvalidArgument;
  }
  const char* const order = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  State::Get().in_order = order != nullptr && std::strcmp(order, "1") == 0;
  CommPtr comm;
  *handle = NewComm(&comm);
  comm->rank = rank;
  comm->size = ranks;
  const NcclLock lock;
  comm->number = NcclShared::Get().Find(id.bytes, -1, 0, 0, ranks);
  comm->shared().joined[rank] = true;
  comm->pending = [own = comm.get()] {
    const NcclLock inner;
    const bool* const joined = own->shared().joined;
    if (!std::all_of(joined, joined + own->size, [](bool there) { return there; })) return false;
    own->unready = false;
    return true;
  };
  return kInProgress;
}

Result ncclCommSplit(Comm* handle, int color, int key, Comm** made, Config* how) {
  NCCL_ENTER("CommSplit");
  CommPtr parent;
  if (const Result usable = Usable(handle, &parent); usable != kSuccess) return usable;
  if (how->blocking != 0 || how->split_share == 1 || parent->splits == standin::kMostNcclSplits ||
      parent->over != parent->called) {
    return kInvalidUsage;
  }
  const int split = parent->splits++;
  const int64_t ctas = RoundedUp(how->max_ctas == kUnset ? 32 : how->max_ctas);
  *made = nullptr;
  const NcclLock lock;
  standin::NcclSplit& shared = parent->shared().splits[split];
  shared.color[parent->rank] = color;
  shared.key[parent->rank] = key;
  shared.given[parent->rank] = true;
  // Success, although the communicator is only made at a later query, and `made` written then.
  parent->pending = [own = parent.get(), made, ctas, split, color] {
    const NcclLock inner;
    const standin::NcclSplit& given = own->shared().splits[split];
    for (int m = 0; m < own->size; ++m) {
      if (!given.given[m]) return false;
    }
    if (color == kNoColor) return true;
    CommPtr child;
    Comm* const handle = NewComm(&child);
    child->ctas = ctas;
    NoteCtas();
    std::vector<std::pair<int, int>> members;
    for (int m = 0; m < own->size; ++m) {
      if (given.color[m] == color) members.emplace_back(given.key[m], m);
    }
    std::sort(members.begin(), members.end());
    child->size = static_cast<int>(members.size());
    while (members[child->rank].second != own->rank) ++child->rank;
    child->number = NcclShared::Get().Find(nullptr, own->number, split, color, child->size);
    child->unready = false;
    *made = handle;
    return true;
  };
  return kSuccess;
}

Result ncclCommGetAsyncError(Comm* handle, Result* error) {
  NCCL_ENTER("CommGetAsyncError");
  const CommPtr comm = Find(handle);
  if (comm == nullptr) return kInvalidArgument;
  State& state = State::Get();
  *error = kSuccess;
  if (state.async_error != 0) {
    *error = static_cast<Result>(state.async_error);
  } else if (comm->pending) {
    const auto pending = comm->pending;
    if (pending()) {
      comm->pending = nullptr;
    } else {
      *error = kInProgress;
    }
  }
  return kSuccess;
}

Result ncclCommFinalize(Comm* handle) {
  NCCL_ENTER("CommFinalize");
  CommPtr comm;
  if (const Result usable = Usable(handle, &comm); usable != kSuccess) return usable;
  if (comm->InGraphs()) NcclShared::Get().Note("a communicator is ended before its graphs are");
  const NcclLock lock;
  comm->shared().finalized[comm->rank] = true;
  comm->pending = [own = comm.get()] {
    const NcclLock inner;
    const bool* const ended = own->shared().finalized;
    return !own->InGraphs() && own->over == own->called &&
           std::all_of(ended, ended + own->size, [](bool there) { return there; });
  };
  return kInProgress;
}

Result ncclCommDestroy(Comm* handle) {
  NCCL_ENTER("CommDestroy");
  if (State::Get().comms.erase(handle) == 0) return kInvalidArgument;
  return kSuccess;
}

Result ncclCommAbort(Comm* handle) {
  NCCL_ENTER("CommAbort");
  const CommPtr comm = Find(handle);
  if (comm == nullptr) return kInvalidArgument;
  if (comm->InGraphs()) NcclShared::Get().Note("a communicator is aborted before its graphs end");
  comm->aborted = true;
  comm->pending = nullptr;
  ++State::Get().aborted;
  State::Get().comms.erase(handle);
  return kSuccess;
}

Result ncclGroupStart() {
  NCCL_ENTER("GroupStart");
  ++group_depth;
  return kSuccess;
}

Result ncclGroupEnd() {
  NCCL_ENTER("GroupEnd");
  if (group_depth == 0) return kInvalidUsage;
  if (--group_depth > 0) return kSuccess;
  return EndGroup();
}

Result ncclSend(const void* from, size_t count, DataType type, int peer, Comm* comm,
                cudaStream_t stream) {
  NCCL_ENTER("Send");
  return Message(comm, true, from, nullptr, count, type, peer, stream);
}

Result ncclRecv(void* to, size_t count, DataType type, int peer, Comm* comm, cudaStream_t stream) {
  NCCL_ENTER("Recv");
  return Message(comm, false, nullptr, to, count, type, peer, stream);
}

Result ncclAllGather(const void* from, void* to, size_t count, DataType type, Comm* comm,
                     cudaStream_t stream) {
  NCCL_ENTER("AllGather");
  return Collect(comm, kAllGather, from, to, count, type, 0, stream);
}

Result ncclBroadcast(const void* from, void* to, size_t count, DataType type, int root, Comm* comm,
                     cudaStream_t stream) {
  NCCL_ENTER("Broadcast");
  return Collect(comm, kBroadcast, from, to, count, type, root, stream);
}

Result ncclAllReduce(const void* from, void* to, size_t count, DataType type, RedOp /*op*/,
                     Comm* comm, cudaStream_t stream) {
  NCCL_ENTER("AllReduce");
  return Collect(comm, kAllReduce, from, to, count, type, 0, stream);
}

Result ncclReduceScatter(const void* from, void* to, size_t count, DataType type, RedOp /*op*/,
                         Comm* comm, cudaStream_t stream) {
  NCCL_ENTER("ReduceScatter");
  return Collect(comm, kReduceScatter, from, to, count, type, 0, stream);
}

void standin_nccl_reset() {
  NcclShared::Get().Reset();
  State::Get() = State();
}
void standin_nccl_fail_call(int64_t n, int result) {
  State& state = State::Get();
  state.calls = 0;
  state.fail_at = n;
  state.fail_with = result;
  state.failed_call = nullptr;
}
int64_t standin_nccl_calls() { return State::Get().calls; }
const char* standin_nccl_failed_call() { return State::Get().failed_call; }
void standin_nccl_async_error(int result) { State::Get().async_error = result; }
const char* standin_nccl_fault() { return NcclShared::Get().fault; }
int64_t standin_nccl_ctas() {
  int64_t ctas = 0;
  for (const auto& [handle, comm] : State::Get().comms) ctas += comm->ctas;
  return ctas;
}
void standin_nccl_comm_bytes(int64_t bytes) { State::Get().comm_bytes = bytes; }
int64_t standin_nccl_alive() { return static_cast<int64_t>(State::Get().comms.size()); }
int64_t standin_nccl_aborted() { return State::Get().aborted; }
int64_t standin_nccl_connections() {
  const NcclLock lock;
  int64_t connections = 0;
  for (const auto& [handle, comm] : State::Get().comms) {
    const auto& pairs = comm->shared().pairs[0];
    for (int peer = 0; peer < comm->size; ++peer) {
      connections += pairs[comm->rank][peer].sender_connects ? 1 : 0;
      connections += pairs[peer][comm->rank].receiver_connects ? 1 : 0;
    }
  }
  return connections;
}

}  // extern "C"
