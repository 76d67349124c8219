// The promises of every Group, as functions for the tests of all its kinds.
//
// The functions run in a process with some of the members: processes with the other members run
// them at the same time. A function makes any number of groups.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "executor/engine/device.h"
#include "executor/engine/group.h"

namespace stringline {

// A call on "thing NAME".
Call CallOf(CallKind kind, int64_t bytes, int64_t name, int peer = -1);

// A device, groups on it, and this process's members of a group of `count`.
struct GroupMachine {
  std::unique_ptr<Device> device;
  std::unique_ptr<Groups> groups;
  std::vector<int> local;
  // Makes work of the device from a function of the host.
  std::function<Work(std::function<void()>)> work_of;
};
// GroupMachine::work_of of a device whose streams call functions themselves.
std::function<Work(std::function<void()>)> WorkOfThreads();
using NewGroupMachine = std::function<GroupMachine()>;

// A group of `count` members, each with a stream if it belongs to this process. Data are copied
// into the device's memory on the stream of the member, when the stream comes to the copy.
class GroupMembers {
 public:
  GroupMembers(GroupMachine machine, int count);

  int count() const { return count_; }
  const std::vector<int>& local() const { return machine_.local; }
  bool Has(int member) const;
  Device& device() { return *machine_.device; }
  Group* group() { return group_; }
  Groups* groups() { return machine_.groups.get(); }
  StreamId stream(int member) const { return streams_[member]; }

  template <typename T>
  T* Memory(size_t size) {
    return static_cast<T*>(*device().Allocate(static_cast<int64_t>(size * sizeof(T))));
  }
  template <typename T>
  T* Put(int member, const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    device().MakeFor(member);
    T* const there = Memory<T>(values.size());
    void* const here = *device().AllocateHost(bytes);
    std::memcpy(here, values.data(), static_cast<size_t>(bytes));
    device().Copy(streams_[member], there, here, bytes);
    return there;
  }
  // The contents when the member's stream comes here.
  template <typename T>
  const T* Fetch(int member, const T* there, size_t size) {
    const auto bytes = static_cast<int64_t>(size * sizeof(T));
    void* const here = *device().AllocateHost(bytes);
    device().Copy(streams_[member], here, there, bytes);
    return static_cast<const T*>(here);
  }
  void Enqueue(int member, const Call& call) { Enqueue(member, call, streams_[member]); }
  void Enqueue(int member, const Call& call, StreamId stream);
  // Keeps the counts of a later call.
  const RowCounts* Keep(const RowCounts& rows) { return &rows_.emplace_back(rows); }
  // Runs when the member's stream comes to the function.
  void Do(int member, std::function<void()> run) { Do(streams_[member], std::move(run)); }
  void Do(StreamId stream, std::function<void()> run) {
    device().Launch(stream, machine_.work_of(std::move(run)));
  }
  absl::Status Run() { return device().Synchronize(); }

 private:
  GroupMachine machine_;
  const int count_;
  Group* group_ = nullptr;
  std::vector<StreamId> streams_;  // by member; invalid: in another process
  std::deque<Call> calls_;
  std::deque<RowCounts> rows_;
};

// Each function checks one promise; a violation is a failure of the running test.
using GroupContract = void (*)(const NewGroupMachine& make, int count, unsigned seed);
struct NamedContract {
  const char* name;
  GroupContract check;
};
absl::Span<const NamedContract> GroupContracts();
// For groups whose calls meet in the order of enqueueing, on any streams: those of GPUs. On
// threads, a member's calls must be sequential.
absl::Span<const NamedContract> GpuGroupContracts();

}  // namespace stringline
