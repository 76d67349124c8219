// Frames over a socket, whole and in pieces, and the refusal of bad ones.
#include "executor/processes/frames.h"

#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "gtest/gtest.h"

namespace stringline {
namespace {

class FramesTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    one_ = FrameSocket(ends[0]);
    other_ = FrameSocket(ends[1]);
  }
  void Send(const std::string& bytes) {
    ASSERT_EQ(send(one_.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  // The bytes of a frame on the wire.
  std::string BytesOf(FrameKind kind, const std::string& bytes) {
    std::string why, wire(bytes.size() + kFrameHeaderBytes, '\0');
    one_.Put(kind, bytes);
    EXPECT_TRUE(one_.Write(&why));
    EXPECT_EQ(recv(other_.fd(), wire.data(), wire.size(), 0), static_cast<ssize_t>(wire.size()));
    return wire;
  }

  FrameSocket one_, other_;
  std::string why_;
};

TEST_F(FramesTest, PartsComeBackAsTheyWere) {
  const std::vector<std::string> parts = {"", "one", std::string(1000, '\0'), "ü"};
  EXPECT_EQ(Unpack(Pack(parts)), parts);
  EXPECT_EQ(Unpack(""), std::vector<std::string>());
  const std::string bytes = Pack(parts);
  int whole = 0;
  for (size_t cut = 1; cut < bytes.size(); ++cut) whole += Unpack(bytes.substr(0, cut)) ? 1 : 0;
  EXPECT_EQ(whole, 3);  // after "", "one" and the zeros
}

TEST_F(FramesTest, FramesComeInOrderAndWhole) {
  const std::string large(300'000, 'x');
  one_.Put(FrameKind::kGive, "first");
  one_.Put(FrameKind::kGive, large);
  one_.Put(FrameKind::kBye, "");
  std::vector<Frame> got;
  while (got.size() < 3) {
    ASSERT_TRUE(one_.Write(&why_)) << why_;
    ASSERT_TRUE(other_.Read(kMostFrameBytes, &why_)) << why_;
    while (auto frame = other_.Take()) got.push_back(*frame);
  }
  EXPECT_EQ(got[0].bytes, "first");
  EXPECT_EQ(got[1].bytes, large);
  EXPECT_EQ(got[2].kind, FrameKind::kBye);
}

TEST_F(FramesTest, AFrameThatComesByteByByteIsOne) {
  for (const char c : BytesOf(FrameKind::kGive, "slowly")) {
    EXPECT_FALSE(other_.Take().has_value());
    Send(std::string(1, c));
    ASSERT_TRUE(other_.Read(kMostFrameBytes, &why_)) << why_;
  }
  EXPECT_EQ(other_.Take()->bytes, "slowly");
}

TEST_F(FramesTest, AnythingElseEndsTheConnection) {
  Send("GET / HTTP/1.1\r\nHost: there\r\n\r\n");
  EXPECT_FALSE(other_.Read(kMostFrameBytes, &why_));
  EXPECT_EQ(why_, "what came is none of our frames");
}

TEST_F(FramesTest, ALengthIsNotBelieved) {
  std::string header = BytesOf(FrameKind::kGive, "");
  header[8 + 5] = 1;  // 1 TiB
  Send(header);
  EXPECT_FALSE(other_.Read(kMostFrameBytes, &why_));
  EXPECT_EQ(why_, "a frame of 1099511627776 bytes came; at most 4294967296 are taken");
}

// The limit itself is still a frame; one byte more is none.
TEST_F(FramesTest, TheLargestFrameIsTaken) {
  constexpr int64_t kMost = 1000;
  Send(BytesOf(FrameKind::kGive, std::string(kMost, 'x')));
  ASSERT_TRUE(other_.Read(kMost, &why_)) << why_;
  EXPECT_EQ(other_.Take()->bytes, std::string(kMost, 'x'));
  Send(BytesOf(FrameKind::kGive, std::string(kMost + 1, 'x')));
  EXPECT_FALSE(other_.Read(kMost, &why_));
  EXPECT_EQ(why_, "a frame of 1001 bytes came; at most 1000 are taken");
  EXPECT_FALSE(other_.Take().has_value());
  // A header of the largest length is waited for.
  SetUp();
  std::string header = BytesOf(FrameKind::kGive, "");
  header[8 + 4] = kMostFrameBytes >> 32;
  Send(header);
  EXPECT_TRUE(other_.Read(kMostFrameBytes, &why_)) << why_;
  SetUp();
  header[8] = 1;
  Send(header);
  EXPECT_FALSE(other_.Read(kMostFrameBytes, &why_));
  EXPECT_EQ(why_, "a frame of 4294967297 bytes came; at most 4294967296 are taken");
}

TEST_F(FramesTest, AFrameBeforeTheEndIsHeard) {
  one_.Put(FrameKind::kFail, "last words");
  ASSERT_TRUE(one_.Write(&why_));
  one_.Close();
  EXPECT_FALSE(other_.Read(kMostFrameBytes, &why_));
  EXPECT_EQ(why_, "the connection was closed");
  EXPECT_EQ(other_.Take()->bytes, "last words");
}

TEST_F(FramesTest, NoBytesCrashTheReader) {
  std::mt19937 random(1);
  const std::string good = BytesOf(FrameKind::kGive, "some bytes");
  for (int round = 0; round < 2000; ++round) {
    SetUp();
    std::string bytes = good + good;
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    bytes.resize(random() % (bytes.size() + 1));
    Send(bytes);
    (void)other_.Read(1000, &why_);
    while (auto frame = other_.Take()) {
      EXPECT_LE(frame->bytes.size(), 1000u);
      (void)Unpack(frame->bytes);
    }
  }
}

}  // namespace
}  // namespace stringline
