// The cells of a torch CSV file: their extents, and the actions in them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedlang/base/source.h"
#include "schedlang/plan/plan.h"

namespace stringline {

struct TorchCell {
  absl::string_view text;  // without surrounding white space
  Span span;
};

// The rows, cut at commas. The line end of the last row is optional.
std::vector<std::vector<TorchCell>> TorchRows(const Source& source);

// The action of a cell or of a part of a group.
struct TorchAction {
  ActionKind kind = ActionKind::kForward;
  bool wait = false;  // for the end of `kind`, a send or a reduction
  StageId stage;
  MicrobatchId microbatch;
};

// Reads "2F0", "1UNSHARD", "0WAIT_SEND_F3". In `legacy` letters BW is a whole backward, B an input
// gradient. On a failure the result is empty and *fault describes the text seen.
std::optional<TorchAction> ReadTorchAction(absl::string_view text, bool legacy, std::string* fault);

// The printed kind of a well-formed single action: "F" in "2F0"; any text otherwise.
absl::string_view TorchKindOf(absl::string_view text);

}  // namespace stringline
