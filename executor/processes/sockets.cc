// Addresses are looked up by name, sockets made for each, and every socket gets the same options.
#include "executor/processes/sockets.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int kBacklog = 1024;
constexpr int64_t kOneAddressNs = 2'000'000'000;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

absl::StatusOr<Addresses> Resolve(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &list);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("\"", host, "\" has no address on ", HostName(), ": ", gai_strerror(error),
                     "; `master=ADDRESS:PORT`, or MASTER_ADDR, may name process 0 by a number"));
  }
  return Addresses(list);
}

void SetOption(int fd, int level, int option, int value) {
  (void)setsockopt(fd, level, option, &value, sizeof(value));
}

// Errors of an address that this machine does not have.
bool IsNotHere(int error) { return error == EADDRNOTAVAIL || error == EAFNOSUPPORT; }

// A listening socket, or -1 with errno.
int ListenAt(const sockaddr* address, socklen_t size) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address->sa_family == AF_INET6) SetOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(fd, address, size) == 0 && listen(fd, kBacklog) == 0) return fd;
  const int error = errno;
  (void)close(fd);
  errno = error;
  return -1;
}

// On every address: of IPv6, by which IPv4 comes too, or of IPv4 where there is no IPv6.
int ListenAnywhere(int port) {
  sockaddr_in6 any = {};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(static_cast<uint16_t>(port));
  const int fd = ListenAt(reinterpret_cast<const sockaddr*>(&any), sizeof(any));
  if (fd >= 0 || !IsNotHere(errno)) return fd;
  sockaddr_in any4 = {};
  any4.sin_family = AF_INET;
  any4.sin_port = any.sin6_port;
  return ListenAt(reinterpret_cast<const sockaddr*>(&any4), sizeof(any4));
}

// The address as a number, IPv4 also where it comes through a socket of IPv6; "" if unknown.
std::string NumberOf(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST] = {};
  if (getnameinfo(address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  constexpr absl::string_view kMapped = "::ffff:";
  const absl::string_view number = text;
  return std::string(absl::StartsWith(number, kMapped) ? number.substr(kMapped.size()) : number);
}

// True if both ends have the same address.
bool IsWithinThisHost(int fd) {
  sockaddr_storage own = {}, other = {};
  socklen_t own_size = sizeof(own), other_size = sizeof(other);
  auto* const at = reinterpret_cast<sockaddr*>(&own);
  auto* const to = reinterpret_cast<sockaddr*>(&other);
  if (getsockname(fd, at, &own_size) != 0 || getpeername(fd, to, &other_size) != 0) return false;
  const std::string number = NumberOf(to, other_size);
  return !number.empty() && (IsLoopback(number) || number == NumberOf(at, own_size));
}

constexpr int kHostBufferBytes = 1 << 18;

// Options of all connections: send promptly, and notice a lost host. Connections within a host are
// lost with it, and their probes are not sent: those of many processes, at the same moment, are
// more than the loopback holds, which drops some, and after a few of these the connection ends.
void Prepare(int fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (IsWithinThisHost(fd)) return;
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

// A port without a listener may be the port that the system gives to the connection's own end.
bool IsConnectedToItself(int fd) {
  sockaddr_storage own = {}, other = {};
  socklen_t own_size = sizeof(own), other_size = sizeof(other);
  return getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         getpeername(fd, reinterpret_cast<sockaddr*>(&other), &other_size) == 0 &&
         own_size == other_size && std::memcmp(&own, &other, own_size) == 0;
}

// A connection, or -1 with errno.
int ConnectAt(const addrinfo& address, int64_t deadline_ns) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  int error = connect(fd, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    const int64_t wait_ns = std::min(deadline_ns - NowNs(), kOneAddressNs);
    pollfd waiting = {fd, POLLOUT, 0};
    const int came = poll(&waiting, 1, static_cast<int>(std::max<int64_t>(wait_ns, 0) / 1'000'000));
    socklen_t size = sizeof(error);
    if (came <= 0) {
      error = ETIMEDOUT;
    } else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = errno;
    }
  }
  if (error == 0 && IsConnectedToItself(fd)) error = ECONNREFUSED;
  if (error == 0) {
    Prepare(fd);
    return fd;
  }
  (void)close(fd);
  errno = error;
  return -1;
}

}  // namespace

void BoundBuffers(int fd) {
  if (!IsWithinThisHost(fd)) return;
  SetOption(fd, SOL_SOCKET, SO_SNDBUF, kHostBufferBytes);
  SetOption(fd, SOL_SOCKET, SO_RCVBUF, kHostBufferBytes);
}

bool IsLoopback(const std::string& host) {
  in_addr four = {};
  in6_addr six = {};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  if (inet_pton(AF_INET6, host.c_str(), &six) == 1) return IN6_IS_ADDR_LOOPBACK(&six);
  return host == "localhost";
}

absl::StatusOr<std::vector<int>> ListenOn(const std::string& host, int port) {
  SL_ASSIGN_OR_RETURN(const Addresses addresses, Resolve(host, port));
  const bool here = IsLoopback(host);
  std::vector<int> listeners;
  int error = 0;
  for (const addrinfo* at = addresses.get(); at != nullptr && error == 0; at = at->ai_next) {
    if (port == 0 && !listeners.empty()) break;
    if (!here && IsLoopback(NumberOf(at->ai_addr, at->ai_addrlen))) continue;
    const int fd = ListenAt(at->ai_addr, at->ai_addrlen);
    if (fd >= 0) {
      listeners.push_back(fd);
    } else if (!IsNotHere(errno)) {
      error = errno;
    }
  }
  if (listeners.empty() && error == 0) {
    const int fd = ListenAnywhere(port);
    if (fd >= 0) listeners.push_back(fd);
    if (fd < 0) error = errno;
  }
  if (error == 0) return listeners;
  for (const int fd : listeners) (void)close(fd);
  return absl::UnavailableError(
      absl::StrCat(port == 0 ? "nothing can listen on a port"
                             : absl::StrCat("process 0 cannot listen on port ", port),
                   " of ", HostName(), ": ", std::strerror(error),
                   error == EADDRINUSE ? "; another run has it, or what started this one" : ""));
}

int PortOf(int listener) {
  sockaddr_storage own = {};
  socklen_t size = sizeof(own);
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&own), &size) != 0) return 0;
  return ntohs(own.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(own).sin_port
                                        : reinterpret_cast<const sockaddr_in6&>(own).sin6_port);
}

std::string LocalAddressOf(int fd) {
  sockaddr_storage own = {};
  socklen_t size = sizeof(own);
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  const std::string text = getsockname(fd, address, &size) == 0 ? NumberOf(address, size) : "";
  return text.empty() ? "127.0.0.1" : text;
}

int AcceptFrom(int listener) {
  const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) Prepare(fd);
  return fd;
}

absl::StatusOr<int> ConnectTo(const std::string& host, int port, int64_t deadline_ns) {
  SL_ASSIGN_OR_RETURN(const Addresses addresses, Resolve(host, port));
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    const int fd = ConnectAt(*at, deadline_ns);
    if (fd >= 0) return fd;
  }
  return absl::UnavailableError(std::strerror(errno));
}

Connected TryConnect(const std::string& host, int port, int64_t deadline_ns) {
  errno = 0;
  const absl::StatusOr<int> fd = ConnectTo(host, port, deadline_ns);
  if (fd.ok()) return {*fd, false};
  return {-1, errno == ECONNREFUSED};
}

std::string AddressText(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? absl::StrCat(host, ":", port)
                                             : absl::StrCat("[", host, "]:", port);
}

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "this host";
  return name;
}

}  // namespace stringline
