#include "executor/processes/wire_connection.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace stringline {
namespace {

constexpr int64_t kHeaderBytes = sizeof(WireHeader);

}  // namespace

void WireConnection::Close() {
  if (fd_ >= 0) (void)close(fd_);
  fd_ = -1;
  carrier_ = nullptr;
  outgoing_.clear();
}

void WireConnection::Put(Outgoing frame) {
  if (!reachable()) return;
  frame.header.mark = kWireMark;
  if (!frame.text.empty()) frame.header.length = static_cast<int64_t>(frame.text.size());
  if (carrier_ != nullptr) return carrier_->Carry(process_, std::move(frame));
  outgoing_.push_back(std::move(frame));
  if (outgoing_.size() > 1) return;
  Write();
  if (!outgoing_.empty()) wake_->Wake();  // the reading thread writes the rest
}

void WireConnection::Write() {
  while (fd_ >= 0 && !outgoing_.empty()) {
    Outgoing& first = outgoing_.front();
    const char* const bytes = first.text.empty() ? first.bytes : first.text.data();
    const int64_t of_header = std::min(written_, kHeaderBytes);
    const int64_t of_bytes = written_ - of_header;
    iovec pieces[2] = {
        {reinterpret_cast<char*>(&first.header) + of_header,
         static_cast<size_t>(kHeaderBytes - of_header)},
        {const_cast<char*>(bytes) + of_bytes, static_cast<size_t>(first.header.length - of_bytes)}};
    msghdr message = {};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      // Frames that the process wrote before it went are read first.
      deaf_ = true;
      outgoing_.clear();
      return wake_->Wake();
    }
    written_ += sent;
    if (written_ < kHeaderBytes + first.header.length) continue;
    const int waiting = first.waiting;
    outgoing_.pop_front();
    written_ = 0;
    if (waiting >= 0) waits_->Done(waiting);
  }
}

void WireConnection::SetText() {
  text_.resize(static_cast<size_t>(header_.length));
  target_ = text_.data();
}

std::string WireConnection::Read(WireReader* reader) {
  while (fd_ >= 0 && reader->reads()) {
    const bool in_header = read_ < kHeaderBytes;
    char* const to =
        in_header ? reinterpret_cast<char*>(&header_) + read_ : target_ + (read_ - kHeaderBytes);
    const int64_t most = in_header ? kHeaderBytes - read_ : kHeaderBytes + header_.length - read_;
    const ssize_t got = recv(fd_, to, static_cast<size_t>(most), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return "";
    if (got <= 0) return got == 0 ? "the connection was closed" : std::strerror(errno);
    read_ += got;
    if (read_ == kHeaderBytes && !reader->BeginFrame(this)) {
      return "it sent something else than a message";
    }
    if (read_ >= kHeaderBytes && read_ == kHeaderBytes + header_.length) {
      reader->EndFrame(this);
      read_ = 0;
    }
  }
  return "";
}

}  // namespace stringline
