// A message is ended at once by the thread that brought its last end; the reading thread brings
// those of other processes, writes what sockets did not take before, and looks at deadlines now and
// then.
#include "executor/processes/wires.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/engine/lost_process.h"
#include "executor/processes/wire_connect.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "schedlang/base/threads.h"

namespace stringline {
namespace {

constexpr int64_t kLookNs = 100'000'000;  // between two looks at deadlines
constexpr int64_t kGoodbyeNs = 2'000'000'000;
constexpr int kLockSpins = 100;
// So soon the connections tell of a death that another process has noticed.
constexpr std::chrono::milliseconds kSoon(300);

void SpinOnce() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

std::deque<WireConnection> Closed(int processes, WireWaits* waits, WakeEvent* wake) {
  std::deque<WireConnection> connections;
  for (int p = 0; p < processes; ++p) connections.emplace_back(p, waits, wake);
  return connections;
}

}  // namespace

Wires::Wires(CpuDevice* device, World* world, const WireSettings& settings)
    : world_(world),
      device_(device),
      settings_(settings),
      names_(*world),
      waits_(device, &wake_),
      connections_(Closed(world->processes(), &waits_, &wake_)),
      lanes_(&names_, &connections_, &waits_),
      failure_(&names_, settings, device, &connections_, &lanes_) {}

Wires::~Wires() { Stop(); }

void Wires::Stop() {
  {
    const Lock lock(mutex_);
    if (!failure_.settled()) {
      for (WireConnection& connection : connections_) connection.Put({{.kind = WireFrame::kBye}});
    }
    stopping_ = true;
  }
  wake_.Wake();
  for (std::thread& thread : thread_) thread.join();
  thread_.clear();
}

Wires::Lock Wires::Take() {
  Lock lock(mutex_, std::defer_lock);
  for (int i = 0; i < kLockSpins && !lock.try_lock(); ++i) SpinOnce();
  if (!lock.owns_lock()) lock.lock();
  return lock;
}

int Wires::NewGroup(absl::Span<const int> ranks) {
  const Lock lock(mutex_);
  return lanes_.NewGroup(ranks);
}

absl::Status Wires::Connect() {
  if (world_->processes() == 1) return absl::OkStatus();
  if (!connected_) {
    absl::Status status = Open();
    if (status.ok()) status = StartReading();
    if (!status.ok()) {
      world_->Fail(status);
      return status;
    }
    connected_ = true;
  }
  // No process sends before all have made their groups.
  return world_->Exchange("").status();
}

absl::Status Wires::Open() {
  const int64_t most_ms = ConnectMs();
  const absl::Status status =
      ConnectProcesses(world_, settings_.proof, most_ms, &names_, &connections_);
  // A failure of the exchange before it names who is late itself.
  const bool late = absl::IsDeadlineExceeded(status) && !IsLost(status);
  return late ? LateToConnect(most_ms, status) : status;
}

// Sooner than those lose patience who are connected already, and wait in an exchange.
int64_t Wires::ConnectMs() const {
  return settings_.wait_ms == 0 ? settings_.join_ms
                                : std::min(settings_.join_ms, settings_.wait_ms * 3 / 4);
}

// A process that did not connect was stopped, or still waits for the addresses from process 0.
absl::Status Wires::LateToConnect(int64_t most_ms, const absl::Status& status) {
  const absl::Status told = world_->state();
  if (!told.ok()) return told;
  const auto late_from = [&](int begin) {
    std::vector<std::string> late;
    for (int p = begin; p < names_.processes(); ++p) {
      if (p != names_.own() && connections_[p].fd() < 0) late.push_back(names_.NameOf(p));
    }
    return late;
  };
  std::vector<std::string> late = late_from(0);
  if (late.empty()) return status;
  std::string cause;
  if (!world_->FirstAnswers(settings_.ask_ms)) {
    cause = absl::StrCat(names_.NameOf(0),
                         " does not answer: its process was stopped, or its host is lost; ");
    if (late.size() > 1) late = late_from(1);
  }
  return AsLost(absl::DeadlineExceededError(absl::StrCat(
      cause, absl::StrJoin(late, ", "), " did not connect to ", names_.NameOf(names_.own()),
      " within ", static_cast<double>(most_ms) / 1000, " s")));
}

absl::Status Wires::StartReading() {
  SL_RETURN_IF_ERROR(wake_.Open());
  return StartThreads(
      1, [this] { Loop(); }, &thread_);
}

void Wires::Start(int group, const WireWaits::Onward& onward, absl::Span<const Transfer> sends,
                  absl::Span<const Transfer> receives) {
  const Lock lock = Take();
  if (failure_.settled()) return device_->Fail(failure_.status());
  // One more than the messages, so that nothing ends before everything is posted.
  const int waiting = waits_.Add(onward, static_cast<int>(sends.size() + receives.size()) + 1);
  for (const Transfer& receive : receives) NoticeIf(lanes_.PostReceive(group, receive, waiting));
  for (const Transfer& send : sends) NoticeIf(lanes_.PostSend(group, send, waiting));
  waits_.Done(waiting);
}

void Wires::Fail(const absl::Status& status) {
  const Lock lock(mutex_);
  failure_.Notice({status});
}

absl::Status Wires::Agree(const absl::Status& status) {
  const absl::Status told = world_->state();
  Lock lock(mutex_);
  if (!connected_ || status == failure_.status()) return status;
  if (status != told) {
    // The failure is of this process alone; the others are told whose it is.
    failure_.Notice(
        {absl::AbortedError(absl::StrCat(names_.NameOf(names_.own()), ": ", status.message()))});
    return status;
  }
  if (!failure_.WaitUntilSettled(lock, kSoon)) failure_.Notice({status, -1, world_->late()});
  (void)failure_.WaitUntilSettled(lock, failure_.MostUntilSettled());
  return failure_.settled() ? failure_.status() : status;
}

void Wires::TellStates(const RankStates* states) {
  const Lock lock(mutex_);
  failure_.TellStates(states);
  if (states == nullptr) lanes_.ForgetEnded();
}

bool Wires::BeginFrame(WireConnection* from) {
  const WireHeader& header = from->header();
  if (header.mark != kWireMark || header.length < 0) return false;
  switch (header.kind) {
    case WireFrame::kBye:
    case WireFrame::kAsk:
      return header.length == 0;
    case WireFrame::kFail:
    case WireFrame::kNoticed:
    case WireFrame::kAnswer:
      break;
    default: {
      void* target = nullptr;
      if (!lanes_.MayCome(header, &target)) return false;
      from->SetTarget(target);
      if (header.kind != WireFrame::kDiffers) return true;
    }
  }
  if (header.length > kMostWireText) return false;
  from->SetText();
  return true;
}

void Wires::EndFrame(WireConnection* from) {
  switch (from->header().kind) {
    case WireFrame::kReady:
    case WireFrame::kData:
    case WireFrame::kDiffers:
      return NoticeIf(lanes_.Come(from->header(), from->text()));
    case WireFrame::kBye:
      return from->NoteLeft();
    default:
      return failure_.Come(from);
  }
}

void Wires::Read(WireConnection* connection) {
  const std::string why = connection->Read(this);
  if (why.empty()) return;
  connection->Close();
  failure_.NoticeLost(connection->process(), connection->left(), stopping_, why);
}

void Wires::Loop() {
  std::vector<pollfd> waiting(connections_.size() + 1);
  int64_t goodbye_ns = 0;
  for (;;) {
    int64_t due_ns = 0;
    {
      const Lock lock(mutex_);
      due_ns = waits_.EndHolds();
      bool unsent = false;
      for (size_t p = 0; p < connections_.size(); ++p) {
        const bool writes = connections_[p].unsent();
        unsent = unsent || writes;
        waiting[p] = {reads() || writes ? connections_[p].fd() : -1,
                      static_cast<short>((reads() ? POLLIN : 0) | (writes ? POLLOUT : 0)), 0};
      }
      if (stopping_) {
        if (goodbye_ns == 0) goodbye_ns = NowNs() + kGoodbyeNs;
        if (!unsent || NowNs() > goodbye_ns) return;
      }
    }
    waiting.back() = {wake_.fd(), POLLIN, 0};
    const int64_t sleep_ns =
        due_ns == 0 ? kLookNs : std::clamp<int64_t>(due_ns - NowNs(), 0, kLookNs);
    const timespec longest = {0, sleep_ns};
    (void)ppoll(waiting.data(), waiting.size(), &longest, nullptr);
    if (waiting.back().revents != 0) wake_.Clear();
    const Lock lock(mutex_);
    for (size_t p = 0; p < connections_.size(); ++p) {
      if ((waiting[p].revents & POLLOUT) != 0) connections_[p].Write();
      if ((waiting[p].revents & (POLLIN | POLLHUP | POLLERR)) != 0) Read(&connections_[p]);
    }
    failure_.CheckDeadlines();
  }
}

}  // namespace stringline
