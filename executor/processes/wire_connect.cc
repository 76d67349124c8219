#include "executor/processes/wire_connect.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/engine/packed_numbers.h"
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

absl::Status ConnectToEarlier(const std::vector<Address>& addresses, int64_t deadline_ns,
                              const ProcessNames& names, std::deque<WireConnection>* connections) {
  for (int p = 0; p < names.own(); ++p) {
    const absl::StatusOr<int> fd = ConnectTo(addresses[p].host, addresses[p].port, deadline_ns);
    if (!fd.ok()) {
      return absl::UnavailableError(absl::StrCat(names.NameOf(p), " cannot be reached at ",
                                                 AddressText(addresses[p].host, addresses[p].port),
                                                 ": ", fd.status().message()));
    }
    (*connections)[p].Open(*fd);
    const WireHeader hello = {.mark = kWireMark, .from = names.own()};
    if (send(*fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
      return absl::UnavailableError(absl::StrCat(names.NameOf(p), " does not listen"));
    }
  }
  return absl::OkStatus();
}

absl::Status AcceptLater(int listener, int64_t deadline_ns, int64_t join_ms, World* world,
                         const ProcessNames& names, std::deque<WireConnection>* connections) {
  int missing = names.processes() - 1 - names.own();
  while (missing > 0) {
    if (NowNs() > deadline_ns) {
      return absl::DeadlineExceededError(absl::StrCat(missing, " processes did not connect to ",
                                                      names.NameOf(names.own()), " within ",
                                                      join_ms / 1000, " s"));
    }
    SL_RETURN_IF_ERROR(world->state());
    pollfd waiting = {listener, POLLIN, 0};
    if (poll(&waiting, 1, 50) <= 0) continue;
    const int fd = AcceptFrom(listener);
    if (fd < 0) continue;
    WireHeader hello;
    pollfd said = {fd, POLLIN, 0};
    const bool whole = poll(&said, 1, 2000) > 0 &&
                       recv(fd, &hello, sizeof(hello), 0) == sizeof(hello) &&
                       hello.mark == kWireMark && hello.from > names.own() &&
                       hello.from < names.processes() && (*connections)[hello.from].fd() < 0;
    if (!whole) {
      (void)close(fd);  // a stranger
      continue;
    }
    (*connections)[hello.from].Open(fd);
    --missing;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ConnectProcesses(World* world, int64_t join_ms, ProcessNames* names,
                              std::deque<WireConnection>* connections) {
  const int64_t deadline_ns = NowNs() + join_ms * 1'000'000;
  SL_ASSIGN_OR_RETURN(const int listener, ListenOn(world->address(), 0));
  const absl::StatusOr<std::vector<Address>> addresses = ShareAddresses(listener, world, names);
  absl::Status status = addresses.status();
  if (status.ok()) status = ConnectToEarlier(*addresses, deadline_ns, *names, connections);
  if (status.ok()) {
    status = AcceptLater(listener, deadline_ns, join_ms, world, *names, connections);
  }
  (void)close(listener);
  return status;
}

}  // namespace stringline
