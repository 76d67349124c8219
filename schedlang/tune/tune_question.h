// A question to the planner, as a command line or a program asks it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/session.h"
#include "schedlang/base/source.h"
#include "schedlang/tune/cluster.h"
#include "schedlang/tune/tune.h"

namespace stringline::tune {

struct TuneQuestion {
  Source model = Source("", "");    // MODEL.yaml
  Source cluster = Source("", "");  // CLUSTER.yaml
  int64_t global_batch = 1024;
  std::vector<std::string> pins;     // "tp=4,pp=8"
  std::vector<SlowRank> slow;        // GPUs of the cluster
  std::vector<SlowLink> slow_links;  // between two of them
  std::string jitter;                // "10%"; "": none
  int64_t evaluations = 0;
  int64_t shown = 12;
};

struct OpenedQuestion {
  Cluster cluster;
  TuneRequest request;
};
// Errors name the file and key, or the field.
absl::StatusOr<OpenedQuestion> OpenQuestion(const TuneQuestion& question);

}  // namespace stringline::tune
