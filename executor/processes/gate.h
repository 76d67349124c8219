// The listening end of connections that have to prove the run's secret (proof.h).
//
// A connection without a proof costs its socket and less than 200 bytes, for at most ten seconds;
// at most 256 of them are open. When one more comes, the oldest is closed: a process of the run
// whose connection that was tries again. Nothing waits for a single connection.
#pragma once

#include <poll.h>

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/processes/proof.h"
#include "executor/processes/secret.h"

namespace stringline {

class Gate {
 public:
  static constexpr size_t kMostUnproved = 256;
  static constexpr int64_t kProofNs = 10'000'000'000;

  // Owns the listening sockets, which do not block. `subject.from` has no meaning.
  Gate(std::vector<int> listeners, const Secret* secret, ProofSubject subject,
       int64_t proof_ns = kProofNs);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Appends what to wait for before the next Admit.
  void AddTo(std::vector<pollfd>* polled) const;

  // A connection that has proved the secret, and was given the proof in return.
  struct Guest {
    int fd = -1;  // the caller's from now on
    int from = 0;
  };
  // Accepts, reads and closes as much as possible without waiting. ResourceExhausted if the process
  // may not open one more file.
  absl::StatusOr<std::vector<Guest>> Admit();
  // Connections that were closed without a proof.
  int64_t refused() const { return refused_; }

 private:
  struct Unproved {
    int fd = -1;
    int64_t until_ns = 0;
    size_t got = 0;
    Nonce nonce = {};
    std::array<unsigned char, ProofAnswer::kBytes> answer = {};
  };
  enum class Step : uint8_t { kWaits, kProven, kEnds };

  Step Read(Unproved* one) const;
  bool Prove(const Unproved& one) const;
  absl::Status Accept(int listener);
  void Drop(const Unproved& one);

  const std::vector<int> listeners_;
  const Secret* const secret_;
  const ProofSubject subject_;
  const int64_t proof_ns_;
  std::deque<Unproved> unproved_;  // the oldest first
  int64_t refused_ = 0;
};

}  // namespace stringline
