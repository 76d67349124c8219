// What every Group promises, as functions that a test of any of its kinds runs.
//
// They are written for a process that has some of the members: those of other processes do the
// same at the same time. A function makes groups as often as it likes.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "executor/device.h"
#include "executor/group.h"

namespace stringline {

// A call on "thing NAME".
Call CallOf(CallKind kind, int64_t bytes, int64_t name, int peer = -1);

// A device, groups on it, and the members of a group of `count` that this process has.
struct GroupMachine {
  std::unique_ptr<Device> device;
  std::unique_ptr<Groups> groups;
  std::vector<int> local;
  // Work of the device that is a function of the host.
  std::function<Work(std::function<void()>)> work_of;
};
using NewGroupMachine = std::function<GroupMachine()>;

// A group of so many members, each of which has a stream if it is of this process. What is put into
// the device's memory gets there on the stream of its member, when that comes to it.
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
  // What is there when the member's stream comes here.
  template <typename T>
  const T* Fetch(int member, const T* there, size_t size) {
    const auto bytes = static_cast<int64_t>(size * sizeof(T));
    void* const here = *device().AllocateHost(bytes);
    device().Copy(streams_[member], here, there, bytes);
    return static_cast<const T*>(here);
  }
  void Enqueue(int member, const Call& call) { Enqueue(member, call, streams_[member]); }
  void Enqueue(int member, const Call& call, StreamId stream);
  // The counts of a call to come.
  const RowCounts* Keep(const RowCounts& rows) { return &rows_.emplace_back(rows); }
  // Runs when the member's stream comes to it.
  void Do(int member, std::function<void()> run) { Do(streams_[member], std::move(run)); }
  void Do(StreamId stream, std::function<void()> run) {
    device().Launch(stream, machine_.work_of(std::move(run)));
  }
  absl::Status Run() { return device().Synchronize(); }

 private:
  GroupMachine machine_;
  const int count_;
  Group* group_ = nullptr;
  std::vector<StreamId> streams_;  // by member; invalid: not of this process
  std::deque<Call> calls_;
  std::deque<RowCounts> rows_;
};

// Each is a promise; what breaks it is a failure of the test that runs.
using GroupContract = void (*)(const NewGroupMachine& make, int count, unsigned seed);
struct NamedContract {
  const char* name;
  GroupContract check;
};
absl::Span<const NamedContract> GroupContracts();
// Of groups whose calls meet in the order in which they were enqueued, on whatever streams: those
// of GPUs. Threads want calls of one member one after the other.
absl::Span<const NamedContract> GpuGroupContracts();

}  // namespace stringline
