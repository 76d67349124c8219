// One repetition of a case: a run of it from start to end, in a process of its own.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "tools/suite/prepared_case.h"
#include "tools/suite/results.h"

namespace stringline {

// A folder for as long as something is measured.
class MeasuringFolder {
 public:
  static absl::StatusOr<MeasuringFolder> Make();
  MeasuringFolder(MeasuringFolder&& other) noexcept : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  MeasuringFolder& operator=(MeasuringFolder&&) = delete;
  ~MeasuringFolder();  // it is gone, with all that is in it
  const std::string& path() const { return path_; }

 private:
  explicit MeasuringFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Torch, and the programs that run it: those of a checkout.
struct TorchPrograms {
  std::string runner;    // torch/run
  std::string program;   // bench/torch_pipeline.py
  std::string programs;  // what it and what it uses are: hashes
  std::string version;   // torch's
  std::string reason;    // why there is none; the others are "" then, but for what was found
};
// Looks for the checkout from this program's folder upwards, and then from the working folder, and
// asks torch for its version. Error: Cancelled.
absl::StatusOr<TorchPrograms> FindTorch(const std::function<bool()>& stop);

// What a repetition gave beside its figures.
struct MeasuredCase {
  Repetition repetition;
  std::string runs;
  int64_t params = 0;
  int64_t tokens_per_step = 0;
};

// `stringline run` of the case, with this very program. Errors: Cancelled when `stop` says so;
// otherwise the message is the reason why there is nothing.
absl::StatusOr<MeasuredCase> MeasureOwn(const PreparedCase& prepared, int warm_up,
                                        const std::string& folder,
                                        const std::function<bool()>& stop);
// The same in torch.distributed.pipelining.
absl::StatusOr<MeasuredCase> MeasureTorch(const PreparedCase& prepared, const TorchPrograms& torch,
                                          const std::string& folder,
                                          const std::function<bool()>& stop);

}  // namespace stringline
