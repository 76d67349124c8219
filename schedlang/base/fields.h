// Fields of questions in error messages. A message names a field in backquotes, with a value where
// it proposes one, and so reads well as it is:
//
//   `memory`: there is no rank 4; the plan has 4
//   give costs of the whole model (`work=model`), or a model's shape (`costs=FILE.yaml`)
//
// Whoever asked the question spells its fields as users write them: --memory and --work model on a
// command line, memory and work="model" in Python, memory and work: model in a run file.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stringline {

struct NamedField {
  absl::string_view name;   // "slow"
  absl::string_view index;  // of an entry, "3"; "" without
  absl::string_view value;  // "model"; "" without
};

// InvalidArgument "`slow[3]`: MESSAGE", of which FieldOf is "slow[3]".
absl::Status FieldError(absl::string_view field, absl::string_view message);
// The field that an error is about; "" if the error names none.
std::string FieldOf(const absl::Status& error);

using SpellField = std::string (*)(const NamedField& field);
// "--memory", "--work model".
std::string AsOption(const NamedField& field);
// memory, slow[3], work="model".
std::string AsKeyword(const NamedField& field);
// memory, work: model.
std::string AsKey(const NamedField& field);

// The message with every field spelled so.
std::string WithFields(absl::string_view message, SpellField spell);

}  // namespace stringline
