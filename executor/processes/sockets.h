// TCP sockets that do not block, for IPv4 and IPv6.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stringline {

// True if `host` is the loopback on every host: a loopback address, or "localhost". Another name
// may mean the loopback on its own host (Debian gives 127.0.1.1) and that host's address elsewhere.
bool IsLoopback(const std::string& host);
// Listens on the port of those addresses of `host` that this machine has, and on no other; on a
// free port of the first of them if `port` is 0. Where `host` has no address here, as one that is
// forwarded, or only means the loopback here (IsLoopback), other hosts come by an address that is
// not known: then on every address. Unavailable with the reason.
absl::StatusOr<std::vector<int>> ListenOn(const std::string& host, int port);
// The port of a listening socket, for sockets on port 0 the system's choice.
int PortOf(int listener);
// The numerical address of this end of a connection; "127.0.0.1" if unknown.
std::string LocalAddressOf(int fd);
// The next connection, or -1: none now.
int AcceptFrom(int listener);
// Unavailable names the address that did not answer, and the error. Name look-ups have no time
// limit.
absl::StatusOr<int> ConnectTo(const std::string& host, int port, int64_t deadline_ns);
// The same once, for a look at whether anybody listens there.
struct Connected {
  int fd = -1;           // the caller's; -1: no connection
  bool refused = false;  // by a host that has no listener there
};
Connected TryConnect(const std::string& host, int port, int64_t deadline_ns);
// Bounds the bytes under way on a connection within this host. The system's own buffers grow to
// many megabytes there: those of many connections are more than a cache holds, and where processors
// are shared, large messages take twice as long.
void BoundBuffers(int fd);
// "[::1]:29500".
std::string AddressText(const std::string& host, int port);
std::string HostName();

}  // namespace stringline
