// Requests lie in one array, so that a look is one call. Their places are fixed for what comes, and
// taken as needed for what is sent.
#include "executor/mpi/mpi_wires.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/engine/lost_process.h"
#include "executor/engine/packed_numbers.h"
#include "executor/processes/sockets.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// Tags of frames, and of bytes: as many of these may be under way between two processes.
constexpr int kFrameTag = 1, kFirstBytesTag = 2, kBytesTags = 1 << 20;

constexpr int64_t kLookNs = 100'000'000;  // between two looks at deadlines
constexpr int64_t kGoodbyeNs = 2'000'000'000;
// An idle thread looks at least so often and for so long, and yields the processor to others after
// the first looks. Where many processes share the processors, it yields to those it waits for.
constexpr int kIdleLooks = 100;
constexpr int64_t kIdleLookNs = 50'000;
constexpr int kGreedyLooks = 20;
// The thread of the wires stays away for so long from one that looks, and need not be woken from
// such a sleep.
constexpr int64_t kShortSleepNs = 200'000;
constexpr int64_t kHeaderBytes = sizeof(WireHeader);

absl::Status ShareNames(World* world, ProcessNames* names) {
  PackedNumbers mine;
  mine.Add(static_cast<int32_t>(world->local().size()));
  for (const int rank : world->local()) mine.Add(int32_t{rank});
  const std::string host = HostName();
  mine.AddAll(absl::MakeConstSpan(host));
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world->Exchange(mine.bytes()));
  for (size_t p = 0; p < all.size(); ++p) {
    NumberReader reader(all[p]);
    std::vector<int> ranks(reader.Take<int32_t>());
    for (int& rank : ranks) rank = reader.Take<int32_t>();
    std::string told;
    while (!reader.done()) told.push_back(reader.Take<char>());
    names->Add(static_cast<int>(p), std::move(told), ranks);
  }
  return absl::OkStatus();
}

}  // namespace

MpiWires::~MpiWires() {
  device_->LookAt(nullptr);
  Stop();
  const Lock lock(mutex_);
  LeaveRest();
  for (WireConnection& connection : connections_) connection.Close();
}

absl::Status MpiWires::Open() {
  SL_RETURN_IF_ERROR(ShareNames(world_, &names_));
  auto comm = session_->NewComm(ConnectMs());
  if (!comm.ok()) return AsLost(comm.status());
  const Lock lock(mutex_);
  comm_ = *comm;
  const auto processes = static_cast<size_t>(names_.processes());
  requests_.assign(processes, session_->library().no_request);
  moving_of_.assign(processes, -1);
  tags_.assign(processes, 0);
  slots_.resize(processes);
  failure_.SetDeciders(DecidersOf(names_));
  return absl::OkStatus();
}

absl::Status MpiWires::ConnectPeers() {
  if (comm_ == nullptr) SL_RETURN_IF_ERROR(Open());
  const Lock lock(mutex_);
  const std::vector<bool> peers = peers_.All();
  for (int p = 0; p < names_.processes(); ++p) {
    if (!peers[p] || connections_[p].opened()) continue;
    slots_[p] = Slot(new char[kSlotBytes]);
    connections_[p].OpenOver(this);
    Listen(p);
  }
  return failure_.status();
}

bool MpiWires::Succeeded(int result, const char* function) {
  const absl::Status status = session_->library().StatusOf(result, function);
  if (!status.ok()) {
    session_->Break();
    failure_.Notice({AsLost(status)});
  }
  return status.ok();
}

// The next frame of the process.
void MpiWires::Listen(int process) {
  if (session_->broken()) return;
  const mpi::Session& mpi = *session_;
  int result = mpi::kSuccess;
  {
    const mpi::Session::Lock lock = session_->Take();
    result = mpi->Irecv(slots_[process].get(), kSlotBytes, mpi->byte, process, kFrameTag, comm_,
                        &requests_[process]);
  }
  (void)Succeeded(result, "Irecv");
}

int MpiWires::NewMoving() {
  if (free_.empty()) {
    free_.push_back(static_cast<int>(movings_.size()));
    movings_.emplace_back().slot = Slot(new char[kSlotBytes]);
  }
  const int moving = free_.back();
  free_.pop_back();
  return moving;
}

mpi::Request* MpiWires::NewRequest(int moving) {
  const auto all = moving_of_.begin() + names_.processes();
  const auto place = std::find(all, moving_of_.end(), -1);
  const auto index = static_cast<size_t>(place - moving_of_.begin());
  if (place == moving_of_.end()) {
    moving_of_.push_back(-1);
    requests_.push_back(session_->library().no_request);
  }
  moving_of_[index] = moving;
  ++movings_[moving].left;
  return &requests_[index];
}

// A header with a tag wants its bytes to be a message of their own.
void MpiWires::Carry(int process, Outgoing frame) {
  if (session_->broken()) return;
  WireHeader& header = frame.header;
  const int moving = NewMoving();
  Moving& of = movings_[moving];
  of.from = -1;
  const char* bytes = frame.text.empty() ? frame.bytes : frame.text.data();
  const bool far = header.tag != 0 || header.length > kMostInline;
  if (far) header.tag = kFirstBytesTag + (tags_[process] = (tags_[process] + 1) % kBytesTags);
  const int64_t behind = far ? 0 : header.length;
  std::memcpy(of.slot.get(), &header, kHeaderBytes);
  if (behind > 0) std::memcpy(of.slot.get() + kHeaderBytes, bytes, static_cast<size_t>(behind));
  int result = mpi::kSuccess;
  {
    const mpi::Session::Lock lock = session_->Take();
    const mpi::Session& mpi = *session_;
    result = mpi->Isend(of.slot.get(), static_cast<int>(kHeaderBytes + behind), mpi->byte, process,
                        kFrameTag, comm_, NewRequest(moving));
    if (far) {
      of.waiting = std::exchange(frame.waiting, -1);
      of.text = std::move(frame.text);
      if (!of.text.empty()) bytes = of.text.data();
    }
    for (int64_t sent = behind; sent < header.length && result == mpi::kSuccess;
         sent += mpi::kMostBytes) {
      const auto part = static_cast<int>(std::min(mpi::kMostBytes, header.length - sent));
      result =
          mpi->Isend(bytes + sent, part, mpi->byte, process, header.tag, comm_, NewRequest(moving));
    }
  }
  pauses_.Restart();
  if (sleeps_until_ns_ > NowNs() + kShortSleepNs) poll_.wake()->Wake();
  if (!Succeeded(result, "Isend")) return;
  if (frame.waiting >= 0) waits_.Done(frame.waiting);
}

void MpiWires::TakeBytes(int process, const WireHeader& header, void* target) {
  if (session_->broken()) return;
  const int moving = NewMoving();
  Moving& of = movings_[moving];
  of.from = process;
  of.header = header;
  if (target == nullptr) of.text.resize(static_cast<size_t>(header.length));
  char* const to = target == nullptr ? of.text.data() : static_cast<char*>(target);
  const mpi::Session& mpi = *session_;
  int result = mpi::kSuccess;
  {
    const mpi::Session::Lock lock = session_->Take();
    for (int64_t at = 0; at < header.length && result == mpi::kSuccess; at += mpi::kMostBytes) {
      const auto part = static_cast<int>(std::min(mpi::kMostBytes, header.length - at));
      result = mpi->Irecv(to + at, part, mpi->byte, process, header.tag, comm_, NewRequest(moving));
    }
  }
  (void)Succeeded(result, "Irecv");
}

void MpiWires::EndMoving(int request) {
  const int moving = std::exchange(moving_of_[request], -1);
  Moving& of = movings_[moving];
  if (--of.left > 0) return;
  of.text.clear();
  const int waiting = std::exchange(of.waiting, -1), from = of.from;
  const WireHeader header = of.header;
  free_.push_back(moving);
  if (waiting >= 0) waits_.Done(waiting);
  if (from < 0 || !reads()) return;
  const bool data = header.kind == WireFrame::kData || header.kind == WireFrame::kUnasked;
  if (data) return NoticeIf(lanes_.Took(header));
  EndFrameOf(from);
}

// True if something has come, or was sent.
bool MpiWires::Look() {
  if (session_->broken()) return false;
  const mpi::Session& mpi = *session_;
  ended_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0, result = mpi::kSuccess;
  {
    const mpi::Session::Lock lock = session_->Take();
    result = mpi->Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                           ended_.data(), statuses_.data());
  }
  if (!Succeeded(result, "Testsome") || count == mpi::kUndefined) return false;
  for (int i = 0; i < count; ++i) Ended(ended_[i], statuses_[i]);
  return count > 0;
}

void MpiWires::Ended(int request, const mpi::Status& status) {
  if (request >= names_.processes()) return EndMoving(request);
  if (!reads()) return;  // the run has failed: nothing is taken any more
  TakeFrame(request, static_cast<int64_t>(status.received));
}

// Data with a tag are taken when their receiver has come; of other frames, the next is taken when
// all bytes of the one before have come.
void MpiWires::TakeFrame(int process, int64_t bytes) {
  WireConnection& connection = connections_[process];
  WireHeader header;
  const bool whole = bytes >= kHeaderBytes;
  if (whole) std::memcpy(&header, slots_[process].get(), kHeaderBytes);
  connection.SetHeader(header);
  const int64_t behind = bytes - kHeaderBytes;
  if (!whole || !BeginFrame(&connection) || behind != (header.tag == 0 ? header.length : 0)) {
    connection.Close();
    return failure_.NoticeLost(process, connection.left(), stopping_,
                               "it sent something else than a message");
  }
  if (behind > 0) {
    std::memcpy(connection.target(), slots_[process].get() + kHeaderBytes,
                static_cast<size_t>(behind));
  }
  const bool data = header.kind == WireFrame::kData || header.kind == WireFrame::kUnasked;
  if (header.tag != 0 && !data) return TakeBytes(process, header, connection.target());
  EndFrameOf(process);
}

void MpiWires::EndFrameOf(int process) {
  WireConnection& connection = connections_[process];
  EndFrame(&connection);
  if (!connection.left()) return Listen(process);
  failure_.NoticeLost(process, /*left=*/true, stopping_, "");
}

bool MpiWires::Leaves() {
  if (!stopping_) return false;
  if (goodbye_ns_ == 0) goodbye_ns_ = NowNs() + kGoodbyeNs;
  const auto all = moving_of_.begin() + names_.processes();
  const bool sent = std::all_of(all, moving_of_.end(), [](int moving) { return moving < 0; });
  return sent || session_->broken() || NowNs() > goodbye_ns_;
}

// Messages under way would go on into memory that may be gone: then MPI is not called any more.
void MpiWires::LeaveRest() {
  const mpi::Session& mpi = *session_;
  for (size_t i = 0; i < requests_.size() && !session_->broken(); ++i) {
    if (requests_[i] == mpi->no_request) continue;
    if (i >= static_cast<size_t>(names_.processes())) {
      session_->Break();
      break;
    }
    const mpi::Session::Lock lock = session_->Take();
    int done = 0;
    mpi::Status status;
    (void)mpi->Cancel(&requests_[i]);
    (void)mpi->Test(&requests_[i], &done, &status);
    if (done == 0) session_->Break();
  }
  if (!session_->broken()) return;
  // The library may still read and write here.
  for (Slot& slot : slots_) (void)slot.release();
  auto* const kept = new std::deque<Moving>(std::move(movings_));
  (void)kept;
}

// When an idle thread has looked for long enough, the thread of the wires goes on where it ends.
bool MpiWires::LookOut(int64_t since_ns) {
  bool came = false, goes_on = false;
  {
    const Lock lock = Take();
    came = Look();
    if (came) pauses_.Restart();
    idle_.look_ns = NowNs();
    if (std::exchange(idle_.since_ns, since_ns) != since_ns) idle_.looks = 0;
    ++idle_.looks;
    goes_on = idle_.looks < kIdleLooks || idle_.look_ns < since_ns + kIdleLookNs;
    if (!goes_on) idle_.look_ns = 0;
  }
  if (!goes_on) {
    poll_.wake()->Wake();
  } else if (!came && idle_.looks > kGreedyLooks) {
    (void)sched_yield();
  }
  return goes_on;
}

void MpiWires::Loop() {
  const SharpTimers sharp;
  int64_t looked_ns = 0;
  for (;;) {
    int64_t sleep_ns = 0;
    {
      const Lock lock = Take();
      sleeps_until_ns_ = 0;
      if (Look()) pauses_.Restart();
      const int64_t due_ns = waits_.EndHolds(), now_ns = NowNs();
      if (now_ns > looked_ns + kLookNs) {
        looked_ns = now_ns;
        CheckDeadlines();
      }
      if (Leaves()) return;
      sleep_ns = pauses_.NextNs();
      if (now_ns < idle_.look_ns + kShortSleepNs) sleep_ns = std::max(sleep_ns, kShortSleepNs);
      if (due_ns != 0) sleep_ns = std::clamp<int64_t>(due_ns - now_ns, 0, sleep_ns);
      if (sleep_ns > 0) sleeps_until_ns_ = now_ns + sleep_ns;
    }
    if (sleep_ns == 0) {
      pauses_.Pause(0);
      continue;
    }
    (void)poll_.Wait(sleep_ns);
  }
}

}  // namespace stringline
