// The calls that flight recorders kept, of all ranks, with what calls have in common held once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stringline {

// A collective or a message as one rank called it: all that its partners have to agree with.
struct CallShape {
  std::string backend;  // nccl, gloo; the word before the colon
  std::string name;     // all_reduce, send, recv
  // The sender and the receiver of a message, as ranks of the process group; -1: a collective, or
  // the sender of a receive from anyone.
  int from = -1;
  int to = -1;
  std::string inputs, outputs;  // "[4, 8] Float, [8] Float"
  int64_t input_elements = 0, output_elements = 0;
  std::string input_dtypes, output_dtypes;  // "Float, Float"

  bool IsSend() const { return name == "send"; }
  bool IsReceive() const { return name == "recv"; }
  bool IsMessage() const { return IsSend() || IsReceive(); }
  // The end of a call of several parts, which are calls of their own before it.
  bool IsEndOfGroup() const;
};

// The innermost frame of a call's stack that is not torch's own.
struct CodePlace {
  std::string file;
  std::string function;
  int64_t line = 0;
};

struct RecordedGroup {
  std::string name;          // "0"
  std::string description;   // "default_pg"
  std::vector<int> members;  // ranks of the job, in the group's order
  bool is_listed = false;    // the dumps list its members; else those that made calls in it
};

enum class CallState : uint8_t { kScheduled, kStarted, kEnded };

struct RecordedCall {
  int32_t group = 0;     // index into Records::groups
  int32_t shape = 0;     // index into Records::shapes
  int32_t place = -1;    // index into Records::places; -1: the dump has no stacks
  int64_t record = 0;    // number in the rank's recorder
  int64_t sequence = 0;  // of collectives of the group, or of its messages
  int64_t timeout_ms = 0;
  CallState state = CallState::kScheduled;
  bool is_message = false;  // counted by the sequence of messages, also the end of a group of them
  bool timed_out = false;   // the recorder gave it up before it ended
  bool of_object = false;   // carries a pickled object, not a tensor of the program
};

struct RankRecord {
  int rank = 0;
  std::string file;
  std::string cut_short;            // why the file has no calls: it ends early; "" for a whole one
  std::vector<RecordedCall> calls;  // in the order in which they were made
  // The recorder has overwritten its first calls.
  bool dropped = false;
};

// A call: its rank, as an index into Records::ranks, and its index there.
struct CallAt {
  int32_t rank = -1;
  int32_t call = -1;
};

struct Records {
  std::vector<CallShape> shapes;
  std::vector<CodePlace> places;
  std::vector<RecordedGroup> groups;
  std::vector<RankRecord> ranks;  // by rank; ranks without a file are missing
  int world = 0;                  // ranks of the job, as far as files and groups name them

  // The record of a rank of the job; null: it has no file.
  const RankRecord* Find(int rank) const;
  // The place of a rank of the job in `ranks`; -1: there are no calls of it.
  int32_t IndexOf(int rank) const;
  const RecordedCall& At(const CallAt& at) const { return ranks[at.rank].calls[at.call]; }
  const CallShape& ShapeOf(const CallAt& at) const { return shapes[At(at).shape]; }
};

// Takes the dumps of ranks, one after the other, and gives the records of all.
class RecordCollector {
 public:
  // A dump of torch's flight recorder, as a pickle or as JSON. A file that ends early is kept as
  // that of a rank that died. Errors: no dump, with a reason; InvalidArgument.
  absl::Status Add(int rank, std::string file, absl::string_view bytes);

  // Ranks in order, groups with members. `world`: how many ranks there were, or 0.
  Records Finish(int world);

 private:
  friend class DumpReader;

  int32_t ShapeOf(CallShape shape);
  int32_t PlaceOf(CodePlace place);
  int32_t GroupOf(const std::string& name, const std::string& description,
                  const std::vector<int>* members);

  Records records_;
  std::unordered_map<std::string, int32_t> shape_of_, place_of_, group_of_;
};

// The rank in a file's name, as torch writes it: the digits at its end, or before its ending
// ("nccl_trace_rank_3", "rank3.json"); -1 without any.
int RankOfName(absl::string_view path);

}  // namespace stringline
