// TCP sockets that do not block, for IPv4 and IPv6.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace stringline {

// Whether that is the loopback on every host: a number of it, or "localhost". Another name may mean
// the loopback on its own host (Debian gives it 127.0.1.1) and that host's address elsewhere.
bool IsLoopback(const std::string& host);
// Listens on the port, or on one that is free where it is 0: on the loopback if that is what `host`
// is, else on every address. Unavailable says why not.
absl::StatusOr<int> ListenOn(const std::string& host, int port);
// Of a socket that listens: its port, which the system chose where it was 0.
int PortOf(int listener);
// Of a connection: this end's, as a number; "127.0.0.1" where that is not known.
std::string LocalAddressOf(int fd);
// The next connection, or -1: none now.
int AcceptFrom(int listener);
// Unavailable says which address did not answer, and how. Name look-ups take as long as they take.
absl::StatusOr<int> ConnectTo(const std::string& host, int port, int64_t deadline_ns);
// "[::1]:29500".
std::string AddressText(const std::string& host, int port);
std::string HostName();

}  // namespace stringline
