// Reads the words of a text form (a plan's, a timeline's): lines of words, `#` starts a comment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/plan/plan.h"

namespace stringline {

struct Word {
  absl::string_view text;
  Span span;
};

// The nonempty lines, each split at white space, comments dropped.
std::vector<std::vector<Word>> WordLines(const Source& source);

// A whole decimal number in [0, limit]; nothing otherwise.
std::optional<int64_t> ReadNumber(absl::string_view text, int64_t limit);

// "P=4"; nothing for another form.
std::optional<Parameter> ReadParameter(absl::string_view text);

// The value of a parameter, or nothing.
std::optional<int64_t> ValueOf(const std::vector<Parameter>& parameters, absl::string_view name);

// "slices 4": a line of a plan or a timeline whose microbatches have slices. Nothing for another
// number than 2 to kMostSlices; BadSlices says so.
std::optional<int> ReadSlices(const std::vector<Word>& words);
std::string BadSlices();
// True for "forward only": such a line of a plan or a timeline without backwards.
bool IsForwardOnly(const std::vector<Word>& words);

// "edges 0>1 0>2 1>2" of a plan of so many stages; nothing for another line, an edge that is there
// twice, or none. Cycles are not looked for.
std::optional<std::vector<Edge>> ReadEdges(absl::Span<const Word> words, int stages);

// "skip 2@1 2@3": stages that microbatches of a step leave out, below `stages` and `microbatches`;
// nothing for another line, or one that is there twice.
std::optional<std::vector<Skip>> ReadSkips(absl::Span<const Word> words, int stages,
                                           int microbatches);

// Reads an action's printed form ("3F7", "0SEND_F1"; "up[3]F7" in a plan with pipes, "3F7.1" in
// one with slices, "0SEND_F1>2" in one whose stages are no chain) from the front of *text and cuts
// it off. False, with *text unspecified, if *text begins otherwise.
bool ReadAction(absl::Span<const Pipe> pipes, const OwnRows& rows, int slices,
                absl::string_view* text, Action* action);

}  // namespace stringline
