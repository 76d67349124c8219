// Copies of a parameter hold the same bits: on every data coordinate, in every pipe, and of tied
// parameters. A copy that drifts (faulty memory, a kernel that is not deterministic, another
// library on a host) trains another model without a word, so a run compares a sum over each copy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/training/trainer.h"

namespace stringline {

// A sum over the bits of values, each times an odd number that follows from its place, modulo 2^64:
// two arrays that differ in a single value have different sums.
uint64_t SumOfCopy(absl::Span<const float> values, int64_t first = 0);

class CopyCheck {
 public:
  explicit CopyCheck(Trainer* trainer);

  // True if some parameter has several copies, in whatever process. False: Compare does nothing.
  bool has_copies() const { return !copied_.empty(); }
  // Compares all copies after so many steps; between steps, in all processes alike. Costs a pass
  // over the parameters of this process, and two exchanges: the sums, and the verdict. DataLoss
  // names the first parameter of the model whose copies differ, and its ranks.
  absl::Status Compare(int64_t step);

 private:
  // A copy of some values of a parameter.
  struct Part {
    int coordinate = 0;
    StageId stage;
    int param = 0;       // of the stage's program
    int block = -1;      // of the stage's pieces, where each member keeps only its own
    int place = 0;       // among the blocks that the member owns
    int64_t first = 0;   // in the whole parameter
    bool tells = false;  // there are other copies
  };

  void AddParts(int coordinate, StageId stage);
  int RankOf(const Part& part) const;
  std::string NameOf(const Part& part) const;
  absl::StatusOr<uint64_t> SumOf(const Part& part);
  absl::StatusOr<std::vector<uint64_t>> AllSums();
  std::string Describe(const std::vector<uint64_t>& sums) const;
  std::string DescribeOne(absl::Span<const int> copies, const std::vector<uint64_t>& sums) const;

  Trainer* const trainer_;
  std::vector<Part> parts_;               // of all processes, in the same order everywhere
  std::vector<std::vector<int>> copied_;  // parts that hold the same values, two or more
  std::vector<float> buffer_;             // of values that lie on a GPU
};

}  // namespace stringline
