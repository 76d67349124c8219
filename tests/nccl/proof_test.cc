// Proofs of a run's secret: their arithmetic beside a second implementation, both ends of them, and
// connections that prove nothing.
#include "executor/processes/proof.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/numeric/bits.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/processes/gate.h"
#include "executor/processes/identity.h"
#include "executor/processes/sockets.h"
#include "gtest/gtest.h"
#include "schedlang/base/clock.h"

namespace stringline {
namespace {

// SHA-256 (FIPS 180-4): the constants are the fractions of the square and cube roots of primes.
std::string Sha256(std::string text) {
  std::vector<uint32_t> k, h;
  for (uint64_t n = 2; k.size() < 64; ++n) {
    bool prime = true;
    for (uint64_t d = 2; d * d <= n; ++d) prime = prime && n % d != 0;
    if (!prime) continue;
    const auto fraction = [](long double root) {
      return static_cast<uint32_t>((root - std::floor(root)) * 4294967296.0L);
    };
    k.push_back(fraction(std::cbrt(static_cast<long double>(n))));
    if (h.size() < 8) h.push_back(fraction(std::sqrt(static_cast<long double>(n))));
  }
  const uint64_t bits = text.size() * 8;
  text.push_back('\x80');
  while (text.size() % 64 != 56) text.push_back('\0');
  for (int i = 7; i >= 0; --i) text.push_back(static_cast<char>(bits >> (8 * i)));
  for (size_t block = 0; block < text.size(); block += 64) {
    uint32_t w[64];
    for (size_t i = 0; i < 16; ++i) {
      w[i] = 0;
      for (size_t b = 0; b < 4; ++b) {
        w[i] = w[i] << 8 | static_cast<unsigned char>(text[block + 4 * i + b]);
      }
    }
    using absl::rotr;
    for (size_t i = 16; i < 64; ++i) {
      w[i] = w[i - 16] + w[i - 7] + (rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ w[i - 15] >> 3) +
             (rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ w[i - 2] >> 10);
    }
    std::vector<uint32_t> v = h;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t one = v[7] + (rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25)) +
                           ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
      const uint32_t two = (rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22)) +
                           ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
      v = {one + two, v[0], v[1], v[2], v[3] + one, v[4], v[5], v[6]};
    }
    for (size_t i = 0; i < 8; ++i) h[i] += v[i];
  }
  std::string digest;
  for (const uint32_t word : h) {
    for (int b = 3; b >= 0; --b) digest.push_back(static_cast<char>(word >> (8 * b)));
  }
  return digest;
}

// RFC 2104.
std::string Hmac(std::string key, const std::string& text) {
  if (key.size() > 64) key = Sha256(key);
  key.resize(64, '\0');
  std::string inner = key, outer = key;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  return Sha256(outer + Sha256(inner + text));
}

std::string TextOf(const std::array<unsigned char, 32>& bytes) {
  return std::string(bytes.begin(), bytes.end());
}

TEST(Proof, IsAnHmacOfItsParts) {
  EXPECT_EQ(absl::BytesToHexString(Sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // RFC 4231, test case 2.
  EXPECT_EQ(absl::BytesToHexString(Hmac("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    std::string key(random() % 150, '\0');
    for (char& c : key) c = static_cast<char>(random());
    Nonce listener, connector;
    for (auto* const nonce : {&listener, &connector}) {
      for (unsigned char& c : *nonce) c = static_cast<unsigned char>(random());
    }
    const ProofSubject subject = {"wire 7", static_cast<int>(random() % 300), 3};
    for (const ProofRole role : {ProofRole::kConnects, ProofRole::kAccepts}) {
      std::string text;
      for (const std::string& part :
           {std::string("stringline proof 1"),
            std::string(role == ProofRole::kConnects ? "connects" : "accepts"), subject.purpose,
            absl::StrCat(subject.from), std::string("3"), TextOf(listener), TextOf(connector)}) {
        text += std::string{static_cast<char>(part.size()), '\0', '\0', '\0'} + part;
      }
      EXPECT_EQ(TextOf(MacOf(Secret(key, "here"), role, subject, listener, connector)),
                Hmac(key, text));
    }
  }
}

TEST(Proof, AnswersAreReadBack) {
  ProofAnswer answer;
  answer.from = 0x01020304;
  for (size_t i = 0; i < 32; ++i) answer.nonce[i] = static_cast<unsigned char>(i);
  for (size_t i = 0; i < 32; ++i) answer.mac[i] = static_cast<unsigned char>(100 + i);
  const ProofAnswer back = DecodeAnswer(Encode(answer));
  EXPECT_EQ(back.from, answer.from);
  EXPECT_EQ(back.nonce, answer.nonce);
  EXPECT_EQ(back.mac, answer.mac);
}

const Secret kSecret("the secret of the run itself", "this test");
const Secret kOther("another secret of another run", "this test");
const ProofSubject kWorld = {"world", 0, 0};

// A gate of the test, and connections to it.
struct Door {
  explicit Door(const ProofSubject& subject = kWorld, int64_t proof_ns = Gate::kProofNs) {
    std::vector<int> listeners = *ListenOn("127.0.0.1", 0);
    port = PortOf(listeners.front());
    gate = std::make_unique<Gate>(std::move(listeners), &kSecret, subject, proof_ns);
  }

  int Connect() const { return *ConnectTo("127.0.0.1", port, NowNs() + 5'000'000'000); }

  // Lets the gate work until `holds`.
  bool Until(const std::function<bool()>& holds) {
    const int64_t until_ns = NowNs() + 20'000'000'000;
    while (!holds()) {
      if (NowNs() > until_ns) return false;
      std::vector<pollfd> polled;
      gate->AddTo(&polled);
      (void)poll(polled.data(), polled.size(), 1);
      const auto admitted = gate->Admit();
      EXPECT_TRUE(admitted.ok()) << admitted.status();
      for (const Gate::Guest& guest : *admitted) guests.push_back(guest);
    }
    return true;
  }

  // The state in which a prover ends.
  Prover::State End(Prover* prover) {
    Prover::State state = Prover::State::kUnderWay;
    EXPECT_TRUE(Until([&] {
      state = prover->Advance();
      return state != Prover::State::kUnderWay;
    }));
    return state;
  }

  // The bytes that a connection gets before its end.
  std::string Heard(int fd) {
    std::string heard;
    EXPECT_TRUE(Until([&] {
      char piece[4096];
      const ssize_t got = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);
      if (got > 0) heard.append(piece, static_cast<size_t>(got));
      return got == 0 || (got < 0 && errno != EAGAIN);
    }));
    return heard;
  }

  ~Door() {
    for (const Gate::Guest& guest : guests) (void)close(guest.fd);
  }

  int port = 0;
  std::unique_ptr<Gate> gate;
  std::vector<Gate::Guest> guests;
};

void Say(int fd, const void* bytes, size_t size) {
  EXPECT_EQ(send(fd, bytes, size, MSG_NOSIGNAL), static_cast<ssize_t>(size));
}

TEST(Gate, TheSameSecretIsProvenBothWays) {
  Door door({"wire 7", 0, 3});
  Prover prover(door.Connect(), &kSecret, {"wire 7", 5, 3});
  EXPECT_EQ(door.End(&prover), Prover::State::kProven);
  ASSERT_EQ(door.guests.size(), 1u);
  EXPECT_EQ(door.guests[0].from, 5);
  EXPECT_EQ(door.gate->refused(), 0);
  // Nothing is left over: the next bytes are the connection's own.
  const int fd = prover.Release();
  Say(fd, "hello", 5);
  Say(door.guests[0].fd, "you", 3);
  char piece[8];
  pollfd there = {door.guests[0].fd, POLLIN, 0};
  EXPECT_EQ(poll(&there, 1, 5000), 1);
  EXPECT_EQ(recv(door.guests[0].fd, piece, sizeof(piece), 0), 5);
  there.fd = fd;
  EXPECT_EQ(poll(&there, 1, 5000), 1);
  EXPECT_EQ(recv(fd, piece, sizeof(piece), 0), 3);
  (void)close(fd);
}

TEST(Gate, AnotherSecretOrSubjectIsRefused) {
  const ProofSubject subject = {"wire 7", 0, 3};
  const std::pair<const Secret*, ProofSubject> strangers[] = {
      {&kOther, {"wire 7", 5, 3}},
      {&kSecret, {"wire 8", 5, 3}},  // of another run
      {&kSecret, {"world", 5, 3}},
      {&kSecret, {"wire 7", 5, 2}},  // for another process
  };
  for (const auto& [secret, other] : strangers) {
    Door door(subject);
    Prover prover(door.Connect(), secret, other);
    EXPECT_EQ(door.End(&prover), Prover::State::kRefused);
    EXPECT_TRUE(door.guests.empty());
    EXPECT_EQ(door.gate->refused(), 1);
  }
}

TEST(Gate, AStrangerHearsOnlyRandomBytes) {
  Door door;
  std::string before;
  const std::string said[] = {
      std::string(68, 'x'), std::string(50'000, 'x'),
      "GET / HTTP/1.1\r\nHost: here\r\nAccept: every single thing that is there\r\n\r\n"};
  for (const std::string& words : said) {
    const int fd = door.Connect();
    Say(fd, words.data(), words.size());
    const std::string heard = door.Heard(fd);
    EXPECT_EQ(heard.size(), 32u);
    EXPECT_NE(heard, before);
    before = heard;
    (void)close(fd);
  }
  EXPECT_EQ(door.gate->refused(), 3);
}

// The bytes of a connector that proves the secret, for an attacker who has listened to it.
TEST(Gate, NoMessageCanBeUsedAgain) {
  Door door;
  const int real = door.Connect();
  Nonce challenge, own = {};
  EXPECT_TRUE(door.Until([&] {
    return recv(real, challenge.data(), challenge.size(), MSG_DONTWAIT) == sizeof(challenge);
  }));
  const auto answer =
      Encode({1, own, MacOf(kSecret, ProofRole::kConnects, {"world", 1, 0}, challenge, own)});
  Say(real, answer.data(), answer.size());
  EXPECT_TRUE(door.Until([&] { return door.guests.size() == 1; }));
  const int again = door.Connect();
  Say(again, answer.data(), answer.size());
  EXPECT_EQ(door.Heard(again).size(), 32u);
  EXPECT_EQ(door.guests.size(), 1u);
  EXPECT_EQ(door.gate->refused(), 1);
  (void)close(real);
  (void)close(again);
}

TEST(Gate, NoMessageCanBeSentBack) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  Prover prover(ends[0], &kSecret, {"world", 1, 0});
  const Nonce challenge = {};
  Say(ends[1], challenge.data(), challenge.size());
  EXPECT_EQ(prover.Advance(), Prover::State::kUnderWay);
  std::array<unsigned char, ProofAnswer::kBytes> answer;
  ASSERT_EQ(recv(ends[1], answer.data(), answer.size(), 0), 68);
  const ProofAnswer told = DecodeAnswer(answer);
  // Its own proof is none of the listener's.
  Say(ends[1], told.mac.data(), told.mac.size());
  EXPECT_EQ(prover.Advance(), Prover::State::kRefused);
  (void)close(ends[1]);

  // To a gate: the connector's number and the gate's own, the other way round.
  Door door;
  const int fd = door.Connect();
  Nonce from_gate;
  EXPECT_TRUE(door.Until([&] {
    return recv(fd, from_gate.data(), from_gate.size(), MSG_DONTWAIT) == sizeof(from_gate);
  }));
  const auto back = Encode({0, from_gate, from_gate});
  Say(fd, back.data(), back.size());
  EXPECT_EQ(door.Heard(fd), "");
  EXPECT_TRUE(door.guests.empty());
  (void)close(fd);
}

TEST(Gate, AListenerWithoutTheSecretIsNoticed) {
  for (const bool answers : {false, true}) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    Prover prover(ends[0], &kSecret, kWorld);
    const std::string words = "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3 and so on, and so on, and...";
    Say(ends[1], words.data(), answers ? 64 : 20);
    if (!answers) (void)close(ends[1]);
    EXPECT_EQ(prover.Advance(), answers ? Prover::State::kRefused : Prover::State::kLost);
    if (answers) (void)close(ends[1]);
  }
}

// Silent ones, halves of proofs, and those that go at once: at most so many stay open, the oldest
// go first, and a process of the run comes through.
TEST(Gate, AThousandStrangersKeepNobodyOut) {
  Door door;
  std::vector<int> strangers;
  const auto answer = Encode(ProofAnswer());
  for (int i = 0; i < 1000; ++i) {
    strangers.push_back(door.Connect());
    if (i % 3 == 1) Say(strangers.back(), answer.data(), answer.size() / 2);
    if (i % 100 == 99) {
      ASSERT_TRUE(door.Until(
          [&] { return door.gate->refused() >= i + 1 - static_cast<int>(Gate::kMostUnproved); }));
    }
  }
  const int64_t most = static_cast<int64_t>(Gate::kMostUnproved);
  EXPECT_EQ(door.gate->refused(), 1000 - most);
  Prover prover(door.Connect(), &kSecret, {"world", 9, 0});
  EXPECT_EQ(door.End(&prover), Prover::State::kProven);
  EXPECT_EQ(door.gate->refused(), 1001 - most);
  EXPECT_EQ(door.Heard(strangers[0]).size(), 32u);  // and its end
  char piece[64];
  EXPECT_EQ(recv(strangers.back(), piece, sizeof(piece), MSG_DONTWAIT), 32);
  EXPECT_EQ(recv(strangers.back(), piece, sizeof(piece), MSG_DONTWAIT), -1);  // still open
  for (const int fd : strangers) (void)close(fd);
}

TEST(Gate, TimeIsLimited) {
  Door door(kWorld, /*proof_ns=*/0);
  const int fd = door.Connect();
  EXPECT_EQ(door.Heard(fd).size(), 32u);
  EXPECT_EQ(door.gate->refused(), 1);
  (void)close(fd);
}

using Environment = std::map<std::string, std::string>;

std::string Found(const Identity& identity, const Environment& environment) {
  const auto found = FindSecret(identity, [&](const char* name) -> const char* {
    const auto at = environment.find(name);
    return at == environment.end() ? nullptr : at->second.c_str();
  });
  return found.ok() ? found->Describe() : std::string(found.status().message());
}

Identity IdentityAt(const std::string& host, const std::string& source) {
  Identity identity;
  identity.processes = 4;
  identity.host = host;
  identity.port = 29500;
  identity.source = source;
  return identity;
}

TEST(FindSecret, TakesOnlyWhatIsOne) {
  const std::string none = "no secret (STRINGLINE_SECRET)";
  const std::string missing =
      "rank 0 is at gpu1:29500, to which others may connect, too, and the run has no secret: "
      "STRINGLINE_SECRET, the same for all its processes, would be one: export "
      "STRINGLINE_SECRET=$(openssl rand -hex 32), and with mpirun -x STRINGLINE_SECRET";
  const Environment given = {{"STRINGLINE_SECRET", "0123456789abcdef"}};
  const Environment mpirun = {
      {"OMPI_MCA_orte_precondition_transports", "0099b3eaa2c1547e-afb287789133a954"}};
  const Environment of_job = {
      {"OMPI_MCA_orte_precondition_transports", "017569a900000000-017569a900000000"}};
  const Environment srun = {{"PMI_SHARED_SECRET", "17221882673450021337"}, {"SLURM_JOB_ID", "7"}};
  const Environment numbers = {{"SLURM_JOB_ID", "123456789012345678"},
                               {"PMIX_NAMESPACE", "slurm.pmix.24471977.0"},
                               {"PBS_JOBCOOKIE", "00000000207DB83E000000005275737E"},
                               {"TORCHELASTIC_RUN_ID", "123456789012345678"}};
  EXPECT_EQ(Found(IdentityAt("gpu1", "the command line"), given),
            "the secret of STRINGLINE_SECRET");
  EXPECT_EQ(Found(IdentityAt("127.0.0.1", "the command line"), given),
            "the secret of STRINGLINE_SECRET");
  EXPECT_EQ(Found(IdentityAt("gpu1", "mpirun"), mpirun),
            "the secret of OMPI_MCA_orte_precondition_transports");
  EXPECT_EQ(Found(IdentityAt("gpu1", "srun"), srun), "the secret of PMI_SHARED_SECRET");
  for (const Environment& other : {Environment(), mpirun, of_job, numbers}) {
    EXPECT_EQ(Found(IdentityAt("gpu1", "srun"), other), missing);
    EXPECT_EQ(Found(IdentityAt("127.0.0.1", "srun"), other), none);
  }
  EXPECT_EQ(Found(IdentityAt("gpu1", "mpirun"), of_job), missing);
  for (const char* const half : {"017569a900000000-afb287789133a954",
                                 "0099b3eaa2c1547e-017569a900000000", "0099b3eaa2c1547e", ""}) {
    const Environment key = {{"OMPI_MCA_orte_precondition_transports", half}};
    EXPECT_EQ(Found(IdentityAt("gpu1", "mpirun"), key), missing) << half;
  }
  EXPECT_EQ(Found(IdentityAt("gpu1", "torchrun"), numbers), missing);
  Identity alone;
  EXPECT_EQ(Found(alone, {}), none);
}

TEST(FindSecret, AShortOneIsRefusedAndNotShown) {
  for (const char* const host : {"gpu1", "127.0.0.1"}) {
    EXPECT_EQ(Found(IdentityAt(host, "srun"), {{"STRINGLINE_SECRET", "hunter2"}}),
              "STRINGLINE_SECRET has 7 characters, and a secret has at least 16; openssl rand -hex "
              "32 prints a good one");
  }
  EXPECT_TRUE(absl::StartsWith(Found(IdentityAt("gpu1", "srun"), {{"STRINGLINE_SECRET", ""}}),
                               "STRINGLINE_SECRET has 0 characters"));
}

TEST(FindSecret, NewOnesAreLongAndNotAlike) {
  const std::string one = NewSecret(), two = NewSecret();
  EXPECT_EQ(one.size(), 64u);
  EXPECT_EQ(absl::HexStringToBytes(one).size(), 32u);
  EXPECT_NE(one, two);
}

}  // namespace
}  // namespace stringline
