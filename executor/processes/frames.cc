#include "executor/processes/frames.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

constexpr uint32_t kMark = 0x31574C53;  // "SLW1"
constexpr size_t kReadBytes = 1 << 16;

void AppendNumber(std::string* to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to->push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t NumberAt(absl::string_view bytes, size_t at, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i) {
    value |= uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

}  // namespace

std::string Pack(absl::Span<const std::string> parts) {
  std::string bytes;
  for (const std::string& part : parts) {
    AppendNumber(&bytes, part.size(), 4);
    bytes += part;
  }
  return bytes;
}

std::optional<std::vector<std::string>> Unpack(absl::string_view bytes) {
  std::vector<std::string> parts;
  while (!bytes.empty()) {
    if (bytes.size() < 4) return std::nullopt;
    const uint64_t size = NumberAt(bytes, 0, 4);
    if (size > bytes.size() - 4) return std::nullopt;
    parts.emplace_back(bytes.substr(4, size));
    bytes.remove_prefix(4 + size);
  }
  return parts;
}

FrameSocket::FrameSocket(FrameSocket&& other) noexcept : fd_(-1) { *this = std::move(other); }

FrameSocket& FrameSocket::operator=(FrameSocket&& other) noexcept {
  if (this == &other) return *this;
  Close();
  fd_ = std::exchange(other.fd_, -1);
  unsent_ = std::move(other.unsent_);
  sent_ = std::exchange(other.sent_, 0);
  received_ = std::move(other.received_);
  frames_ = std::move(other.frames_);
  return *this;
}

void FrameSocket::Close() {
  if (fd_ >= 0) (void)close(fd_);
  fd_ = -1;
}

void FrameSocket::Put(FrameKind kind, absl::string_view bytes) {
  if (!open()) return;
  AppendNumber(&unsent_, kMark, 4);
  AppendNumber(&unsent_, static_cast<uint64_t>(kind), 4);
  AppendNumber(&unsent_, bytes.size(), 8);
  unsent_.append(bytes.data(), bytes.size());
}

bool FrameSocket::Write(std::string* why) {
  while (has_unsent()) {
    const ssize_t wrote =
        send(fd_, unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (wrote < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
      if (errno == EINTR) continue;
      *why = std::strerror(errno);
      return false;
    }
    sent_ += static_cast<size_t>(wrote);
  }
  unsent_.clear();
  // Process 0 has a buffer for each process: kept, a large answer would stay there once for each.
  if (unsent_.capacity() > kReadBytes) unsent_.shrink_to_fit();
  sent_ = 0;
  return true;
}

bool FrameSocket::Read(int64_t most_bytes, std::string* why) {
  char piece[kReadBytes];
  while (true) {
    const ssize_t got = recv(fd_, piece, sizeof(piece), MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
      if (errno == EINTR) continue;
      *why = std::strerror(errno);
      return false;
    }
    if (got == 0) {
      *why = "the connection was closed";
      return false;
    }
    received_.append(piece, static_cast<size_t>(got));
    if (!Parse(most_bytes, why)) return false;
  }
}

bool FrameSocket::Parse(int64_t most_bytes, std::string* why) {
  size_t at = 0;
  const auto rest = [&] { return received_.size() - at; };
  while (rest() >= kFrameHeaderBytes) {
    const uint64_t kind = NumberAt(received_, at + 4, 4), length = NumberAt(received_, at + 8, 8);
    if (NumberAt(received_, at, 4) != kMark || kind < 1 || kind > kFrameKinds) {
      *why = "what came is none of our frames";
      return false;
    }
    if (length > static_cast<uint64_t>(most_bytes)) {
      *why = absl::StrCat("a frame of ", length, " bytes came; at most ", most_bytes, " are taken");
      return false;
    }
    if (rest() < kFrameHeaderBytes + length) break;
    frames_.push_back({static_cast<FrameKind>(kind),
                       received_.substr(at + kFrameHeaderBytes, static_cast<size_t>(length))});
    at += kFrameHeaderBytes + static_cast<size_t>(length);
  }
  received_.erase(0, at);
  if (received_.empty() && received_.capacity() > kReadBytes) received_.shrink_to_fit();
  return true;
}

std::optional<Frame> FrameSocket::Take() {
  if (frames_.empty()) return std::nullopt;
  Frame frame = std::move(frames_.front());
  frames_.pop_front();
  return frame;
}

}  // namespace stringline
