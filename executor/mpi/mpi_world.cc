// Two kinds of messages: what processes tell each other at any time, as what process 0 is given,
// and broadcasts from process 0, which end exchanges. Every wait looks at both in turns.
#include "executor/mpi/mpi_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/engine/lost_process.h"
#include "executor/mpi/pauses.h"
#include "executor/processes/rank_blocks.h"
#include "executor/processes/sockets.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int64_t kFlushNs = 1'000 * kWorldMs;

// A tag tells the kind of a text, and whether more of the text follows.
int TagOf(FrameKind kind, bool more) { return 2 * static_cast<int>(kind) + (more ? 1 : 0); }

}  // namespace

MpiWorld::MpiWorld(const TcpWorldSettings& settings, std::shared_ptr<mpi::Session> session)
    : settings_(settings),
      session_(std::move(session)),
      ranks_(settings.ranks > 0 ? settings.ranks : session_->processes()),
      local_(RanksOf(session_->process(), ranks_, session_->processes())),
      peers_(static_cast<size_t>(session_->processes())),
      wait_ms_(settings.trouble.ok() ? settings.join_ms : settings.tell_ms) {}

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
  world->wait_ms_ = settings.exchange_ms;
  return world;
}

// The texts are the same in all processes, so all find the same difference.
absl::Status MpiWorld::CompareHellos() {
  Hello own;
  own.process = process();
  own.processes = processes();
  own.host = HostName();
  own.config = settings_.config;
  own.trouble = std::string(settings_.trouble.message());
  std::sort(own.config.begin(), own.config.end());
  for (Peer& peer : peers_) peer.host = own.host;  // until they tell theirs
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> texts, Exchange(Encode(own)));
  std::vector<Hello> hellos;
  for (const std::string& text : texts) {
    std::optional<Hello> hello = DecodeHello(text);
    if (!hello) return absl::InternalError("the introduction of a process cannot be read");
    peers_[hellos.size()].host = hello->host;
    hellos.push_back(*std::move(hello));
  }
  SL_RETURN_IF_ERROR(settings_.trouble);
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

// After a failure all part together: when the first process has ended, mpirun ends all others,
// which may still have something to say or to write.
MpiWorld::~MpiWorld() {
  if (comm_ == nullptr) return;
  const bool first = process() == 0;
  const int64_t deadline_ns = NowNs() + (first ? kFlushNs : 2 * kFlushNs);
  const mpi::Pauses pauses;
  const auto goodbye = [&] {
    for (int p = 0; p < (first ? processes() : 1); ++p) Send(p, FrameKind::kBye, "");
  };
  const auto waits = [&] {
    const auto stays = [&](const Peer& peer) { return &peer != &peers_[process()] && !peer.left; };
    if (session_->broken() || NowNs() > deadline_ns) return false;
    return first ? std::any_of(peers_.begin(), peers_.end(), stays) : !peers_[0].left;
  };
  if (!first) goodbye();
  for (Look(); !failure_.ok() && waits(); Look()) pauses.Pause();
  if (first) goodbye();
  for (Look(); !sent_.empty() && !session_->broken() && NowNs() < deadline_ns; Look()) {
    pauses.Pause();
  }
  if (!failure_.ok() || !sent_.empty() || !coming_.empty()) session_->Break();
}

std::string MpiWorld::NameOfRank(int rank) const {
  return absl::StrCat("rank ", rank, " on ", peers_[ProcessOf(rank, ranks_, processes())].host);
}

std::string MpiWorld::NameOfProcess(int process) const {
  return NameOfBlock(process, peers_[process].host, ranks_, processes());
}

absl::StatusOr<std::vector<std::string>> MpiWorld::Exchange(absl::string_view mine) {
  return Meet(mine, /*to_all=*/true);
}

absl::StatusOr<std::vector<std::string>> MpiWorld::GiveToFirst(absl::string_view mine) {
  return Meet(mine, /*to_all=*/false);
}

absl::StatusOr<std::vector<std::string>> MpiWorld::Meet(absl::string_view mine, bool to_all) {
  if (processes() == 1) return std::vector<std::string>{std::string(mine)};
  SL_RETURN_IF_ERROR(failure_);
  exchanging_ = true;
  WaitAnew();
  std::vector<std::string> all;
  if (process() == 0) {
    peers_[0].gave = std::string(mine);
    const absl::Status came = WaitForAll();
    exchanging_ = false;
    SL_RETURN_IF_ERROR(came);
    WaitAnew();
    for (Peer& peer : peers_) all.push_back(*std::exchange(peer.gave, std::nullopt));
    SL_RETURN_IF_ERROR(HandOut(Pack(to_all ? all : std::vector<std::string>(all.size()))).status());
    return all;
  }
  Send(0, FrameKind::kGive, mine);
  const absl::StatusOr<std::string> bytes = HandOut("");
  exchanging_ = false;
  SL_RETURN_IF_ERROR(bytes.status());
  auto parts = Unpack(*bytes);
  if (!parts.has_value() || static_cast<int>(parts->size()) != processes()) {
    SetFailure(absl::InternalError("what all gave cannot be read"));
    return failure_;
  }
  return *std::move(parts);
}

absl::Status MpiWorld::WaitForAll() {
  const mpi::Pauses pauses;
  for (;;) {
    Look();
    SL_RETURN_IF_ERROR(failure_);
    const bool all = std::all_of(peers_.begin(), peers_.end(),
                                 [](const Peer& peer) { return peer.gave.has_value(); });
    if (all) return absl::OkStatus();
    CheckAwaited();
    pauses.Pause();
  }
}

// The length first, then the bytes: from process 0 to all others.
absl::StatusOr<std::string> MpiWorld::HandOut(const std::string& bytes) {
  // After a failure the library may still write here, so that they are left behind.
  auto length = std::make_unique<int64_t>(bytes.size());
  absl::Status status = Broadcast(reinterpret_cast<char*>(length.get()), sizeof(*length));
  if (!status.ok()) {
    (void)length.release();
    return status;
  }
  auto all = std::make_unique<std::string>(bytes);
  all->resize(static_cast<size_t>(*length));
  for (int64_t done = 0; done < *length && status.ok(); done += mpi::kMostBytes) {
    status = Broadcast(all->data() + done, std::min(mpi::kMostBytes, *length - done));
  }
  if (status.ok()) return *std::move(all);
  (void)all.release();
  return status;
}

absl::Status MpiWorld::Broadcast(char* bytes, int64_t count) {
  const mpi::Pauses pauses;
  auto request = std::make_unique<mpi::Request>(nullptr);
  for (bool begun = false;; begun = true) {
    int done = 0;
    {
      const mpi::Session::Lock lock = session_->Take();
      const mpi::Session& mpi = *session_;
      if (!begun && !Succeeded(mpi->Ibcast(bytes, static_cast<int>(count), mpi->byte, 0, comm_,
                                           request.get()),
                               "Ibcast")) {
        break;
      }
      if (!Succeeded(mpi->Test(request.get(), &done, nullptr), "Test")) break;
    }
    if (done != 0) return absl::OkStatus();
    Look();
    if (failure_.ok()) CheckHandedOut();
    if (!failure_.ok()) break;
    pauses.Pause();
  }
  (void)request.release();
  return failure_;
}

void MpiWorld::CheckHandedOut() {
  if (process() != 0) return CheckAwaited();
  if (NowNs() < times_.until_ns) return;
  SetFailure(AsLost(absl::DeadlineExceededError(absl::StrCat(
      "what all gave was not taken from ", NameOfProcess(0), " within ", SecondsOf(wait_ms_)))));
}

// Checks that the awaited processes can still come.
void MpiWorld::CheckAwaited() {
  std::vector<int> late;
  for (int p = 0; p < (process() == 0 ? processes() : 1); ++p) {
    if (peers_[p].gave.has_value()) continue;
    if (peers_[p].left) {
      return SetFailure(AsLost(absl::UnavailableError(
          absl::StrCat(NameOfProcess(p), " has ended its run, and the others go on"))));
    }
    late.push_back(p);
  }
  if (NowNs() < times_.until_ns) return;
  late_ = std::move(late);
  const auto name = [this](std::string* text, int p) { text->append(NameOfProcess(p)); };
  SetFailure(AsLost(absl::DeadlineExceededError(absl::StrCat(
      absl::StrJoin(late_, ", ", name), " did not come within ", SecondsOf(wait_ms_)))));
}

void MpiWorld::WaitAnew() {
  const bool first = process() == 0;
  times_.until_ns = NowNs() + wait_ms_ * kWorldMs + (first ? 0 : kWorldGraceNs);
  for (int p = 1; first && p < processes(); ++p) {
    if (peers_[p].gave.has_value()) Send(p, FrameKind::kWaiting, "");
  }
}

absl::Status MpiWorld::state() {
  Look();
  return failure_;
}

void MpiWorld::Fail(const absl::Status& status) {
  if (!failure_.ok() || processes() == 1) return;
  SetFailure(ToldBy(NameOfProcess(process()), status));
  Look();
}

void MpiWorld::Working() {
  const int64_t pause_ns = std::min(kTellWorkNs, wait_ms_ * kWorldMs / 4);
  if (processes() == 1 || NowNs() < times_.told_working_ns + pause_ns) return;
  times_.told_working_ns = NowNs();
  for (int p = 0; p < (process() == 0 ? processes() : 1); ++p) Send(p, FrameKind::kWaiting, "");
  Look();
}

bool MpiWorld::FirstAnswers(int64_t most_ms) {
  if (process() == 0) return true;
  const int64_t asked_ns = NowNs(), until_ns = asked_ns + most_ms * kWorldMs;
  const mpi::Pauses pauses;
  Send(0, FrameKind::kWaiting, "");
  while (failure_.ok() && times_.first_heard_ns < asked_ns && NowNs() < until_ns) {
    Look();
    pauses.Pause();
  }
  return !failure_.ok() || times_.first_heard_ns >= asked_ns;
}

void MpiWorld::SetFailure(absl::Status status, int except) {
  if (!failure_.ok()) return;
  failure_ = std::move(status);
  const std::string bytes = FailBytes(failure_, late_);
  for (int p = 0; p < (process() == 0 ? processes() : 1); ++p) {
    if (p != except) Send(p, FrameKind::kFail, bytes);
  }
}

bool MpiWorld::Succeeded(int result, const char* function) {
  const absl::Status status = session_->library().StatusOf(result, function);
  // Nobody is told: the library may not work any more.
  if (!status.ok() && failure_.ok()) failure_ = AsLost(status);
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

void MpiWorld::Look() {
  std::vector<Message> came;
  {
    const mpi::Session::Lock lock = session_->Take();
    const mpi::Session& mpi = *session_;
    if (session_->broken()) return;
    int found = 1;
    while (found != 0) {
      mpi::Status status;
      if (!Succeeded(mpi->Iprobe(mpi::kAny, mpi::kAny, comm_, &found, &status), "Iprobe")) return;
      if (found == 0) break;
      int bytes = 0;
      (void)mpi->Get_count(&status, mpi->byte, &bytes);
      Message& message = coming_.emplace_back(Message{status.source, status.tag});
      message.bytes.resize(static_cast<size_t>(bytes));
      if (!Succeeded(mpi->Irecv(message.bytes.data(), bytes, mpi->byte, message.peer, message.tag,
                                comm_, &message.request),
                     "Irecv")) {
        coming_.pop_back();
        return;
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
    std::string& part = peers_[message.peer].part;
    part += message.bytes;
    if (message.tag % 2 != 0) continue;
    Handle(message.peer, static_cast<FrameKind>(message.tag / 2), std::exchange(part, ""));
  }
}

void MpiWorld::Handle(int peer, FrameKind kind, std::string bytes) {
  const bool first = process() == 0;
  if (peer == 0) times_.first_heard_ns = NowNs();
  switch (kind) {
    case FrameKind::kGive:
      peers_[peer].gave = std::move(bytes);
      if (exchanging_) Send(peer, FrameKind::kWaiting, "");
      return;
    case FrameKind::kWaiting:
      if (exchanging_) WaitAnew();
      if (first) Send(peer, FrameKind::kWaiting, "");
      return;
    case FrameKind::kFail:
      return SetFailure(AsTold(ReadFail(bytes, failure_.ok() ? &late_ : nullptr)), peer);
    case FrameKind::kBye:
      peers_[peer].left = true;
      return;
    default:
      SetFailure(
          absl::InternalError(absl::StrCat(NameOfProcess(peer), " says what it should not now")));
  }
}

}  // namespace stringline
