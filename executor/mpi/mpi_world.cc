// Messages in both directions are looked at in turns, since MPI has no wait for both; what they say
// is the tree's business.
#include "executor/mpi/mpi_world.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/engine/lost_process.h"
#include "executor/processes/hello.h"
#include "executor/processes/sockets.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int64_t kFlushNs = 1'000 * kWorldMs;

// A tag tells the kind of a text, and whether more of the text follows.
int TagOf(FrameKind kind, bool more) { return 2 * static_cast<int>(kind) + (more ? 1 : 0); }

// The first trouble or difference of these processes.
absl::Status Compare(const std::vector<std::string>& texts) {
  std::vector<Hello> hellos;
  for (const std::string& text : texts) {
    std::optional<Hello> hello = DecodeHello(text);
    if (!hello) return absl::InternalError("the introduction of a process cannot be read");
    hellos.push_back(*std::move(hello));
  }
  for (const Hello& hello : hellos) {
    if (hello.trouble.empty()) continue;
    return absl::AbortedError(absl::StrCat(NameOf(hello), ": ", hello.trouble));
  }
  for (size_t p = 1; p < hellos.size(); ++p) {
    SL_RETURN_IF_ERROR(CheckPlace(hellos[0], hellos[p]));
    SL_RETURN_IF_ERROR(CheckConfig(hellos[0], hellos[p]));
  }
  return absl::OkStatus();
}

}  // namespace

MpiWorld::MpiWorld(const TcpWorldSettings& settings, std::shared_ptr<mpi::Session> session)
    : TreeWorld(
          {session->process(), session->processes(), settings.ranks, settings.fan_out, HostName()},
          settings.trouble.ok() ? settings.join_ms : settings.tell_ms),
      settings_(settings),
      session_(std::move(session)) {}

absl::StatusOr<std::unique_ptr<MpiWorld>> MpiWorld::Join(const TcpWorldSettings& settings) {
  // A process in trouble does not wait for long.
  const int64_t most_ms = settings.trouble.ok() ? settings.join_ms : settings.tell_ms;
  auto session = mpi::Session::Open(most_ms);
  if (!session.ok()) {
    return absl::IsDeadlineExceeded(session.status()) ? AsLost(session.status()) : session.status();
  }
  std::unique_ptr<MpiWorld> world(new MpiWorld(settings, *std::move(session)));
  const Identity& identity = settings.identity;
  if (world->processes() != identity.processes || world->process() != identity.process) {
    world->session_->Break();
    return absl::InvalidArgumentError(absl::StrCat(
        "MPI says that this is process ", world->process(), " of ", world->processes(), ", but ",
        identity.source, " that it is ", identity.process, " of ", identity.processes));
  }
  auto comm = world->session_->NewComm(most_ms);
  if (!comm.ok()) return AsLost(comm.status());
  world->comm_ = *comm;
  SL_RETURN_IF_ERROR(world->CompareHellos());
  world->SetWaitMs(settings.exchange_ms);
  return world;
}

// Process 0 compares, and tells all.
absl::Status MpiWorld::CompareHellos() {
  Hello own;
  own.process = process();
  own.processes = processes();
  own.host = HostName();
  own.config = settings_.config;
  own.trouble = std::string(settings_.trouble.message());
  std::sort(own.config.begin(), own.config.end());
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> hellos, GiveToFirst(Encode(own)));
  std::vector<std::string> mine = {own.host};
  if (first()) {
    const absl::Status verdict = Compare(hellos);
    if (!verdict.ok()) mine.push_back(FailBytes(verdict));
  }
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, Exchange(Pack(mine)));
  absl::Status verdict;
  for (size_t p = 0; p < all.size(); ++p) {
    const auto told = Unpack(all[p]);
    if (!told.has_value() || told->empty()) {
      return absl::InternalError("the introduction of a process cannot be read");
    }
    SetHost(static_cast<int>(p), told->front());
    if (told->size() > 1) verdict.Update(ReadFail(told->back()));
  }
  SL_RETURN_IF_ERROR(settings_.trouble);
  return verdict;
}

// After a failure all part together: when the first process has ended, mpirun ends all others,
// which may still have something to say or to write.
MpiWorld::~MpiWorld() {
  if (comm_ == nullptr) return;
  const int64_t deadline_ns = NowNs() + (first() ? kFlushNs : 2 * kFlushNs);
  const mpi::Pauses pauses;
  const auto goodbye = [&] {
    for (int p = 0; p < (first() ? processes() : 1); ++p) Send(p, FrameKind::kBye, Goodbye());
  };
  const auto waits = [&] {
    if (session_->broken() || NowNs() > deadline_ns) return false;
    return first() ? static_cast<int>(left().size()) < processes() - 1 : left().count(0) == 0;
  };
  if (!first()) goodbye();
  for (Progress(); failure().ok() && waits(); Progress()) pauses.Pause();
  if (first()) goodbye();
  for (Progress(); !sent_.empty() && !session_->broken() && NowNs() < deadline_ns; Progress()) {
    pauses.Pause();
  }
  if (!failure().ok() || !sent_.empty() || !coming_.empty()) session_->Break();
}

bool MpiWorld::Succeeded(int result, const char* function) {
  const absl::Status status = session_->library().StatusOf(result, function);
  // Nobody is told: the library may not work any more.
  if (!status.ok()) FailAlone(AsLost(status));
  return status.ok();
}

void MpiWorld::Send(int peer, FrameKind kind, absl::string_view bytes) {
  if (peer == process() || session_->broken()) return;
  const mpi::Session::Lock lock = session_->Take();
  const mpi::Session& mpi = *session_;
  int64_t done = 0;
  do {
    const int64_t part = std::min(mpi::kMostBytes, static_cast<int64_t>(bytes.size()) - done);
    const bool more = done + part < static_cast<int64_t>(bytes.size());
    Message& message = sent_.emplace_back();
    message.peer = peer;
    message.bytes = std::string(bytes.substr(done, part));
    if (!Succeeded(mpi->Isend(message.bytes.data(), static_cast<int>(part), mpi->byte, peer,
                              TagOf(kind, more), comm_, &message.request),
                   "Isend")) {
      sent_.pop_back();
      return;
    }
    done += part;
  } while (done < static_cast<int64_t>(bytes.size()));
}

bool MpiWorld::HasUnsent(int process) const {
  return std::any_of(sent_.begin(), sent_.end(),
                     [process](const Message& message) { return message.peer == process; });
}

void MpiWorld::Look(int64_t most_ns) {
  if (Progress()) return pauses_.Restart();
  if (most_ns > 0) pauses_.Pause(most_ns);
}

bool MpiWorld::Progress() {
  std::vector<Message> came;
  {
    const mpi::Session::Lock lock = session_->Take();
    const mpi::Session& mpi = *session_;
    if (session_->broken()) return false;
    int found = 1;
    while (found != 0) {
      mpi::Status status;
      if (!Succeeded(mpi->Iprobe(mpi::kAny, mpi::kAny, comm_, &found, &status), "Iprobe")) {
        return false;
      }
      if (found == 0) break;
      int bytes = 0;
      (void)mpi->Get_count(&status, mpi->byte, &bytes);
      Message& message = coming_.emplace_back(Message{status.source, status.tag});
      message.bytes.resize(static_cast<size_t>(bytes));
      if (!Succeeded(mpi->Irecv(message.bytes.data(), bytes, mpi->byte, message.peer, message.tag,
                                comm_, &message.request),
                     "Irecv")) {
        coming_.pop_back();
        return false;
      }
    }
    const auto ended = [&](Message& message) {
      int done = 0;
      return Succeeded(mpi->Test(&message.request, &done, nullptr), "Test") && done != 0;
    };
    while (!sent_.empty() && ended(sent_.front())) sent_.pop_front();
    while (!coming_.empty() && ended(coming_.front())) {
      came.push_back(std::move(coming_.front()));
      coming_.pop_front();
    }
  }
  for (Message& message : came) {
    std::string& part = parts_[message.peer];
    part += message.bytes;
    if (message.tag % 2 != 0) continue;
    Handle(message.peer, static_cast<FrameKind>(message.tag / 2), std::exchange(part, ""));
  }
  return !came.empty();
}

}  // namespace stringline
