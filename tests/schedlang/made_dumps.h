// Dumps of a flight recorder, made in a test: calls of ranks that need no process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/diagnose/diagnosis.h"

namespace stringline {

// A call as the recorder keeps it.
struct MadeCall {
  std::string name;  // "all_reduce", "send 0->1"
  bool ended = true;
  int64_t sequence = 1;
  int size = 4;
  std::string dtype = "Float";
  int line = 10;
  bool retired = false;
  std::string backend = "nccl";
};

inline std::string MadeEntry(const MadeCall& call, int64_t record) {
  const bool is_message = call.name.find(' ') != std::string::npos || call.name == "coalesced";
  const std::string tensor = absl::StrCat("[[", call.size, "]]");
  const std::string dtype = absl::StrCat("[\"", call.dtype, "\"]");
  return absl::StrCat(
      "{\"frames\":[{\"name\":\"f\",\"filename\":\"/lib/torch/distributed/x.py\",\"line\":1},"
      "{\"name\":\"step\",\"filename\":\"train.py\",\"line\":",
      call.line, "}],\"record_id\":", record,
      ",\"process_group\":[\"0\",\"default_pg\"],\"profiling_name\":\"", call.backend, ":",
      call.name, "\",\"collective_seq_id\":", is_message ? 0 : call.sequence,
      ",\"p2p_seq_id\":", is_message ? call.sequence : 0,
      ",\"is_p2p\":", is_message ? "true" : "false", ",\"input_sizes\":", tensor,
      ",\"output_sizes\":", tensor, ",\"input_dtypes\":", dtype, ",\"output_dtypes\":", dtype,
      ",\"state\":\"", call.ended ? "completed" : "scheduled",
      "\",\"retired\":", call.retired ? "true" : "false", "}");
}

// The dump of a rank of the job's only group, with so many ranks.
inline std::string MadeDump(int ranks, const std::vector<MadeCall>& calls, int64_t first = 0) {
  std::string members, entries;
  for (int r = 0; r < ranks; ++r) absl::StrAppend(&members, r ? ", " : "", r);
  for (size_t i = 0; i < calls.size(); ++i) {
    absl::StrAppend(&entries, i ? "," : "", MadeEntry(calls[i], first + static_cast<int64_t>(i)));
  }
  return absl::StrCat(
      "{\"version\":\"2.10\",\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":\"default_pg\","
      "\"ranks\":\"[",
      members, "]\"}},\"entries\":[", entries, "]}");
}

}  // namespace stringline
