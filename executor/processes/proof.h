// The proof of the run's secret that comes before anything else on each connection, by both ends:
//
//   listener -> connector   N, 32 random bytes
//   connector -> listener   its process, 4 bytes; N', 32 random bytes;
//                           HMAC(secret, "connects", what for, from, to, N, N')
//   listener -> connector   HMAC(secret, "accepts", what for, from, to, N, N')
//
// The numbers are new each time, so no message can be used again; the role is part of it, so none
// can be sent back. The listener says nothing but random bytes to an end that has not proved the
// secret. "What for" and both processes tie a proof to its connection. It follows challenge and
// response as in ISO/IEC 9798-4 (mutual authentication in three passes).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "executor/processes/secret.h"

namespace stringline {

using Nonce = std::array<unsigned char, 32>;

// The subject of a proof.
struct ProofSubject {
  std::string purpose;  // "world", or "wire" and the run's name
  int32_t from = 0;     // the connecting process
  int32_t to = 0;       // the listening process
};

// The connector's message.
struct ProofAnswer {
  static constexpr size_t kBytes = 4 + 32 + 32;
  int32_t from = 0;
  Nonce nonce = {};
  Secret::Mac mac = {};
};
std::array<unsigned char, ProofAnswer::kBytes> Encode(const ProofAnswer& answer);
ProofAnswer DecodeAnswer(const std::array<unsigned char, ProofAnswer::kBytes>& bytes);

enum class ProofRole : uint8_t { kConnects, kAccepts };
Secret::Mac MacOf(const Secret& secret, ProofRole role, const ProofSubject& subject,
                  const Nonce& listener, const Nonce& connector);

// The connecting end. Owns the socket, which does not block, until Release.
class Prover {
 public:
  enum class State : uint8_t {
    kUnderWay,
    kProven,
    kLost,     // the connection ended, or was silent for long, before this end's proof
    kRefused,  // the other end did not take this end's proof, or gave none
  };

  Prover(int fd, const Secret* secret, ProofSubject subject);
  ~Prover();
  Prover(const Prover&) = delete;
  Prover& operator=(const Prover&) = delete;

  int fd() const { return fd_; }
  const ProofSubject& subject() const { return subject_; }
  // Reads and writes as much as possible without waiting.
  State Advance();
  // The reason for kLost.
  const std::string& why() const { return why_; }
  int Release();

 private:
  State Lose(std::string why);
  bool SendAnswer();

  int fd_;
  const Secret* secret_;
  ProofSubject subject_;
  int64_t until_ns_;
  bool answered_ = false;
  Nonce listener_ = {};
  Nonce own_ = {};
  Secret::Mac reply_ = {};
  size_t got_ = 0;  // bytes of the message under way
  std::string why_;
};

}  // namespace stringline
