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

void WireConnection::Open(int fd) {
  fd_ = fd;
  opened_ = true;
  Watch();
}

// A child of this process may hold the socket open, so the set does not lose it by itself.
void WireConnection::Close() {
  carrier_ = nullptr;
  if (fd_ < 0) return;
  poll_->Watch(fd_, process_, std::exchange(watched_, 0), 0);
  (void)close(fd_);
  fd_ = -1;
  outgoing_.clear();
  next_ = 0;
}

void WireConnection::StopReading() {
  reading_ = false;
  Watch();
}

void WireConnection::Watch() {
  const uint32_t events = (reading_ ? EPOLLIN : 0U) | (unsent() ? EPOLLOUT : 0U);
  if (fd_ >= 0) poll_->Watch(fd_, process_, std::exchange(watched_, events), events);
}

void WireConnection::Put(Outgoing frame) {
  if (!reachable()) return;
  frame.header.mark = kWireMark;
  if (!frame.text.empty()) frame.header.length = static_cast<int64_t>(frame.text.size());
  if (carrier_ != nullptr) return carrier_->Carry(process_, std::move(frame));
  const bool alone = !unsent();
  if (alone && WriteFrame(&frame)) return;
  if (!deaf_) Queue(std::move(frame));
  if (alone) Watch();  // the reading thread writes the rest
}

void WireConnection::Queue(Outgoing frame) {
  // Frames that were written leave when they are as many as the others.
  if (next_ == outgoing_.size() || (next_ > 16 && next_ > outgoing_.size() / 2)) {
    outgoing_.erase(outgoing_.begin(), outgoing_.begin() + static_cast<int64_t>(next_));
    next_ = 0;
  }
  outgoing_.push_back(std::move(frame));
}

void WireConnection::Write() {
  while (unsent() && WriteFrame(&outgoing_[next_])) ++next_;
  if (!unsent()) Watch();
}

// False: the socket takes no more now, or the process can take nothing any more.
bool WireConnection::WriteFrame(Outgoing* frame) {
  const char* const bytes = frame->text.empty() ? frame->bytes : frame->text.data();
  while (true) {
    const int64_t of_header = std::min(written_, kHeaderBytes);
    const int64_t of_bytes = written_ - of_header;
    iovec pieces[2] = {{reinterpret_cast<char*>(&frame->header) + of_header,
                        static_cast<size_t>(kHeaderBytes - of_header)},
                       {const_cast<char*>(bytes) + of_bytes,
                        static_cast<size_t>(frame->header.length - of_bytes)}};
    msghdr message = {};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EAGAIN || errno == EINTR) return false;
      // Frames that the process wrote before it went are read first.
      deaf_ = true;
      outgoing_.clear();
      next_ = 0;
      return false;
    }
    written_ += sent;
    if (written_ < kHeaderBytes + frame->header.length) continue;
    written_ = 0;
    if (frame->waiting >= 0) waits_->Done(frame->waiting);
    return true;
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
