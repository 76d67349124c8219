// A process's connection to one other process: frames are written in order as far as the socket
// takes them, and read as they come. What is wrong with a connection is for its user to say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "executor/processes/wire_frames.h"
#include "executor/processes/wire_poll.h"
#include "executor/processes/wire_waits.h"

namespace stringline {

class WireConnection;

// The receiver of frames.
class WireReader {
 public:
  virtual ~WireReader() = default;
  // False: nothing is read any more.
  virtual bool reads() const = 0;
  // The header is there: calls SetTarget or SetText, unless its length is 0. False: this is no
  // frame that may come now.
  virtual bool BeginFrame(WireConnection* from) = 0;
  // The whole frame is there.
  virtual void EndFrame(WireConnection* from) = 0;
};

// Carries frames where there is no socket.
class FrameCarrier {
 public:
  virtual ~FrameCarrier() = default;
  // Sends a frame, whose header is complete; WireWaits::Done as by a socket.
  virtual void Carry(int process, Outgoing frame) = 0;
  // Takes the bytes of a frame with a tag, which are then reported to WireLanes::Took. They are
  // dropped if `target` is null.
  virtual void TakeBytes(int process, const WireHeader& header, void* target) = 0;
};

class WireConnection {
 public:
  // Closed; `poll` is waited for by the thread that calls Write and Read.
  WireConnection(int process, WireWaits* waits, WirePoll* poll)
      : process_(process), waits_(waits), poll_(poll) {}
  ~WireConnection() { Close(); }
  WireConnection(const WireConnection&) = delete;
  WireConnection& operator=(const WireConnection&) = delete;

  void Open(int fd);
  // Without a socket: the carrier sends the frames, and whoever takes those that come calls
  // SetHeader and the reader.
  void OpenOver(FrameCarrier* carrier) {
    carrier_ = carrier;
    opened_ = true;
  }
  bool open() const { return fd_ >= 0 || carrier_ != nullptr; }
  FrameCarrier* carrier() const { return carrier_; }
  void Close();
  // True from Open on.
  bool opened() const { return opened_; }
  // The socket, to be polled; -1: closed.
  int fd() const { return fd_; }
  bool unsent() const { return fd_ >= 0 && next_ < outgoing_.size(); }
  // The other process said goodbye: nothing is written to it any more.
  void NoteLeft() { left_ = true; }
  bool left() const { return left_; }
  // True if frames can be written to the other process. After an error of writing none can, but
  // what the other process wrote before may still come.
  bool reachable() const { return open() && !left_ && !deaf_; }

  // Enqueues a frame and writes what the socket takes now; nothing if the process is not reachable.
  void Put(Outgoing frame);
  void Write();
  // Nothing is read any more, and nothing that comes ends a wait.
  void StopReading();

  // Reads everything that is there. Returns "", or the reason why no more will come.
  std::string Read(WireReader* reader);
  // The other process.
  int process() const { return process_; }
  void SetHeader(const WireHeader& header) { header_ = header; }
  // Of the frame under way.
  const WireHeader& header() const { return header_; }
  const std::string& text() const { return text_; }
  char* target() const { return target_; }
  void SetTarget(void* target) { target_ = static_cast<char*>(target); }
  void SetText();

 private:
  bool WriteFrame(Outgoing* frame);
  void Queue(Outgoing frame);
  void Watch();

  const int process_;
  WireWaits* const waits_;
  WirePoll* const poll_;
  int fd_ = -1;
  FrameCarrier* carrier_ = nullptr;
  bool opened_ = false, reading_ = true;
  bool left_ = false;
  bool deaf_ = false;
  uint32_t watched_ = 0;            // events of the socket that end a wait
  std::vector<Outgoing> outgoing_;  // keeps its memory
  size_t next_ = 0;                 // the first that is not written
  int64_t written_ = 0;             // bytes of it
  WireHeader header_;               // of the frame under way, as the members below
  int64_t read_ = 0;                // bytes
  char* target_ = nullptr;
  std::string text_;
};

}  // namespace stringline
