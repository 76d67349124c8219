// The last users of every piece of memory in a launch: finds two threads that use the same bytes,
// one of them writing, without a barrier between them.
//
// Barriers of a block divide its time into intervals, and barriers of a warp divide those. An
// interval has a number of its own among all intervals of all blocks of all launches, and blocks
// are played one after the other. So a use is ordered before another by the same thread; before one
// in a later interval of the same block; before one by the same warp after a barrier of the warp;
// and never before one of another block.
//
// One reader stands for all readers since a write that an access may race with: either it is the
// only one that counts, or what they have in common (a warp, a block, a launch) is kept. An earlier
// read by the same warp before a barrier of the warp is ordered before everything that the later
// read is ordered before, so it is forgotten.
#pragma once

#include <cstdint>

namespace stringline::ptx {

// Present time of a block: intervals since `launch` are this launch's, since `block` this block's.
struct Interval {
  uint32_t launch = 1, block = 1, now = 1;
};

class Trace {
 public:
  enum class Found : uint8_t { kNothing, kWriter, kReader, kNeverWritten, kInFlight };

  // Thread t reads, after `warp_barriers` of its warp in this interval.
  Found Read(int t, uint16_t warp_barriers, const Interval& time, bool needs_value) {
    Found found = Found::kNothing;
    if (wrote_ < time.block) {
      if (wrote_ >= time.launch) found = Found::kWriter;
      if (needs_value) found = Found::kNeverWritten;
    } else if (wrote_in_warp_ == kFlight) {
      found = Found::kInFlight;
    } else if (wrote_ == time.now && !Ordered(writer_, wrote_in_warp_, t, warp_barriers)) {
      found = Found::kWriter;
    }
    NoteRead(t, warp_barriers, time);
    return found;
  }

  Found Write(int t, uint16_t warp_barriers, const Interval& time) {
    Found found = Found::kNothing;
    if (wrote_ >= time.launch) {
      if (wrote_ < time.block) found = Found::kWriter;
      if (wrote_ == time.now && !Ordered(writer_, wrote_in_warp_, t, warp_barriers)) {
        found = Found::kWriter;
      }
    }
    if (read_ >= time.launch && found == Found::kNothing) {
      const Kind kind = kind_;
      if (kind == Kind::kBlocks || read_ < time.block) found = Found::kReader;
      if (read_ == time.now) {
        const bool of_one_warp = kind <= Kind::kLanes && reader_ / 32 == t / 32;
        const bool own = kind == Kind::kThread && reader_ == t;
        if (!own && !(of_one_warp && read_in_warp_ < warp_barriers)) found = Found::kReader;
      }
    }
    wrote_ = time.now;
    writer_ = static_cast<uint16_t>(t);
    wrote_in_warp_ = warp_barriers;
    return found;
  }

  // An asynchronous copy of the thread that wrote last begins: no value until Write.
  void BeginFlight() { wrote_in_warp_ = kFlight; }

  int writer() const { return writer_; }
  int reader() const { return reader_; }
  bool read_by_several_blocks() const { return kind_ == Kind::kBlocks; }
  uint32_t wrote() const { return wrote_; }
  uint32_t read() const { return read_; }
  static constexpr uint16_t kMostWarpBarriers = 0xfffe;

 private:
  enum class Kind : uint8_t { kThread, kLanes, kWarps, kBlocks };
  static constexpr uint16_t kFlight = 0xffff;

  static bool Ordered(int before, uint16_t barriers_before, int t, uint16_t barriers) {
    if (before == t) return true;
    return before / 32 == t / 32 && barriers_before < barriers;
  }

  void NoteRead(int t, uint16_t warp_barriers, const Interval& time) {
    if (read_ == time.now) {
      if (kind_ >= Kind::kWarps) return;
      if (reader_ / 32 != t / 32) {
        kind_ = Kind::kWarps;
      } else if (read_in_warp_ < warp_barriers) {
        kind_ = Kind::kThread;
        reader_ = static_cast<uint16_t>(t);
        read_in_warp_ = warp_barriers;
      } else if (reader_ != t) {
        kind_ = Kind::kLanes;
      }
      return;
    }
    const bool other_block = read_ >= time.launch && (read_ < time.block || kind_ == Kind::kBlocks);
    kind_ = other_block ? Kind::kBlocks : Kind::kThread;
    if (!other_block) reader_ = static_cast<uint16_t>(t);
    read_ = time.now;
    read_in_warp_ = warp_barriers;
  }

  uint32_t wrote_ = 0, read_ = 0;
  uint16_t writer_ = 0, wrote_in_warp_ = 0;
  uint16_t read_in_warp_ = 0;
  uint16_t reader_ : 12 = 0;
  Kind kind_ : 4 = Kind::kThread;
};
static_assert(sizeof(Trace) == 16);

}  // namespace stringline::ptx
