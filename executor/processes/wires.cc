// A message is ended at once by the thread that brought its last end; the reading thread brings
// those of other processes, writes what sockets did not take before, and looks at deadlines now and
// then.
#include "executor/processes/wires.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/engine/lost_process.h"
#include "executor/processes/sockets.h"
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

std::deque<WireConnection> Closed(int processes, WireWaits* waits, WirePoll* poll) {
  std::deque<WireConnection> connections;
  for (int p = 0; p < processes; ++p) connections.emplace_back(p, waits, poll);
  return connections;
}

}  // namespace

Wires::Wires(CpuDevice* device, World* world, const WireSettings& settings)
    : world_(world),
      device_(device),
      settings_(settings),
      names_(*world),
      peers_(&names_),
      waits_(device, poll_.wake()),
      connections_(Closed(world->processes(), &waits_, &poll_)),
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
  poll_.wake()->Wake();
  for (std::thread& thread : thread_) thread.join();
  thread_.clear();
}

Wires::Lock Wires::Take() {
  Lock lock(mutex_, std::defer_lock);
  for (int i = 0; i < kLockSpins && !lock.try_lock(); ++i) SpinOnce();
  if (!lock.owns_lock()) lock.lock();
  return lock;
}

int Wires::NewGroup(absl::Span<const int> ranks, absl::Span<const MemberPair> talks) {
  const Lock lock(mutex_);
  peers_.NoteGroup(ranks, talks);
  return lanes_.NewGroup(ranks);
}

absl::Status Wires::Connect() {
  if (world_->processes() == 1) return absl::OkStatus();
  absl::Status status = connected_ ? absl::OkStatus() : poll_.Open();
  if (status.ok()) status = ConnectPeers();
  if (status.ok() && !connected_) status = StartReading();
  if (!status.ok()) {
    world_->Fail(status);
    return status;
  }
  connected_ = true;
  // No process sends before all have made their groups.
  return world_->Exchange("").status();
}

absl::Status Wires::ConnectPeers() {
  const auto missing = [this] {
    const Lock lock(mutex_);
    failure_.SetDeciders(DecidersOf(names_));
    std::vector<bool> all = peers_.All();
    for (size_t p = 0; p < all.size(); ++p) all[p] = all[p] && !connections_[p].opened();
    return all;
  };
  const auto open = [this](int process, int fd) {
    BoundBuffers(fd);
    const Lock lock(mutex_);
    connections_[process].Open(fd);
  };
  const int64_t most_ms = ConnectMs();
  std::vector<int> late;
  const absl::Status status =
      ConnectProcesses(world_, settings_.proof, most_ms, &names_, {missing, open}, &late);
  // A failure of the exchange before it names who is late itself.
  if (!absl::IsDeadlineExceeded(status) || IsLost(status)) return status;
  return LateToConnect(most_ms, std::move(late));
}

// Sooner than those lose patience who are connected already, and wait in an exchange.
int64_t Wires::ConnectMs() const {
  return settings_.wait_ms == 0 ? settings_.join_ms
                                : std::min(settings_.join_ms, settings_.wait_ms * 3 / 4);
}

// A process that did not connect was stopped, or still waits for the addresses from process 0.
absl::Status Wires::LateToConnect(int64_t most_ms, std::vector<int> late) {
  const absl::Status told = world_->state();
  if (!told.ok()) return told;
  std::string cause;
  if (!world_->FirstAnswers(settings_.ask_ms)) {
    cause = absl::StrCat(names_.NameOf(0),
                         " does not answer: its process was stopped, or its host is lost; ");
    if (late.size() > 1 && late[0] == 0) late.erase(late.begin());
  }
  const auto name = [this](std::string* text, int p) { text->append(names_.NameOf(p)); };
  return AsLost(absl::DeadlineExceededError(absl::StrCat(
      cause, absl::StrJoin(late, ", ", name), " did not connect to ", names_.NameOf(names_.own()),
      " within ", static_cast<double>(most_ms) / 1000, " s")));
}

absl::Status Wires::StartReading() {
  return StartThreads(
      1, [this] { Loop(); }, &thread_);
}

void Wires::Start(int group, const WireWaits::Onward& onward, absl::Span<const Transfer> sends,
                  absl::Span<const Transfer> receives) {
  const Lock lock = Take();
  if (failure_.settled()) return device_->Fail(failure_.status());
  // One more than the messages, so that nothing ends before everything is posted.
  const int waiting = waits_.Add(onward, static_cast<int>(sends.size() + receives.size()) + 1);
  // Messages that go unasked are awaited elsewhere.
  const bool first = !sends.empty() && sends[0].mutual;
  const auto send_all = [&] {
    for (const Transfer& send : sends) NoticeIf(lanes_.PostSend(group, send, waiting));
  };
  if (first) send_all();
  for (const Transfer& receive : receives) NoticeIf(lanes_.PostReceive(group, receive, waiting));
  if (!first) send_all();
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
  if (!failure_.WaitUntilSettled(lock, kSoon)) {
    const std::vector<int> late = world_->late();
    // Without the late processes it is the whole message of one that waited by itself, in Connect,
    // and that answers no inquiry: who asked would take it for the late one.
    if (absl::IsDeadlineExceeded(status) && late.empty()) {
      failure_.TakeOver(status);
    } else {
      failure_.Notice({status, -1, -1, late});
    }
  }
  (void)failure_.WaitUntilSettled(lock, failure_.MostUntilSettled());
  return failure_.settled() ? failure_.status() : status;
}

void Wires::TellStates(const RankStates* states) {
  const Lock lock(mutex_);
  failure_.TellStates(states);
  if (states == nullptr) lanes_.ForgetEnded();
}

void Wires::AskForRecords(int64_t number) {
  const Lock lock(mutex_);
  (void)HandOnWish(number, -1);
}

void Wires::OnAskForRecords(std::function<void(int64_t)> asked) {
  const Lock lock(mutex_);
  wish_.asked = std::move(asked);
}

// Each process hands a wish on once: it reaches all that are connected in any way, past processes
// that are stopped.
bool Wires::HandOnWish(int64_t number, int from) {
  if (number <= wish_.number) return false;
  wish_.number = number;
  for (WireConnection& connection : connections_) {
    if (connection.process() == from) continue;
    connection.Put({{.kind = WireFrame::kRecord, .index = number}});
  }
  return true;
}

bool Wires::BeginFrame(WireConnection* from) {
  const WireHeader& header = from->header();
  if (header.mark != kWireMark || header.length < 0) return false;
  switch (header.kind) {
    case WireFrame::kBye:
    case WireFrame::kAsk:
    case WireFrame::kRecord:
      return header.length == 0;
    case WireFrame::kFail:
    case WireFrame::kNoticed:
    case WireFrame::kAnswer:
      break;
    default: {
      void* target = nullptr;
      if (!lanes_.MayCome(from->process(), header, &target)) return false;
      from->SetTarget(target);
      // Bytes with a tag come by themselves, where something carries them.
      if (header.tag != 0 && from->carrier() == nullptr) return false;
      const bool kept = target == nullptr && header.length > 0 && header.tag == 0;
      if (!kept && header.kind != WireFrame::kDiffers) return true;
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
    case WireFrame::kUnasked:
    case WireFrame::kDiffers:
      return NoticeIf(lanes_.Come(from->header(), from->text()));
    case WireFrame::kBye:
      return from->NoteLeft();
    case WireFrame::kRecord:
      if (HandOnWish(from->header().index, from->process()) && wish_.asked) {
        wish_.asked(from->header().index);
      }
      return;
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

void Wires::CheckDeadlines() {
  failure_.CheckDeadlines();
  if (!failure_.settled()) lanes_.AskLate();
}

void Wires::Loop() {
  int64_t goodbye_ns = 0;
  bool reading = true;
  for (;;) {
    int64_t due_ns = 0;
    {
      const Lock lock(mutex_);
      due_ns = waits_.EndHolds();
      if (reading && !reads()) {
        reading = false;
        for (WireConnection& connection : connections_) connection.StopReading();
      }
      if (stopping_) {
        if (goodbye_ns == 0) goodbye_ns = NowNs() + kGoodbyeNs;
        const bool unsent =
            std::any_of(connections_.begin(), connections_.end(),
                        [](const WireConnection& connection) { return connection.unsent(); });
        if (!unsent || NowNs() > goodbye_ns) return;
      }
    }
    const absl::Span<const WirePoll::Ready> ready =
        poll_.Wait(due_ns == 0 ? kLookNs : std::clamp<int64_t>(due_ns - NowNs(), 0, kLookNs));
    const Lock lock(mutex_);
    for (const auto [process, events] : ready) {
      WireConnection& connection = connections_[process];
      if ((events & EPOLLOUT) != 0) connection.Write();
      if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) Read(&connection);
    }
    CheckDeadlines();
  }
}

}  // namespace stringline
