#include "executor/processes/reach_first.h"

#include <poll.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "executor/engine/lost_process.h"
#include "executor/processes/newcomers.h"
#include "executor/processes/proof.h"
#include "executor/processes/reach_member.h"
#include "executor/processes/sockets.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::Status ToldBy(const std::string& name, const absl::Status& status) {
  if (IsLost(status)) return status;
  return absl::AbortedError(absl::StrCat(name, ": ", status.message()));
}

std::string FailBytes(const absl::Status& status, const std::vector<int>& late) {
  std::vector<std::string> parts = {absl::StrCat(static_cast<int>(status.code())),
                                    std::string(status.message())};
  for (const int process : late) parts.push_back(absl::StrCat(process));
  return Pack(parts);
}

absl::Status ReadFail(const std::string& bytes, std::vector<int>* late) {
  const auto parts = Unpack(bytes);
  int code = 0, process = 0;
  for (size_t i = 2; parts.has_value() && late != nullptr && i < parts->size(); ++i) {
    if (absl::SimpleAtoi((*parts)[i], &process)) late->push_back(process);
  }
  if (!parts.has_value() || parts->size() < 2 || !absl::SimpleAtoi((*parts)[0], &code) ||
      code <= 0 || code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    return absl::InternalError("a failure came that cannot be read");
  }
  return absl::Status(static_cast<absl::StatusCode>(code), (*parts)[1]);
}

int MsUntil(int64_t ns) {
  return static_cast<int>(std::clamp<int64_t>((ns - NowNs() + kWorldMs - 1) / kWorldMs, 0, 1000));
}

std::string SecondsOf(int64_t ms) { return absl::StrCat(static_cast<double>(ms) / 1000, " s"); }

namespace {

constexpr int64_t kRetryNs = 50 * kWorldMs;
// Process 0 drops a connection now and then when strangers come in a flood, but not all of these.
constexpr int kMostRefusals = 40;

// The end of the talk with process 0.
enum class Talk : uint8_t { kWelcome, kRefused, kNotProven, kLost };

int64_t JoinUntil(const TcpWorldSettings& settings) {
  return NowNs() + (settings.trouble.ok() ? settings.join_ms : settings.tell_ms) * kWorldMs;
}

// Proves the secret; then `socket` is the connection.
absl::Status ProveSecret(const Secret& secret, int process, int fd, int64_t deadline_ns,
                         FrameSocket* socket, Talk* talk) {
  Prover prover(fd, &secret, {kWorldPurpose, process, 0});
  const Prover::State state = AwaitProof(&prover, deadline_ns);
  if (state == Prover::State::kProven) {
    *socket = FrameSocket(prover.Release());
    return absl::OkStatus();
  }
  if (state != Prover::State::kUnderWay) {
    *talk = state == Prover::State::kRefused ? Talk::kNotProven : Talk::kLost;
    return absl::UnavailableError(prover.why());
  }
  *talk = Talk::kLost;
  return absl::UnavailableError("it took the connection and proved nothing");
}

// A connection that closes without a frame did not reach process 0, or process 0 has ended.
absl::Status TalkOnce(const TcpWorldSettings& settings, const Hello& own, int fd,
                      FrameSocket* to_first, std::string* address, Talk* talk) {
  FrameSocket& socket = *to_first;
  const int64_t deadline_ns = JoinUntil(settings) + kWorldGraceNs;
  SL_RETURN_IF_ERROR(
      ProveSecret(settings.identity.secret, own.process, fd, deadline_ns, &socket, talk));
  socket.Put(FrameKind::kHello, Encode(own));
  std::string why;
  if (const std::optional<Frame> frame = AwaitFrame(&socket, deadline_ns, &why)) {
    *talk = Talk::kRefused;
    if (frame->kind == FrameKind::kReject) return absl::FailedPreconditionError(frame->bytes);
    if (frame->kind == FrameKind::kFail) return AsTold(ReadFail(frame->bytes));
    if (frame->kind != FrameKind::kWelcome) {
      return absl::InternalError("process 0 answers with something else than a welcome");
    }
    *address = frame->bytes;
    *talk = Talk::kWelcome;
    return absl::OkStatus();
  }
  if (!why.empty()) {
    socket.Close();
    return absl::UnavailableError(why);
  }
  *talk = Talk::kRefused;
  return absl::DeadlineExceededError(
      absl::StrCat("process 0 at ", AddressText(settings.identity.host, settings.identity.port),
                   " took the connection of process ", own.process, " and said nothing for ",
                   SecondsOf(settings.join_ms)));
}

absl::Status NotProven(const Identity& identity, const Hello& own) {
  return absl::FailedPreconditionError(absl::StrCat(
      "rank ", own.process, " on ", own.host, " and the listener at ",
      AddressText(identity.host, identity.port), " do not have the same secret: rank ", own.process,
      " has ", identity.secret.Describe(), "; ", kSecretName,
      " has to be the same for all processes of a run, or another program listens there"));
}

}  // namespace

absl::Status ReachFirst(const TcpWorldSettings& settings, const Hello& own, FrameSocket* socket,
                        std::string* address) {
  const Identity& identity = settings.identity;
  const int64_t deadline_ns = JoinUntil(settings);
  std::string why = "nobody answered";
  int refusals = 0;
  while (true) {
    const absl::StatusOr<int> fd = ConnectTo(identity.host, identity.port, deadline_ns);
    if (fd.ok()) {
      Talk talk = Talk::kLost;
      absl::Status status = TalkOnce(settings, own, *fd, socket, address, &talk);
      if (talk == Talk::kWelcome) return absl::OkStatus();
      if (talk == Talk::kRefused) return status;
      refusals = talk == Talk::kNotProven ? refusals + 1 : 0;
      if (refusals == kMostRefusals) return NotProven(identity, own);
      why = std::string(status.message());
    } else {
      why = std::string(fd.status().message());
    }
    if (NowNs() >= deadline_ns) break;
    (void)poll(nullptr, 0, MsUntil(std::min(deadline_ns, NowNs() + kRetryNs)));
  }
  return absl::DeadlineExceededError(
      absl::StrCat("process ", own.process, " on ", own.host, " did not reach process 0 at ",
                   AddressText(identity.host, identity.port), " within ",
                   SecondsOf(settings.join_ms), ": ", why));
}

}  // namespace stringline
