// Processes synchronise in Meet: the last to come does the work for all, such as running the step
// to which each has enqueued its part. All enqueue to one device, under one lock; a group is made
// once, by the first process to request it.
#include "tests/executor/shared_machine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {

SharedMachine::SharedMachine(std::vector<std::vector<int>> ranks, int threads)
    : ranks_(std::move(ranks)), told_(ranks_.size()), exchanged_(ranks_.size(), 0) {
  auto backend = CpuBackend::Make(threads, {});
  SL_CHECK(backend.ok()) << backend.status();
  backend_ = *std::move(backend);
}

template <typename Work>
absl::Status SharedMachine::Meet(Work work) {
  std::unique_lock lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (++came_ == static_cast<int>(ranks_.size())) {
    result_ = work();
    came_ = 0;
    ++meetings_;
    met_.notify_all();
    return result_;
  }
  const int64_t before = meetings_;
  met_.wait(lock, [&] { return meetings_ != before || !failure_.ok(); });
  return meetings_ != before ? result_ : failure_;
}

void SharedMachine::GiveUp(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = absl::AbortedError(status.message());
  met_.notify_all();
}

// Enqueues like the device itself, but a step runs when all processes wait for it.
class PlayedDevice final : public Device {
 public:
  explicit PlayedDevice(SharedMachine* machine)
      : machine_(*machine), device_(*machine->backend_->device()) {}

  StreamId NewStream(LazyName name, int capacity) override {
    const std::lock_guard lock(machine_.mutex_);
    return device_.NewStream(name, capacity);
  }
  EventId NewEvent(LazyName name) override {
    const std::lock_guard lock(machine_.mutex_);
    return device_.NewEvent(name);
  }
  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    const std::lock_guard lock(machine_.mutex_);
    return device_.Allocate(bytes);
  }
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override {
    const std::lock_guard lock(machine_.mutex_);
    return device_.AllocateHost(bytes);
  }
  absl::Status CopyNow(void* to, const void* from, int64_t bytes) override {
    const std::lock_guard lock(machine_.mutex_);
    return device_.CopyNow(to, from, bytes);
  }
  void Launch(StreamId stream, const Work& work, WorkTimes* times) override {
    const std::lock_guard lock(machine_.mutex_);
    device_.Launch(stream, work, times);
  }
  void Copy(StreamId stream, void* to, const void* from, int64_t bytes) override {
    const std::lock_guard lock(machine_.mutex_);
    device_.Copy(stream, to, from, bytes);
  }
  void Record(StreamId stream, EventId event) override {
    const std::lock_guard lock(machine_.mutex_);
    device_.Record(stream, event);
  }
  void Wait(StreamId stream, EventId event) override {
    const std::lock_guard lock(machine_.mutex_);
    device_.Wait(stream, event);
  }
  int64_t NowNs() const override { return device_.NowNs(); }
  void Submit() override {}
  absl::Status Synchronize() override {
    return machine_.Meet([this] { return device_.Synchronize(); });
  }

 private:
  SharedMachine& machine_;
  Device& device_;
};

class PlayedGroup final : public Group {
 public:
  PlayedGroup(std::mutex* mutex, Group* group) : mutex_(*mutex), group_(*group) {}
  int members() const override { return group_.members(); }
  void Enqueue(int member, StreamId stream, const Call* call) override {
    const std::lock_guard lock(mutex_);
    group_.Enqueue(member, stream, call);
  }

 private:
  std::mutex& mutex_;
  Group& group_;
};

// The k-th group of a process is the k-th of all others.
class PlayedGroups final : public Groups {
 public:
  explicit PlayedGroups(SharedMachine* machine) : machine_(*machine) {}
  using Groups::New;
  Group* New(absl::Span<const int> ranks, absl::Span<const MemberPair> talks) override {
    const std::lock_guard lock(machine_.mutex_);
    const std::vector<int> members(ranks.begin(), ranks.end());
    if (groups_.size() == machine_.groups_.size()) {
      machine_.groups_.push_back({members, machine_.backend_->groups()->New(ranks, talks)});
    }
    const auto& made = machine_.groups_[groups_.size()];
    SL_CHECK(made.ranks == members) << "processes make groups in different orders";
    return &groups_.emplace_back(&machine_.mutex_, made.group);
  }

 private:
  SharedMachine& machine_;
  std::deque<PlayedGroup> groups_;
};

class PlayedWorld final : public World {
 public:
  PlayedWorld(SharedMachine* machine, int process) : machine_(*machine), process_(process) {}
  int ranks() const override {
    size_t ranks = 0;
    for (const std::vector<int>& of : machine_.ranks_) ranks += of.size();
    return static_cast<int>(ranks);
  }
  absl::Span<const int> local() const override { return machine_.ranks_[process_]; }
  int processes() const override { return static_cast<int>(machine_.ranks_.size()); }
  int process() const override { return process_; }

  // All meet twice, so that no process sends new texts before all have read the old.
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view mine) override {
    {
      const std::lock_guard lock(machine_.mutex_);
      machine_.told_[process_] = std::string(mine);
      machine_.exchanged_[static_cast<size_t>(process_)] += static_cast<int64_t>(mine.size());
    }
    SL_RETURN_IF_ERROR(machine_.Meet([this] {
      machine_.heard_ = machine_.told_;
      return absl::OkStatus();
    }));
    std::vector<std::string> heard;
    {
      const std::lock_guard lock(machine_.mutex_);
      heard = machine_.heard_;
    }
    SL_RETURN_IF_ERROR(machine_.Meet([] { return absl::OkStatus(); }));
    return heard;
  }
  void Fail(const absl::Status& status) override {
    machine_.GiveUp(absl::AbortedError(absl::StrCat("process ", process_, ": ", status.message())));
  }

 private:
  SharedMachine& machine_;
  const int process_;
};

class PlayedBackend final : public Backend {
 public:
  PlayedBackend(SharedMachine* machine, Backend* shared, int process)
      : shared_(*shared), device_(machine), groups_(machine), world_(machine, process) {}
  Device* device() override { return &device_; }
  Groups* groups() override { return &groups_; }
  Kernels* kernels() override { return CpuKernels(); }
  AvailableMemory available(int place) override { return shared_.available(place); }
  World* world() override { return &world_; }

 private:
  Backend& shared_;
  PlayedDevice device_;
  PlayedGroups groups_;
  PlayedWorld world_;
};

std::unique_ptr<Backend> SharedMachine::Join(int process) {
  return std::make_unique<PlayedBackend>(this, backend_.get(), process);
}

}  // namespace stringline
