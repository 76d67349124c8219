// The introduction of a process that joins a run, and the checks on it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stringline {

// Settings and library versions that must be equal in all processes of a run, as "learning_rate",
// "3e-4".
using ConfigLines = std::vector<std::pair<std::string, std::string>>;

struct Hello {
  int protocol = kProtocol;
  std::string nonce;  // for this start of the job (identity.h)
  int process = 0;
  int processes = 1;
  std::string host;
  std::string trouble;  // the reason if this process cannot run and joins only to report; "": none
  ConfigLines config;   // sorted

  static constexpr int kProtocol = 4;
};

// For a hello of another protocol only `protocol` is read.
std::string Encode(const Hello& hello);
std::optional<Hello> DecodeHello(absl::string_view bytes);

// "process 2 on gpu07": which ranks it has is not agreed on yet.
std::string NameOf(const Hello& hello);

// OK if `theirs` is of the run of process 0, whose hello is `mine`; else the reason.
absl::Status CheckNonce(const Hello& mine, const Hello& theirs);
// InvalidArgument if protocols or numbers of processes differ, or the process does not exist.
absl::Status CheckPlace(const Hello& mine, const Hello& theirs);
// InvalidArgument names both processes and the first differing settings.
absl::Status CheckConfig(const Hello& mine, const Hello& theirs);

}  // namespace stringline
