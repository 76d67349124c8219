// A repetition of a case: a run from start to end, in its own process.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "tools/bench/prepared_case.h"
#include "tools/bench/results.h"

namespace stringline {

// A folder for the time of a measurement.
class MeasuringFolder {
 public:
  static absl::StatusOr<MeasuringFolder> Make();
  MeasuringFolder(MeasuringFolder&& other) noexcept : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  MeasuringFolder& operator=(MeasuringFolder&&) = delete;
  ~MeasuringFolder();  // removes the folder with its contents
  const std::string& path() const { return path_; }

 private:
  explicit MeasuringFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Torch, and a checkout's programs that run torch.
struct TorchPrograms {
  std::string runner;    // torch/run
  std::string program;   // bench/torch_pipeline.py
  std::string programs;  // hashes of the program and its modules
  std::string version;   // torch's
  std::string reason;    // why torch is missing; "" if found
};
// Looks for the checkout from this program's folder upwards, and then from the working folder, and
// asks torch for its version. Error: Cancelled.
absl::StatusOr<TorchPrograms> FindTorch(const std::function<bool()>& stop);

// The results of a repetition besides its figures.
struct MeasuredCase {
  Repetition repetition;
  std::string runs;
  int64_t params = 0;
  int64_t tokens_per_step = 0;
};

// `stringline run` of the case, by this very program. Errors: Cancelled when `stop` returns true;
// otherwise the message is the reason for the missing result.
absl::StatusOr<MeasuredCase> MeasureOwn(const PreparedCase& prepared, int warm_up,
                                        const std::string& folder,
                                        const std::function<bool()>& stop);
// The same in torch.distributed.pipelining.
absl::StatusOr<MeasuredCase> MeasureTorch(const PreparedCase& prepared, const TorchPrograms& torch,
                                          const std::string& folder,
                                          const std::function<bool()>& stop);

}  // namespace stringline
