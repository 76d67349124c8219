// Requests lie in one array, so that a look is one call. Their places are fixed for what comes, and
// taken as needed for what is sent.
#include "executor/mpi/mpi_wires.h"

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

enum Tag : int { kFrameTag = 1, kBytesTag };

constexpr int64_t kLookNs = 100'000'000;  // between two looks at deadlines
constexpr int64_t kGoodbyeNs = 2'000'000'000;
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
  requests_.assign(2 * processes, session_->library().no_request);
  sending_of_.assign(2 * processes, -1);
  to_come_.assign(processes, 0);
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

int MpiWires::NewSending() {
  if (free_.empty()) {
    free_.push_back(static_cast<int>(sendings_.size()));
    sendings_.emplace_back().slot = Slot(new char[kSlotBytes]);
  }
  const int sending = free_.back();
  free_.pop_back();
  return sending;
}

mpi::Request* MpiWires::NewRequest(int sending) {
  const auto sends = sending_of_.begin() + 2 * names_.processes();
  const auto place = std::find(sends, sending_of_.end(), -1);
  const auto index = static_cast<size_t>(place - sending_of_.begin());
  if (place == sending_of_.end()) {
    sending_of_.push_back(-1);
    requests_.push_back(session_->library().no_request);
  }
  sending_of_[index] = sending;
  ++sendings_[sending].left;
  return &requests_[index];
}

void MpiWires::Carry(int process, Outgoing frame) {
  if (session_->broken()) return;
  const WireHeader& header = frame.header;
  const int sending = NewSending();
  Sending& of = sendings_[sending];
  const char* bytes = frame.text.empty() ? frame.bytes : frame.text.data();
  const int64_t behind = header.length <= kMostInline ? header.length : 0;
  std::memcpy(of.slot.get(), &header, kHeaderBytes);
  if (behind > 0) std::memcpy(of.slot.get() + kHeaderBytes, bytes, static_cast<size_t>(behind));
  int result = mpi::kSuccess;
  {
    const mpi::Session::Lock lock = session_->Take();
    const mpi::Session& mpi = *session_;
    result = mpi->Isend(of.slot.get(), static_cast<int>(kHeaderBytes + behind), mpi->byte, process,
                        kFrameTag, comm_, NewRequest(sending));
    if (behind < header.length) {
      of.waiting = std::exchange(frame.waiting, -1);
      of.text = std::move(frame.text);
      if (!of.text.empty()) bytes = of.text.data();
    }
    for (int64_t sent = behind; sent < header.length && result == mpi::kSuccess;
         sent += mpi::kMostBytes) {
      const auto part = static_cast<int>(std::min(mpi::kMostBytes, header.length - sent));
      result =
          mpi->Isend(bytes + sent, part, mpi->byte, process, kBytesTag, comm_, NewRequest(sending));
    }
  }
  pauses_.Restart();
  if (sleeps_) poll_.wake()->Wake();
  if (!Succeeded(result, "Isend")) return;
  if (frame.waiting >= 0) waits_.Done(frame.waiting);
}

void MpiWires::EndSend(int request) {
  const int sending = std::exchange(sending_of_[request], -1);
  Sending& of = sendings_[sending];
  if (--of.left > 0) return;
  of.text.clear();
  const int waiting = std::exchange(of.waiting, -1);
  free_.push_back(sending);
  if (waiting >= 0) waits_.Done(waiting);
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
  const int processes = names_.processes();
  if (request >= 2 * processes) return EndSend(request);
  if (!reads()) return;  // the run has failed: nothing is taken any more
  if (request < processes) return TakeFrame(request, static_cast<int64_t>(status.received));
  const int process = request - processes;
  to_come_[process] -= std::min(to_come_[process], mpi::kMostBytes);
  if (to_come_[process] > 0) return TakeBytes(process);
  EndTaking(process);
}

void MpiWires::TakeFrame(int process, int64_t bytes) {
  WireConnection& connection = connections_[process];
  WireHeader header;
  const bool whole = bytes >= kHeaderBytes;
  if (whole) std::memcpy(&header, slots_[process].get(), kHeaderBytes);
  connection.SetHeader(header);
  const int64_t behind = bytes - kHeaderBytes;
  if (!whole || !BeginFrame(&connection) ||
      behind != (header.length <= kMostInline ? header.length : 0)) {
    connection.Close();
    return failure_.NoticeLost(process, connection.left(), stopping_,
                               "it sent something else than a message");
  }
  if (behind > 0) {
    std::memcpy(connection.target(), slots_[process].get() + kHeaderBytes,
                static_cast<size_t>(behind));
  }
  to_come_[process] = header.length - behind;
  if (to_come_[process] > 0) return TakeBytes(process);
  EndTaking(process);
}

void MpiWires::TakeBytes(int process) {
  const WireConnection& connection = connections_[process];
  const int64_t left = to_come_[process];
  char* const to = connection.target() + (connection.header().length - left);
  const mpi::Session& mpi = *session_;
  int result = mpi::kSuccess;
  {
    const mpi::Session::Lock lock = session_->Take();
    result = mpi->Irecv(to, static_cast<int>(std::min(mpi::kMostBytes, left)), mpi->byte, process,
                        kBytesTag, comm_, &requests_[names_.processes() + process]);
  }
  (void)Succeeded(result, "Irecv");
}

void MpiWires::EndTaking(int process) {
  WireConnection& connection = connections_[process];
  EndFrame(&connection);
  if (!connection.left()) return Listen(process);
  failure_.NoticeLost(process, /*left=*/true, stopping_, "");
}

bool MpiWires::Leaves() {
  if (!stopping_) return false;
  if (goodbye_ns_ == 0) goodbye_ns_ = NowNs() + kGoodbyeNs;
  const auto sends = sending_of_.begin() + 2 * names_.processes();
  const bool sent = std::all_of(sends, sending_of_.end(), [](int sending) { return sending < 0; });
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
  auto* const kept = new std::deque<Sending>(std::move(sendings_));
  (void)kept;
}

void MpiWires::Loop() {
  const SharpTimers sharp;
  int64_t looked_ns = 0;
  for (;;) {
    int64_t sleep_ns = 0;
    {
      const Lock lock = Take();
      sleeps_ = false;
      if (Look()) pauses_.Restart();
      const int64_t due_ns = waits_.EndHolds(), now_ns = NowNs();
      if (now_ns > looked_ns + kLookNs) {
        looked_ns = now_ns;
        failure_.CheckDeadlines();
      }
      if (Leaves()) return;
      sleep_ns = pauses_.NextNs();
      if (due_ns != 0) sleep_ns = std::clamp<int64_t>(due_ns - now_ns, 0, sleep_ns);
      sleeps_ = sleep_ns > 0;
    }
    if (sleep_ns == 0) {
      pauses_.Pause(0);
      continue;
    }
    (void)poll_.Wait(sleep_ns);
  }
}

}  // namespace stringline
