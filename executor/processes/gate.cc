#include "executor/processes/gate.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/processes/sockets.h"
#include "schedlang/base/clock.h"

namespace stringline {
namespace {

// So few are accepted before all are read again: a proof that is there is read before its
// connection could be the oldest.
constexpr int kAtOnce = 16;

bool SendAll(int fd, const void* bytes, size_t size) {
  return send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(size);
}

}  // namespace

Gate::Gate(std::vector<int> listeners, const Secret* secret, ProofSubject subject, int64_t proof_ns)
    : listeners_(std::move(listeners)),
      secret_(secret),
      subject_(std::move(subject)),
      proof_ns_(proof_ns) {}

Gate::~Gate() {
  for (const Unproved& one : unproved_) (void)close(one.fd);
  for (const int listener : listeners_) (void)close(listener);
}

void Gate::AddTo(std::vector<pollfd>* polled) const {
  for (const int listener : listeners_) polled->push_back({listener, POLLIN, 0});
  for (const Unproved& one : unproved_) polled->push_back({one.fd, POLLIN, 0});
}

void Gate::Drop(const Unproved& one) {
  (void)close(one.fd);
  ++refused_;
}

Gate::Step Gate::Read(Unproved* one) const {
  const ssize_t got =
      recv(one->fd, one->answer.data() + one->got, one->answer.size() - one->got, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    return NowNs() < one->until_ns ? Step::kWaits : Step::kEnds;
  }
  if (got <= 0) return Step::kEnds;
  one->got += static_cast<size_t>(got);
  if (one->got < one->answer.size()) return Step::kWaits;
  return Prove(*one) ? Step::kProven : Step::kEnds;
}

bool Gate::Prove(const Unproved& one) const {
  const ProofAnswer answer = DecodeAnswer(one.answer);
  ProofSubject subject = subject_;
  subject.from = answer.from;
  const auto mac = [&](ProofRole role) {
    return MacOf(*secret_, role, subject, one.nonce, answer.nonce);
  };
  if (!AreEqual(answer.mac, mac(ProofRole::kConnects))) return false;
  const Secret::Mac own = mac(ProofRole::kAccepts);
  return SendAll(one.fd, own.data(), own.size());
}

absl::Status Gate::Accept(int listener) {
  for (int i = 0; i < kAtOnce; ++i) {
    const int fd = AcceptFrom(listener);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
      if (unproved_.empty()) {
        return absl::ResourceExhaustedError(
            absl::StrCat("no connection can be accepted: ", std::strerror(errno), " (ulimit -n)"));
      }
      Drop(unproved_.front());
      unproved_.pop_front();
      continue;
    }
    if (fd < 0) break;
    if (unproved_.size() >= kMostUnproved) {
      Drop(unproved_.front());
      unproved_.pop_front();
    }
    Unproved one = {.fd = fd, .until_ns = NowNs() + proof_ns_};
    FillRandomly(absl::MakeSpan(one.nonce));
    if (SendAll(fd, one.nonce.data(), one.nonce.size())) {
      unproved_.push_back(one);
    } else {
      Drop(one);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Gate::Guest>> Gate::Admit() {
  std::vector<Guest> guests;
  std::deque<Unproved> waiting;
  for (Unproved& one : unproved_) {
    const Step step = Read(&one);
    if (step == Step::kWaits) waiting.push_back(one);
    if (step == Step::kEnds) Drop(one);
    if (step == Step::kProven) guests.push_back({one.fd, DecodeAnswer(one.answer).from});
  }
  unproved_ = std::move(waiting);
  absl::Status accepted;
  for (const int listener : listeners_) accepted.Update(Accept(listener));
  if (accepted.ok()) return guests;
  for (const Guest& guest : guests) (void)close(guest.fd);
  return accepted;
}

}  // namespace stringline
