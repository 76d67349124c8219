// The questions of schedlang/ask from the JSON of a call. Reading is strict: a field has one type
// and range, and a field that no question has is refused by name. Errors name fields as keywords.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schedlang/ask/search_question.h"
#include "schedlang/ask/session.h"
#include "schedlang/base/fields.h"
#include "tools/answers/sim_sweep.h"
#include "tools/io/json.h"
#include "tools/io/picture_options.h"

namespace stringline::python {

// The fields of a JSON object, each read once. A field that is missing or null leaves its variable
// as it is. The first error is kept for Done.
class Fields {
 public:
  // `json` outlives the reader.
  explicit Fields(const Json& json);

  void Read(const char* name, std::string* text);
  void Read(const char* name, std::optional<std::string>* text);
  void Read(const char* name, bool* flag);
  // A text, or a whole number in digits.
  void ReadWritten(const char* name, std::string* text);
  void ReadWord(const char* name, const std::vector<std::string>& words, std::string* word);
  void ReadNumber(const char* name, int least, int most, int* number);
  void ReadNumber(const char* name, double least, double most, double* number);

  // The value, for a type of its own; null if it is missing.
  const Json* Take(const char* name);
  void Require(const char* name);
  // Keeps the error, if it is one and the first.
  void Keep(absl::Status status) { error_.Update(std::move(status)); }

  // The first error, or that of a field which nobody has read.
  absl::Status Done();

 private:
  const Json& json_;
  std::set<std::string> read_;
  absl::Status error_;
};

// file, text, schedule, again, parameters.
void ReadPlan(Fields* fields, PlanRequest* plan);
void ReadParameters(Fields* fields, std::vector<Parameter>* parameters);
// costs: an object with one of `table` (keys and values), `text` ("F=1,B=2"), `yaml` (the text of a
// cost file) and `file`; slow, work, mesh, sharding, bucket.
void ReadCosts(Fields* fields, CostRequest* costs);
std::optional<CommLayout> ReadLayout(Fields* fields);
// layout, messages.
void ReadMessages(Fields* fields, MessageRequest* messages);
// layout, buffers, lazy, activations, memory, host_memory, and costs.
void ReadCheck(Fields* fields, CheckRequest* check);
// svg, html, perfetto, chrome, width, fold, lanes, ranks, time, microbatches, no_title, palette,
// force.
void ReadPicture(Fields* fields, PictureQuestion* picture);
// parameters, begin (a plan's fields), place, split, layers, minimize, activations, memory,
// host_memory, kinds, pairs, recompute, offload, seconds, iterations, seed, and costs.
void ReadSearch(Fields* fields, SearchQuestion* question);
// schedules (a plan's fields, for each), again, ranges (a text or numbers, by parameter), layout,
// and costs.
void ReadSweep(Fields* fields, SimSweepQuestion* sweep);

// slow[3], work="model", and a range as the keyword that gives it: P="2..64".
std::string AsPython(const NamedField& field);

}  // namespace stringline::python
