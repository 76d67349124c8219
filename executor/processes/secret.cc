#include "executor/processes/secret.h"

#include <sodium.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/processes/frames.h"
#include "executor/processes/identity.h"
#include "executor/processes/sockets.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr char kMpirunKey[] = "OMPI_MCA_orte_precondition_transports";
constexpr char kSrunKey[] = "PMI_SHARED_SECRET";

void Prepare() {
  static const bool ready = sodium_init() >= 0;
  SL_CHECK(ready) << "libsodium has no source of random bytes";
}

// Open MPI's key is two numbers of 64 bits, "0099b3eaa2c1547e-afb287789133a954". Where a process
// was started without mpirun, it is made of the job's number instead, and the lower half of each is
// zero.
bool IsRandomKey(absl::string_view key) {
  constexpr size_t kDigits = 16;
  return key.size() == 2 * kDigits + 1 && key[kDigits] == '-' &&
         !absl::EndsWith(key.substr(0, kDigits), "00000000") && !absl::EndsWith(key, "00000000");
}

}  // namespace

std::string Secret::Describe() const {
  return none() ? absl::StrCat("no secret (", kSecretName, ")")
                : absl::StrCat("the secret of ", source_);
}

Secret::Mac Secret::Sign(absl::Span<const std::string> parts) const {
  Prepare();
  const std::string text = Pack(parts);
  const auto bytes_of = [](const std::string& s) {
    return reinterpret_cast<const unsigned char*>(s.data());
  };
  Mac mac;
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes_of(bytes_), bytes_.size());
  crypto_auth_hmacsha256_update(&state, bytes_of(text), text.size());
  crypto_auth_hmacsha256_final(&state, mac.data());
  return mac;
}

bool AreEqual(const Secret::Mac& a, const Secret::Mac& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

void FillRandomly(absl::Span<unsigned char> bytes) {
  Prepare();
  randombytes_buf(bytes.data(), bytes.size());
}

std::string NewSecret() {
  unsigned char bytes[32];
  FillRandomly(absl::MakeSpan(bytes));
  char text[2 * sizeof(bytes) + 1];
  return sodium_bin2hex(text, sizeof(text), bytes, sizeof(bytes));
}

absl::Status CheckSecret(const Identity& identity) {
  if (identity.processes == 1 || !identity.secret.none() || IsLoopback(identity.host)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("rank 0 is at ", AddressText(identity.host, identity.port),
                   ", to which others may connect, too, and the run has no secret: ", kSecretName,
                   ", the same for all its processes, would be one: export ", kSecretName,
                   "=$(openssl rand -hex 32), and with mpirun -x ", kSecretName));
}

absl::StatusOr<Secret> FindSecret(const Identity& identity,
                                  absl::FunctionRef<const char*(const char* name)> environment) {
  const auto text_of = [&](const char* name) {
    const char* const text = environment(name);
    return std::string(text == nullptr ? "" : text);
  };
  Identity with = identity;
  if (environment(kSecretName) != nullptr) {
    const std::string secret = text_of(kSecretName);
    if (secret.size() < kLeastSecretBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          kSecretName, " has ", secret.size(), " characters, and a secret has at least ",
          kLeastSecretBytes, "; openssl rand -hex 32 prints a good one"));
    }
    with.secret = Secret(secret, kSecretName);
  } else if (identity.source == "mpirun" && IsRandomKey(text_of(kMpirunKey))) {
    with.secret = Secret(text_of(kMpirunKey), kMpirunKey);
  } else if (identity.source == "srun" && text_of(kSrunKey).size() >= kLeastSecretBytes) {
    with.secret = Secret(text_of(kSrunKey), kSrunKey);
  }
  // A process that joins over TCP is asked again.
  if (!identity.knows_mpi) SL_RETURN_IF_ERROR(CheckSecret(with));
  return with.secret;
}

}  // namespace stringline
