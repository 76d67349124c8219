// Messages between processes over a socket: frames, each a kind and some bytes.
//
// A frame is 16 bytes of header (a mark, the kind, the length) and its bytes; numbers are little
// endian. A reader trusts nothing: another mark, an unknown kind or a length beyond kMostBytes ends
// the connection, and memory is taken as bytes arrive.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace stringline {

enum class FrameKind : uint8_t {
  kHello = 1,  // identity and settings of the process
  kReject,     // a text: you are not of this run
  kWelcome,    // the address of process 0; all have joined
  kListens,    // to process 0: the place where I wait for my children of the tree
  kParent,     // from process 0: that place of the parent
  kGive,       // to a parent: the parts of this process and those behind it
  kAll,        // from a parent: the parts of all processes, or their sum
  kWaiting,  // I am in this meeting, or at work; to process 0: I am at work, which it answers with
             // the same
  kAwaited,  // I wait for you in this meeting, and will not for long
  kAsk,      // from process 0: where are you?
  kAnswer,   // I have come to so many meetings, and wait for these processes
  kFail,     // a status code and a text: the run has failed
  kBye,      // I have ended my run, after so many meetings
};
constexpr int kFrameKinds = 13;
constexpr int64_t kFrameHeaderBytes = 16;
constexpr int64_t kMostFrameBytes = int64_t{1} << 32;
constexpr int64_t kMostHelloBytes = int64_t{1} << 20;

struct Frame {
  FrameKind kind = FrameKind::kBye;
  std::string bytes;
};

// Joins strings into one, and splits the result; nothing for malformed bytes.
std::string Pack(absl::Span<const std::string> parts);
std::optional<std::vector<std::string>> Unpack(absl::string_view bytes);

// This process's end of a connection. Owns the socket, which does not block.
class FrameSocket {
 public:
  explicit FrameSocket(int fd = -1) : fd_(fd) {}
  ~FrameSocket() { Close(); }
  FrameSocket(FrameSocket&& other) noexcept;
  FrameSocket& operator=(FrameSocket&& other) noexcept;

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void Close();

  // Queued; Write sends when the socket has room.
  void Put(FrameKind kind, absl::string_view bytes);
  bool has_unsent() const { return open() && sent_ < unsent_.size(); }
  // Write and read as much as possible without waiting. False if the connection has ended; `why`
  // tells how. Frames that arrived before the end can still be taken.
  bool Write(std::string* why);
  bool Read(int64_t most_bytes, std::string* why);
  std::optional<Frame> Take();

 private:
  bool Parse(int64_t most_bytes, std::string* why);

  int fd_;
  std::string unsent_;
  size_t sent_ = 0;
  std::string received_;
  std::deque<Frame> frames_;
};

}  // namespace stringline
