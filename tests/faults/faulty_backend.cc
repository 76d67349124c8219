// The device counts launches on the compute stream of the faulty rank: in a step's first phase its
// timed launches are the rank's computations in the order of the plan, in the second its stages'
// squares, in the third their updates. A call names its action itself.
#include "tests/faults/faulty_backend.h"

#include <utility>

#include "absl/strings/match.h"
#include "schedlang/base/sl_check.h"

namespace stringline {

class FaultyBackend::FaultyDevice final : public Device {
 public:
  FaultyDevice(Device* of, const Plan& plan, Fault fault) : of_(of), fault_(std::move(fault)) {
    const auto own = plan.of(RankId(fault_.rank % plan.ranks()));
    const uint32_t first = plan.first[fault_.rank % plan.ranks()];
    for (uint32_t i = 0; first + i < fault_.action && i < own.size(); ++i) {
      if (IsCompute(own[i].kind)) ++computations_before_;
    }
    computes_ = fault_.place == FaultPlace::kAction && IsCompute(plan.actions[fault_.action].kind);
  }

  void MakeFor(int rank) override {
    rank_ = rank;
    of_->MakeFor(rank);
  }
  StreamId NewStream(LazyName name, int capacity) override {
    const StreamId stream = of_->NewStream(name, capacity + kMore);
    Note(stream);
    if (rank_ == fault_.rank && absl::EndsWith(Print(name), "computation")) compute_ = stream;
    return stream;
  }
  StreamId NewUrgentStream(LazyName name, int capacity) override {
    const StreamId stream = of_->NewUrgentStream(name, capacity + kMore);
    Note(stream);
    return stream;
  }
  EventId NewEvent(LazyName name) override { return of_->NewEvent(name); }
  absl::StatusOr<void*> Allocate(int64_t bytes) override { return of_->Allocate(bytes); }
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override { return of_->AllocateHost(bytes); }
  absl::Status CopyNow(void* to, const void* from, int64_t bytes) override {
    return of_->CopyNow(to, from, bytes);
  }
  using Device::Launch;
  void Launch(StreamId stream, const Work& work, WorkTimes* times) override {
    if (stream == compute_ && step_ == fault_.step && IsPlace(times != nullptr)) {
      work_ = work;
      of_->Launch(stream, {RunWithFault, this, 0}, times);
    } else {
      of_->Launch(stream, work, times);
    }
  }
  void Copy(StreamId stream, void* to, const void* from, int64_t bytes) override {
    of_->Copy(stream, to, from, bytes);
  }
  void Record(StreamId stream, EventId event) override { of_->Record(stream, event); }
  void Wait(StreamId stream, EventId event) override { of_->Wait(stream, event); }
  int64_t NowNs() const override { return of_->NowNs(); }
  void Submit() override { of_->Submit(); }
  absl::Status Synchronize() override {
    const absl::Status status = of_->Synchronize();
    launched_ = 0;
    if (++phase_ == kPhases) {
      phase_ = 0;
      ++step_;
    }
    return status;
  }

  // True at the fault's call of the stream's rank; enqueues the fault's work before the call.
  bool IsHere(StreamId stream, const Call& call) {
    const bool here = !computes_ && fault_.place == FaultPlace::kAction && step_ == fault_.step &&
                      phase_ == 0 && rank_of_[stream.value] == fault_.rank &&
                      call.action.print != nullptr &&
                      call.action.index == static_cast<int64_t>(fault_.action);
    if (here && fault_.run) of_->Launch(stream, {RunFault, this, 0});
    return here;
  }
  const Fault& fault() const { return fault_; }

 private:
  static constexpr int kMore = 8;  // room for the fault's work
  static constexpr int kPhases = 3;

  void Note(StreamId stream) {
    rank_of_.resize(static_cast<size_t>(stream.value) + 1, -1);
    rank_of_[stream.value] = rank_;
  }
  bool IsPlace(bool timed) {
    switch (fault_.place) {
      case FaultPlace::kAction:
        return computes_ && phase_ == 0 && timed && launched_++ == computations_before_;
      case FaultPlace::kSquares:
        return phase_ == 1 && launched_++ == 0;
      case FaultPlace::kUpdate:
        return phase_ == 2 && launched_++ == static_cast<int>(fault_.action);
    }
    return false;
  }
  static void RunFault(const void* self, int64_t, NativeStream) {
    static_cast<const FaultyDevice*>(self)->fault_.run();
  }
  static void RunWithFault(const void* self, int64_t, NativeStream stream) {
    const auto& device = *static_cast<const FaultyDevice*>(self);
    if (device.fault_.run) device.fault_.run();
    device.work_.run(device.work_.self, device.work_.argument, stream);
  }

  Device* const of_;
  const Fault fault_;
  bool computes_ = false;
  int computations_before_ = 0;  // before the action, on its rank
  int rank_ = 0;                 // for the streams made now
  std::vector<int> rank_of_;     // by stream
  StreamId compute_;             // the faulty rank's
  int step_ = 1, phase_ = 0;
  int launched_ = 0;  // in this phase, of the counted launches
  Work work_;         // the work after the fault
};

class FaultyBackend::FaultyGroup final : public Group {
 public:
  FaultyGroup(Group* of, FaultyDevice* device) : of_(of), device_(device) {}
  int members() const override { return of_->members(); }
  void Enqueue(int member, StreamId stream, const Call* call) override {
    if (!device_->IsHere(stream, *call) || !device_->fault().sizes) {
      return of_->Enqueue(member, stream, call);
    }
    other_ = *call;
    SL_CHECK(other_.bytes > 4) << other_.bytes;
    other_.bytes -= 4;
    of_->Enqueue(member, stream, &other_);
  }

 private:
  Group* const of_;
  FaultyDevice* const device_;
  Call other_;
};

class FaultyBackend::FaultyGroups final : public Groups {
 public:
  FaultyGroups(Groups* of, FaultyDevice* device) : of_(of), device_(device) {}
  using Groups::New;
  Group* New(absl::Span<const int> ranks, absl::Span<const MemberPair> talks) override {
    return &groups_.emplace_back(of_->New(ranks, talks), device_);
  }
  bool BeginsTogether() const override { return of_->BeginsTogether(); }
  absl::Status Connect() override { return of_->Connect(); }
  absl::Status CheckCalls() override { return of_->CheckCalls(); }
  absl::Status Agree(const absl::Status& status) override { return of_->Agree(status); }
  void TellStates(const RankStates* states) override { of_->TellStates(states); }

 private:
  Groups* const of_;
  FaultyDevice* const device_;
  std::deque<FaultyGroup> groups_;
};

FaultyBackend::FaultyBackend(std::unique_ptr<Backend> of, const Plan& plan, Fault fault)
    : of_(std::move(of)),
      device_(std::make_unique<FaultyDevice>(of_->device(), plan, std::move(fault))),
      groups_(std::make_unique<FaultyGroups>(of_->groups(), device_.get())) {}

FaultyBackend::~FaultyBackend() = default;

Device* FaultyBackend::device() { return device_.get(); }
Groups* FaultyBackend::groups() { return groups_.get(); }

}  // namespace stringline
