// The keys of a run file: sections of keys, each with the place of its value and its range, and the
// keys beside them. The reader fills these places (run_config.cc), and SettingsOf reads them back,
// so every key of these tables is also compared between the processes of a run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "executor/run/run_config.h"
#include "executor/run/section_reader.h"
#include "schedlang/costs/model_keys.h"

namespace stringline {

// Values of keys whose meaning depends on other keys: words, and sizes of a shape known only when
// all is read.
struct RunWishes {
  std::string kind;
  int context = 0;
  int microbatch = 0;
  std::string scores = "softmax";
  std::string capacity = "dropless";
  std::string exceeded = "error";
  double aux_coefficient = 0;
  double dropout = 0;
  std::vector<std::string> recompute;
  std::string rows = "padded";
  std::string sums = "ordered";
  std::string layout = "edge";
  int replicate = 0;
  std::vector<std::string> split;  // for an exported model
};

// The kinds of `model`, each with its default shape.
struct RunModelKind {
  const char* name;
  AnyShape shape;
};
const std::vector<RunModelKind>& RunModelKinds();

// All sections. `origin` is the key from which the model comes, "folder" or "export", or "".
std::vector<Section> RunSections(RunConfig* config, RunWishes* wishes, absl::string_view origin);

// The keys beside the sections: those with a word, and those with a number of some unit.
inline constexpr WordChoice kDeviceKey = {"device", {"auto", "cpu", "cuda"}};
inline constexpr WordChoice kPrecisionKey = {model_key::kPrecision, {"fp32", "bf16"}};
inline constexpr WordChoice kCaptureKey = {"capture", {"auto", "off"}};
inline constexpr WordChoice kDeterministicKey = {"deterministic", {"on", "off"}};
inline constexpr WordChoice kShardingKey = {model_key::kSharding,
                                            {"none", "optimizer", "gradients", "parameters"}};
inline constexpr WordChoice kElasticKey = {"elastic", {"false", "true"}};
inline constexpr WordChoice kTransportKey = {"transport", {"auto", "tcp", "mpi"}};
inline constexpr WordChoice kWordsBeside[] = {kDeviceKey,        kPrecisionKey, kCaptureKey,
                                              kDeterministicKey, kShardingKey,  kElasticKey,
                                              kTransportKey};
inline constexpr const char* kNumbersBeside[] = {"timeout", "gpus", "sms_per_rank", "bucket"};

// The keys of sections whose values are words.
inline constexpr WordChoice kScoresKey = {"scores", {"softmax", "sigmoid"}};
inline constexpr WordChoice kExceededKey = {"exceeded", {"error", "drop"}};
inline constexpr WordChoice kRecomputeKey = {"recompute",
                                             {"none", "attn", "experts", "all", "schedule"}};
inline constexpr WordChoice kRowsKey = {"rows", {"padded", "counted"}};
inline constexpr WordChoice kSumsKey = {"sums", {"ordered", "nccl"}};
inline constexpr WordChoice kLayoutKey = {"layout", {"edge", "pair", "updown", "shared"}};

using RunSettings = std::vector<std::pair<std::string, std::string>>;

// Every key with its value in the run, including defaults and the command line's wishes:
// "model.heads" and "4", "precision" and "bf16". A model from a folder has the sizes of its kind,
// an exported model a hash of its program.
RunSettings SettingsOf(const RunConfig& config);

}  // namespace stringline
