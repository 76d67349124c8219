// Giving a name of a schedule's text another spelling.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/base/source.h"
#include "tools/lsp/names.h"

namespace stringline {

// The index of the word at the place, if its name can be changed. InvalidArgument for anything
// else: a word of the language, a layout, an undefined name, P and M.
absl::StatusOr<size_t> RenamableAt(const NameTable& names, uint32_t offset);

// The words that become `to`: exactly the words with the meaning of the name at this place.
// InvalidArgument for every refusal of RenamableAt, for a `to` that is no name, and where a word of
// the text would then mean something else or be defined twice.
absl::StatusOr<std::vector<Span>> Rename(const Source& source, const NameTable& names,
                                         uint32_t offset, const std::string& to);

}  // namespace stringline
