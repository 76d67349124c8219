#include "executor/processes/proof.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/clock.h"

namespace stringline {
namespace {

// A process that listens may be busy, or stopped for a while.
constexpr int64_t kChallengeNs = 20'000'000'000;

std::string TextOf(const Nonce& nonce) { return std::string(nonce.begin(), nonce.end()); }

}  // namespace

std::array<unsigned char, ProofAnswer::kBytes> Encode(const ProofAnswer& answer) {
  std::array<unsigned char, ProofAnswer::kBytes> bytes;
  for (int i = 0; i < 4; ++i) {
    bytes[i] = static_cast<unsigned char>(static_cast<uint32_t>(answer.from) >> (8 * i));
  }
  std::copy(answer.nonce.begin(), answer.nonce.end(), bytes.begin() + 4);
  std::copy(answer.mac.begin(), answer.mac.end(), bytes.begin() + 36);
  return bytes;
}

ProofAnswer DecodeAnswer(const std::array<unsigned char, ProofAnswer::kBytes>& bytes) {
  ProofAnswer answer;
  uint32_t from = 0;
  for (int i = 0; i < 4; ++i) from |= uint32_t{bytes[i]} << (8 * i);
  answer.from = static_cast<int32_t>(from);
  std::copy_n(bytes.begin() + 4, answer.nonce.size(), answer.nonce.begin());
  std::copy_n(bytes.begin() + 36, answer.mac.size(), answer.mac.begin());
  return answer;
}

Secret::Mac MacOf(const Secret& secret, ProofRole role, const ProofSubject& subject,
                  const Nonce& listener, const Nonce& connector) {
  return secret.Sign({"stringline proof 1", role == ProofRole::kConnects ? "connects" : "accepts",
                      subject.purpose, absl::StrCat(subject.from), absl::StrCat(subject.to),
                      TextOf(listener), TextOf(connector)});
}

Prover::Prover(int fd, const Secret* secret, ProofSubject subject)
    : fd_(fd), secret_(secret), subject_(std::move(subject)), until_ns_(NowNs() + kChallengeNs) {
  FillRandomly(absl::MakeSpan(own_));
}

Prover::~Prover() {
  if (fd_ >= 0) (void)close(fd_);
}

int Prover::Release() { return std::exchange(fd_, -1); }

Prover::State Prover::Lose(std::string why) {
  why_ = std::move(why);
  return answered_ ? State::kRefused : State::kLost;
}

// A new connection takes so few bytes at once.
bool Prover::SendAnswer() {
  const auto bytes = Encode(
      {subject_.from, own_, MacOf(*secret_, ProofRole::kConnects, subject_, listener_, own_)});
  answered_ = true;
  got_ = 0;
  return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

Prover::State Prover::Advance() {
  static_assert(sizeof(Nonce) == sizeof(Secret::Mac));
  while (true) {
    unsigned char* const to = answered_ ? reply_.data() : listener_.data();
    const ssize_t got = recv(fd_, to + got_, sizeof(Nonce) - got_, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (answered_ || NowNs() < until_ns_) return State::kUnderWay;
      return Lose(absl::StrCat("nothing came for ", kChallengeNs / 1'000'000'000, " s"));
    }
    if (got <= 0) return Lose(got == 0 ? "the connection was closed" : std::strerror(errno));
    got_ += static_cast<size_t>(got);
    if (got_ < sizeof(Nonce)) continue;
    if (answered_) {
      const bool right =
          AreEqual(reply_, MacOf(*secret_, ProofRole::kAccepts, subject_, listener_, own_));
      return right ? State::kProven : Lose("it gave no proof");
    }
    if (!SendAnswer()) return Lose("the connection was closed");
  }
}

}  // namespace stringline
