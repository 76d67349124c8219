// What a process says of itself when it joins a run, and whether it may.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stringline {

// What all processes of a run must have alike, as "learning_rate", "3e-4": the settings, the
// versions of libraries.
using ConfigLines = std::vector<std::pair<std::string, std::string>>;

struct Hello {
  int protocol = kProtocol;
  std::string nonce;  // of this start of the job (identity.h)
  int process = 0;
  int processes = 1;
  std::string host;
  std::string trouble;  // why it cannot run, and comes only to say so; "": it can
  ConfigLines config;   // sorted

  static constexpr int kProtocol = 2;
};

// Of a hello of another protocol only `protocol` is read.
std::string Encode(const Hello& hello);
std::optional<Hello> DecodeHello(absl::string_view bytes);

// "rank 2 on gpu07".
std::string NameOf(const Hello& hello);

// Whether `theirs` is of the run of process 0, whose hello is `mine`; else why not.
absl::Status CheckNonce(const Hello& mine, const Hello& theirs);
// InvalidArgument where protocols or numbers of processes differ, or there is no such rank.
absl::Status CheckPlace(const Hello& mine, const Hello& theirs);
// InvalidArgument names both and the first settings that differ.
absl::Status CheckConfig(const Hello& mine, const Hello& theirs);

}  // namespace stringline
