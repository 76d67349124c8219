// Groups of ranks that live in several processes, on CPUs. A process may hold several of them.
//
// Every collective is messages: each piece goes from its owner to its receiver, and of counted rows
// one of each array. Sums are an all-to-all of slices, a sum in the order of the members, and an
// all-gather of the sums, so their bits are those of cpu/threads_group. Small all-reduces are an
// all-gather, and the same sum in each member.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "executor/cpu/device.h"
#include "executor/engine/group.h"
#include "executor/processes/wires.h"

namespace stringline {

class ProcessGroup final : public Group {
 public:
  ProcessGroup(CpuDevice* device, Wires* wires, absl::Span<const int> ranks,
               absl::Span<const MemberPair> talks);
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int members() const override { return members_; }
  void Enqueue(int member, StreamId stream, const Call* call) override;

 private:
  // A member in this process, with the links of its enqueued calls.
  struct Member {
    ProcessGroup* group = nullptr;
    int member = 0;
    Outside message, told, settled, exchange, gather;
    const Call* call = nullptr;             // the collective under way
    std::vector<Transfer> sends, receives;  // messages of the call
    std::vector<float> summands;            // the others' floats of the largest sum
    std::vector<const float*> of;           // by member: the floats of a sum
  };
  static void BeginMessage(const void* link, StreamId stream, const void* end);
  static void BeginTold(const void* link, StreamId stream, const void* end);
  static void SettleTold(const void* link, StreamId stream, const void* end);
  static void BeginExchange(const void* link, StreamId stream, const void* end);
  static void BeginGather(const void* link, StreamId stream, const void* end);
  // The time for which the member is held after its messages.
  int64_t HeldNs(const Member& member) const;
  static void Sum(const void* self, int64_t argument, NativeStream stream);

  void NoteComing(const Call& call) const {
    if (call.came_ns != nullptr) NoteNs(call.came_ns, device_->NowNs());
  }
  void List(Member* member) const;
  void ListPieces(Member* member) const;
  void ListSlices(Member* member) const;
  absl::Status ListRows(Member* member) const;
  void Add(Member* member, int other, const void* source, int64_t sent, void* target,
           int64_t received) const;
  void AddUpTo(Member* member, int other, const void* source, int64_t sent, void* target,
               int64_t room) const;
  bool IsSliced(const Call& call) const;
  void MakeRoom(Member* member, const Call& call) const;
  // True if the sum of a slice goes to other members too.
  bool HandsOn(const Call& call) const;
  SumSlice SliceFor(const Call& call, int member) const {
    return SliceOf(call, member, members_, sizeof(float));
  }

  CpuDevice* const device_;
  Wires* const wires_;
  const int members_;
  const int number_;
  std::deque<Member> local_;
  std::vector<Member*> by_member_;  // null: of another process
};

class ProcessGroups final : public Groups {
 public:
  ProcessGroups(CpuDevice* device, World* world, const WireSettings& settings)
      : ProcessGroups(device, std::make_unique<Wires>(device, world, settings)) {}
  ProcessGroups(CpuDevice* device, std::unique_ptr<Wires> wires)
      : device_(device), wires_(std::move(wires)) {}
  using Groups::New;
  Group* New(absl::Span<const int> ranks, absl::Span<const MemberPair> talks) override {
    return &groups_.emplace_back(device_, wires_.get(), ranks, talks);
  }
  absl::Status Connect() override { return wires_->Connect(); }
  bool SumsTakeMemory() const override { return true; }
  absl::Status Agree(const absl::Status& status) override { return wires_->Agree(status); }
  void TellStates(const RankStates* states) override { wires_->TellStates(states); }
  void AskForRecords(int64_t number) override { wires_->AskForRecords(number); }
  void OnAskForRecords(const std::function<void(int64_t)>& asked) override {
    wires_->OnAskForRecords(asked);
  }

 private:
  CpuDevice* const device_;
  const std::unique_ptr<Wires> wires_;
  std::deque<ProcessGroup> groups_;
};

}  // namespace stringline
