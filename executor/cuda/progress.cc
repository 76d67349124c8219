#include "executor/cuda/progress.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stringline {
namespace {

// The number of streams named; the rest are only counted.
constexpr size_t kMostNamed = 8;

bool Ended(const OpPlace& record, const std::vector<uint32_t>& ended) {
  return !record.stream.valid() || record.op < ended[record.stream.value];
}

// The op's mark.
std::string NameOf(const std::vector<IssueOp>& ops, uint32_t at) {
  for (uint32_t i = at + 1; i > 0; --i) {
    const IssueOp& op = ops[i - 1];
    if (op.kind == StreamOpKind::kMark) return op.print(op.self, op.argument);
  }
  const IssueOp& op = ops[at];
  if (op.kind == StreamOpKind::kMeet) {
    return absl::StrCat("meeting ", op.meeting->describe(op.meeting->link, op.index, op.self));
  }
  return absl::StrCat("operation ", at + 1, " of ", ops.size());
}

// Marks and records take no time, and neither does a wait for a past record.
void AddWhatFollows(const StepOps& ops, const std::vector<OpPlace>& records,
                    std::vector<uint32_t>* ended) {
  for (bool more = true; more;) {
    more = false;
    for (size_t s = 0; s < ops.size(); ++s) {
      for (uint32_t& at = (*ended)[s]; at < ops[s].size(); ++at, more = true) {
        const IssueOp& op = ops[s][at];
        const bool over = op.kind == StreamOpKind::kMark || op.kind == StreamOpKind::kRecord ||
                          (op.kind == StreamOpKind::kWait && Ended(records[op.index], *ended));
        if (!over) break;
      }
    }
  }
}

}  // namespace

std::vector<OpPlace> RecordsOf(const StepOps& ops, int events) {
  std::vector<OpPlace> records(static_cast<size_t>(events));
  for (size_t s = 0; s < ops.size(); ++s) {
    for (uint32_t i = 0; i < ops[s].size(); ++i) {
      if (ops[s][i].kind != StreamOpKind::kRecord) continue;
      records[ops[s][i].index] = {StreamId(static_cast<int32_t>(s)), i};
    }
  }
  return records;
}

std::string DescribeProgress(const Issuer& issuer, const StepOps& ops,
                             std::vector<uint32_t> ended) {
  AddWhatFollows(ops, RecordsOf(ops, issuer.events()), &ended);
  std::vector<std::string> come, wait;
  for (size_t s = 0; s < ops.size(); ++s) {
    const uint32_t at = ended[s];
    if (at >= ops[s].size()) continue;
    const std::string stream = issuer.NameOf(StreamId(static_cast<int32_t>(s)));
    const IssueOp& op = ops[s][at];
    if (op.kind == StreamOpKind::kWait) {
      wait.push_back(absl::StrCat(stream, " waits for ", issuer.NameOf(EventId(op.index))));
    } else {
      come.push_back(absl::StrCat(stream, " came as far as ", NameOf(ops[s], at)));
    }
  }
  come.insert(come.end(), wait.begin(), wait.end());
  if (come.empty()) return "every stream came to its end";
  const size_t left = come.size() > kMostNamed ? come.size() - kMostNamed : 0;
  come.resize(come.size() - left);
  return absl::StrCat(absl::StrJoin(come, "; "),
                      left == 0 ? "" : absl::StrCat("; and ", left, " more streams"));
}

}  // namespace stringline
