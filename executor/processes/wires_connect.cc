// How the processes connect: everybody listens on a port of its own and tells all which; each
// connects to the processes before it, and accepts those after it.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "executor/clock.h"
#include "executor/packed_numbers.h"
#include "executor/processes/sockets.h"
#include "executor/processes/wires.h"
#include "schedlang/base/status.h"
#include "schedlang/base/threads.h"

namespace stringline {

absl::Status Wires::Connect() {
  if (world_->processes() == 1) return absl::OkStatus();
  if (!connected_) {
    absl::Status status = ConnectAll();
    if (status.ok()) status = StartReading();
    if (!status.ok()) {
      world_->Fail(status);
      return status;
    }
    connected_ = true;
  }
  // Nobody sends before all have made their groups.
  return world_->Exchange("").status();
}

absl::Status Wires::StartReading() {
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0) return absl::ResourceExhaustedError(std::strerror(errno));
  return StartThreads(
      1, [this] { Loop(); }, &thread_);
}

absl::StatusOr<std::vector<Wires::Address>> Wires::ShareAddresses(int listener) {
  PackedNumbers mine;
  mine.Add(listener < 0 ? 0 : PortOf(listener));
  mine.Add(static_cast<int32_t>(world_->local().size()));
  for (const int rank : world_->local()) mine.Add(int32_t{rank});
  const std::string host = world_->address(), name = HostName();
  mine.Add(static_cast<int32_t>(host.size()));
  mine.AddAll(absl::MakeConstSpan(host));
  mine.AddAll(absl::MakeConstSpan(name));
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world_->Exchange(mine.bytes()));
  std::vector<Address> addresses(all.size());
  hosts_.resize(all.size());
  for (size_t p = 0; p < all.size(); ++p) {
    NumberReader reader(all[p]);
    addresses[p].port = reader.Take<int>();
    for (int left = reader.Take<int32_t>(); left > 0; --left) {
      process_of_rank_[reader.Take<int32_t>()] = static_cast<int>(p);
    }
    addresses[p].host.resize(reader.Take<int32_t>());
    reader.TakeAll(absl::MakeSpan(addresses[p].host));
    while (!reader.done()) hosts_[p].push_back(reader.Take<char>());
  }
  return addresses;
}

absl::Status Wires::ConnectAll() {
  const int64_t deadline_ns = NowNs() + settings_.join_ms * 1'000'000;
  SL_ASSIGN_OR_RETURN(const int listener, ListenOn(world_->address(), 0));
  const absl::StatusOr<std::vector<Address>> addresses = ShareAddresses(listener);
  absl::Status status = addresses.status();
  for (int p = 0; p < world_->process() && status.ok(); ++p) {
    const absl::StatusOr<int> fd =
        ConnectTo((*addresses)[p].host, (*addresses)[p].port, deadline_ns);
    if (fd.ok()) {
      peers_[p].fd = *fd;
      Header hello = {.mark = kMark, .from = world_->process()};
      if (send(*fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
        status = absl::UnavailableError(absl::StrCat(NameOf(p), " does not listen"));
      }
    } else {
      status = absl::UnavailableError(absl::StrCat(
          NameOf(p), " cannot be reached at ",
          AddressText((*addresses)[p].host, (*addresses)[p].port), ": ", fd.status().message()));
    }
  }
  if (status.ok()) status = AcceptOthers(listener, deadline_ns);
  (void)close(listener);
  return status;
}

absl::Status Wires::AcceptOthers(int listener, int64_t deadline_ns) {
  int missing = world_->processes() - 1 - world_->process();
  while (missing > 0) {
    if (NowNs() > deadline_ns) {
      return absl::DeadlineExceededError(absl::StrCat(missing, " processes did not connect to ",
                                                      NameOf(world_->process()), " within ",
                                                      settings_.join_ms / 1000, " s"));
    }
    SL_RETURN_IF_ERROR(world_->state());
    pollfd waiting = {listener, POLLIN, 0};
    if (poll(&waiting, 1, 50) <= 0) continue;
    const int fd = AcceptFrom(listener);
    if (fd < 0) continue;
    Header hello;
    pollfd said = {fd, POLLIN, 0};
    const bool whole = poll(&said, 1, 2000) > 0 &&
                       recv(fd, &hello, sizeof(hello), 0) == sizeof(hello) && hello.mark == kMark &&
                       hello.from > world_->process() && hello.from < world_->processes() &&
                       peers_[hello.from].fd < 0;
    if (!whole) {
      (void)close(fd);  // a stranger
      continue;
    }
    peers_[hello.from].fd = fd;
    --missing;
  }
  return absl::OkStatus();
}

}  // namespace stringline
