// The secret of a run: bytes that all of its processes have, and nobody else. Processes prove it to
// each other (proof.h); it is never sent, printed or written.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace stringline {

struct Identity;

inline constexpr char kSecretName[] = "STRINGLINE_SECRET";
inline constexpr size_t kLeastSecretBytes = 16;

class Secret {
 public:
  using Mac = std::array<unsigned char, 32>;

  Secret() = default;  // none: a key that everybody has
  // `source` names the variable that holds it.
  Secret(std::string bytes, std::string source)
      : bytes_(std::move(bytes)), source_(std::move(source)) {}

  bool none() const { return bytes_.empty(); }
  // "the secret of STRINGLINE_SECRET"; "no secret".
  std::string Describe() const;
  // HMAC-SHA256 of the parts, with their lengths.
  Mac Sign(absl::Span<const std::string> parts) const;

 private:
  std::string bytes_;
  std::string source_;
};

// Compares in a time that does not depend on the bytes.
bool AreEqual(const Secret::Mac& a, const Secret::Mac& b);
void FillRandomly(absl::Span<unsigned char> bytes);

// A new secret in hexadecimal, for STRINGLINE_SECRET.
std::string NewSecret();

// The secret of a process with this identity, in this order:
//   STRINGLINE_SECRET
//   of mpirun's processes: Open MPI's 128 random bits for the job's transports
//   of srun's: PMI_SHARED_SECRET, 64 random bits for the step, from Slurm's plugin mpi/cray_shasta
// No secret without these, if process 0 is on the loopback, or there is only one process.
// InvalidArgument: the secret is too short, or there is none and the run is not on the loopback.
absl::StatusOr<Secret> FindSecret(const Identity& identity,
                                  absl::FunctionRef<const char*(const char* name)> environment);

// InvalidArgument: other hosts may connect to the run, and it has no secret.
absl::Status CheckSecret(const Identity& identity);

}  // namespace stringline
