// Each process connects to those of its peers before it and admits those after it, both at the same
// time, until none is missing.
#include "executor/processes/wire_connect.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/engine/packed_numbers.h"
#include "executor/processes/gate.h"
#include "executor/processes/open_files.h"
#include "executor/processes/proof.h"
#include "executor/processes/sockets.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// The place at which a process listens.
struct Address {
  std::string host;
  int port = 0;
};

absl::StatusOr<std::vector<Address>> ShareAddresses(int listener, World* world,
                                                    ProcessNames* names) {
  PackedNumbers mine;
  mine.Add(listener < 0 ? 0 : PortOf(listener));
  mine.Add(static_cast<int32_t>(world->local().size()));
  for (const int rank : world->local()) mine.Add(int32_t{rank});
  const std::string host = world->address(), name = HostName();
  mine.Add(static_cast<int32_t>(host.size()));
  mine.AddAll(absl::MakeConstSpan(host));
  mine.AddAll(absl::MakeConstSpan(name));
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world->Exchange(mine.bytes()));
  std::vector<Address> addresses(all.size());
  for (size_t p = 0; p < all.size(); ++p) {
    NumberReader reader(all[p]);
    addresses[p].port = reader.Take<int>();
    std::vector<int> ranks;
    for (int left = reader.Take<int32_t>(); left > 0; --left) {
      ranks.push_back(reader.Take<int32_t>());
    }
    addresses[p].host.resize(reader.Take<int32_t>());
    reader.TakeAll(absl::MakeSpan(addresses[p].host));
    std::string told;
    while (!reader.done()) told.push_back(reader.Take<char>());
    names->Add(static_cast<int>(p), std::move(told), ranks);
  }
  return addresses;
}

// Connects to the earlier peers and admits the later ones, both at once: a process that answers
// late delays only its own connection.
class Meeting {
 public:
  Meeting(World* world, const WireProof& proof, const ProcessNames& names, int listener,
          std::vector<Address> addresses, const WireMissing& missing)
      : world_(world),
        proof_(proof),
        names_(names),
        addresses_(std::move(addresses)),
        open_(missing.open),
        missing_(missing.all()),
        left_(static_cast<int>(std::count(missing_.begin(), missing_.end(), true))),
        gate_({listener}, &proof.secret, {absl::StrCat("wire ", proof.run), 0, names.own()}) {
    for (int p = 0; p < names.own(); ++p) {
      if (missing_[p]) earlier_.emplace_back().process = p;
    }
  }

  absl::Status Run(int64_t deadline_ns) {
    SL_RETURN_IF_ERROR(
        RaiseOpenFiles(left_, "connections to processes with which its ranks exchange something"));
    while (left_ > 0) {
      if (NowNs() > deadline_ns) return absl::DeadlineExceededError("some did not connect");
      SL_RETURN_IF_ERROR(world_->state());
      SL_RETURN_IF_ERROR(ConnectOne(deadline_ns));
      SL_RETURN_IF_ERROR(WaitAndAdmit());
      for (Earlier& other : earlier_) Advance(&other);
    }
    return absl::OkStatus();
  }

  std::vector<int> Missing() const {
    std::vector<int> missing;
    for (int p = 0; p < names_.processes(); ++p) {
      if (missing_[p]) missing.push_back(p);
    }
    return missing;
  }

 private:
  // An earlier process, to which this process connects.
  struct Earlier {
    int process = 0;
    std::optional<Prover> prover;
    int64_t again_ns = 0;  // not before this time
    int failures = 0;      // connections that were not made, in a row
  };

  bool IsDue(const Earlier& other) const {
    return missing_[other.process] && !other.prover && NowNs() >= other.again_ns;
  }

  void Open(int process, int fd) {
    missing_[process] = false;
    --left_;
    open_(process, fd);
  }

  // One at a time, since to connect may take a while where a host does not answer.
  absl::Status ConnectOne(int64_t deadline_ns) {
    for (Earlier& other : earlier_) {
      if (!IsDue(other)) continue;
      const int p = other.process;
      const absl::StatusOr<int> fd = ConnectTo(addresses_[p].host, addresses_[p].port, deadline_ns);
      if (fd.ok()) {
        other.failures = 0;
        other.prover.emplace(*fd, &proof_.secret,
                             ProofSubject{absl::StrCat("wire ", proof_.run), names_.own(), p});
        return absl::OkStatus();
      }
      other.again_ns = NowNs() + kAgainNs;
      if (++other.failures < kMostFailures) return absl::OkStatus();
      return absl::UnavailableError(absl::StrCat(
          names_.NameOf(p), " cannot be reached at ",
          AddressText(addresses_[p].host, addresses_[p].port), ": ", fd.status().message()));
    }
    return absl::OkStatus();
  }

  absl::Status WaitAndAdmit() {
    std::vector<pollfd> polled;
    int wait_ms = 50;
    for (const Earlier& other : earlier_) {
      if (other.prover) polled.push_back({other.prover->fd(), POLLIN, 0});
      if (IsDue(other)) wait_ms = 0;
    }
    gate_.AddTo(&polled);
    (void)poll(polled.data(), polled.size(), wait_ms);
    SL_ASSIGN_OR_RETURN(const std::vector<Gate::Guest> guests, gate_.Admit());
    for (const auto [fd, from] : guests) {
      const bool known = from > names_.own() && from < names_.processes();
      if (known && missing_[from]) {
        Open(from, fd);
      } else {
        (void)close(fd);
      }
    }
    return absl::OkStatus();
  }

  // A connection that is dropped without a proof is made anew: the process is there, but strangers
  // may have come in a flood.
  void Advance(Earlier* other) {
    if (!other->prover) return;
    const Prover::State state = other->prover->Advance();
    if (state == Prover::State::kUnderWay) return;
    if (state == Prover::State::kProven) Open(other->process, other->prover->Release());
    other->prover.reset();
    other->again_ns = NowNs() + kAgainNs;
  }

  static constexpr int64_t kAgainNs = 50'000'000;
  static constexpr int kMostFailures = 10;

  World* const world_;
  const WireProof& proof_;
  const ProcessNames& names_;
  const std::vector<Address> addresses_;
  const absl::FunctionRef<void(int process, int fd)> open_;
  std::vector<bool> missing_;  // by process
  int left_ = 0;               // of these
  std::deque<Earlier> earlier_;
  Gate gate_;
};

}  // namespace

absl::Status ConnectProcesses(World* world, const WireProof& proof, int64_t join_ms,
                              ProcessNames* names, const WireMissing& missing,
                              std::vector<int>* late) {
  const int64_t deadline_ns = NowNs() + join_ms * 1'000'000;
  SL_ASSIGN_OR_RETURN(const std::vector<int> listeners, ListenOn(world->address(), 0));
  const int listener = listeners.front();
  absl::StatusOr<std::vector<Address>> addresses = ShareAddresses(listener, world, names);
  if (!addresses.ok()) {
    (void)close(listener);
    return addresses.status();
  }
  Meeting meeting(world, proof, *names, listener, *std::move(addresses), missing);
  const absl::Status status = meeting.Run(deadline_ns);
  *late = meeting.Missing();
  return status;
}

}  // namespace stringline
