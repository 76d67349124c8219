#include "executor/cuda/attention_library.h"

#include "absl/strings/str_cat.h"

namespace stringline::cuda {

std::string ToString(const AttentionProblem& problem) {
  return absl::StrCat(problem.gradient ? "the gradient of attention" : "attention", " of ",
                      problem.batch, " x ", problem.positions, " positions, ", problem.heads,
                      " heads of ", problem.size, " channels, ", problem.kv_heads, " of keys",
                      problem.deterministic ? "" : ", not deterministic");
}

}  // namespace stringline::cuda
